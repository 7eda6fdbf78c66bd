"""What a GPU does for a scalar function of f32: additions and multiplications, a fused one being two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ON_DEVICE: Final[Mapping[str, tuple[int, int]]] = {
    "div": (10, 1),
    "fmod": (26, 26),
    "pow": (56, 56),
    "atan2": (30, 30),
    "hypot": (7, 7),
    "sqrt": (6, 0),
    "rsqrt": (0, 0),
    "exp": (10, 2),
    "exp2": (0, 2),
    "expm1": (20, 8),
    "log": (24, 24),
    "log2": (26, 26),
    "log10": (25, 25),
    "log1p": (26, 26),
    "sigmoid": (21, 5),
    "sin": (16, 16),
    "cos": (16, 16),
    "tan": (19, 19),
    "asin": (14, 14),
    "acos": (15, 15),
    "atan": (26, 26),
    "sinh": (22, 22),
    "cosh": (12, 12),
    "tanh": (15, 9),
    "asinh": (40, 40),
    "acosh": (56, 56),
    "atanh": (30, 30),
    "erf": (16, 16),
    "erfc": (53, 14),
    "lgamma": (203, 203),
}
"""Of the functions, and of a division, for ordinary operands: exactly, and where the result is rounded to 16 bits.

Source: counted in machine code for sm_90, of Triton 3.7, by `python -m benchmarks.device_arithmetic`.
"""
