"""What devices of an architecture have; nothing here reads anything else, so that every process may."""

FIRST_WITH_DESCRIPTORS = 90
"""The first architecture that loads tiles by tensor descriptors.

Source: a definition: the PTX ISA, `cp.async.bulk.tensor`.
"""

__all__ = ["FIRST_WITH_DESCRIPTORS"]
