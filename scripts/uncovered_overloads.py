#!/usr/bin/env python
"""Lists the overloads of the schema table that have no rule, no decomposition, and do not go to a library on purpose.

    scripts/uncovered_overloads.py [WORD …]      only those whose name contains one of the words

In-place and out variants are left out (AOTAutograd makes them functional), and so are composite overloads.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch._ops import OpOverload


def main(words: list[str]) -> None:
    """Prints one overload a line, as `aten.name.overload`."""
    import torch

    from cuesta.lowering.aten.aten_to_loops import RULES
    from cuesta.lowering.aten.library_calls import is_library_call
    from cuesta.lowering.capture.decompositions import decomposition_table

    taken_apart = decomposition_table()
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            full = f"aten.{name}.{overload}"
            if full in RULES or is_library_call(full) or (words and not any(word in full for word in words)):
                continue
            op = getattr(packet, overload, None)
            if op is None or op in taken_apart or op._schema.is_mutable or "out" in overload or "dimname" in overload:
                continue
            if not _is_composite(op):
                print(full)


def _is_composite(op: OpOverload) -> bool:
    """Whether autograd takes the overload apart; TorchScript's own overloads are nobody's business either."""
    try:
        return op._can_decompose()
    except RuntimeError:  # the dispatcher does not know it
        return True


if __name__ == "__main__":
    main(sys.argv[1:])
