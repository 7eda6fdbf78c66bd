"""PTX that NVIDIA's assembler takes wrongly, said otherwise.

    add.s16x2 %r3, %r1, %r2;
    →
    { .reg .b16 %one<2>, %other<2>; mov.b32 {%one0, %one1}, %r1; mov.b32 {%other0, %other1}, %r2;
      add.s16 %one0, %one0, %other0; add.s16 %one1, %one1, %other1; mov.b32 %r3, {%one0, %one1}; }

Where one summand is a constant, and one half of the sum is used, `ptxas` (12.8, 13.0 and 13.1, from -O1 on, for sm_90,
sm_100 and sm_120) forgets the constant: `VIADD.16x2 R0, R0, 0x0`. Whatever the constant is, and with `add.u16x2`, too.
LLVM makes such sums of indices that fit into 16 bits, side by side: the places of a window of 3 by 3 in a tile of 256
rows and 16 lanes lost their `- 1`, so that an average read what is not of its window, and behind the end of memory.
Sums of floats, and minima and maxima of such halves, are right (`tests/targets/triton/test_mended_ptx.py`).

Nothing here needs Triton, or a GPU.
"""

from __future__ import annotations

import re

_ADDED = re.compile(r"\badd\.[su]16x2\s+(%\w+),\s*(%\w+),\s*(%\w+);")


def mended(ptx: str) -> str:
    """The same program without sums of two halves; the same text where there are none. Exact."""
    return _ADDED.sub(_by_halves, ptx) if "16x2" in ptx else ptx


def _by_halves(found: re.Match[str]) -> str:
    result, one, other = found.groups()
    return (
        f"{{ .reg .b16 %one<2>, %other<2>; mov.b32 {{%one0, %one1}}, {one}; mov.b32 {{%other0, %other1}}, {other}; "
        f"add.s16 %one0, %one0, %other0; add.s16 %one1, %one1, %other1; mov.b32 {result}, {{%one0, %one1}}; }}"
    )


__all__ = ["mended"]
