"""What devices of an architecture have; nothing here reads anything else, so that every process may."""

FIRST_WITH_DESCRIPTORS = 90
"""The first architecture that loads tiles by tensor descriptors.

Source: a definition: the PTX ISA, `cp.async.bulk.tensor`.
"""

MEASURED_IN_PIECES = (90,)
"""The architectures on which products of f32 in pieces of bf16 (`bf16x6`) were measured beside the library's.

Source: `make bench-products ARGS=--single` on an H200; `max-autotune` measures it on any other.
"""

__all__ = ["FIRST_WITH_DESCRIPTORS", "MEASURED_IN_PIECES"]
