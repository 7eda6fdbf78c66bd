"""erf of f32: a table of polynomials where registers can be looked up in, a quotient of polynomials elsewhere.

The coefficients are minimax fits of this project, made by Lawson's iteration in float64 and rounded one after another.
"""

from __future__ import annotations

from cuesta.targets.cpu import polynomials, x86_instructions
from cuesta.targets.cpu.vector_text import VectorText

# Adding this number rounds a small f32 to the nearest integer, and leaves it in the low bits of the sum.
_ROUNDER = 1.5 * 2**23

# erf(n·h + r) in r for |r| ≤ h/2, a column for each n and a row for each power; relative error 2^-24. The last column
# gives 1 from 3.92 on, and never more.
_STEP = 33 / 128
_TABLE = (
    (
        0.0, 0.28459144, 0.534123, 0.72595984, 0.8552718, 0.9316981, 0.9713021, 0.9892959, 0.9964638,
        0.9989671, 0.9997337, 0.99993944, 0.99998784, 0.99999785, 0.99999964, 0.99999994,
    ),
    (
        1.1283792, 1.0558171, 0.8649471, 0.62037987, 0.38957676, 0.21418828, 0.10310163, 0.04345129,
        0.016032714, 0.005179391, 0.0014649323, 0.00036276356, 7.864969e-05, 1.4929238e-05, 2.481107e-06,
        3.6101116e-07,
    ),
    (
        -1.400772e-05, -0.27220047, -0.44596758, -0.47982138, -0.40175477, -0.2761095, -0.15948683,
        -0.078411765, -0.033079147, -0.01200729, -0.003786142, -0.0010289891, -0.00022967075, -4.6803994e-05,
        3.350428e-06, 5.440294e-06,
    ),
    (
        -0.3755929, -0.30517498, -0.13498451, 0.040608853, 0.1463448, 0.16587618, 0.13010351, 0.07986142,
        0.040123727, 0.016863618, 0.0060029114, 0.0018240128, 0.0004755967, 0.00010680783, 2.0716821e-05,
        3.4778066e-06,
    ),
    (
        -0.006489508, 0.1292547, 0.18140477, 0.14364552, 0.05880925, -0.0140695125, -0.04708791, -0.046065137,
        -0.029667644, -0.016241299, -0.0059581315, -0.0022522374, -0.0014829366, -0.00035916103,
        -0.0007740264, -0.00041691095,
    ),
    (
        0.13715933, 0.0791094, 0.0013815473, -0.056083027, -0.067730926, -0.04190704, -0.009836532,
        0.009039408, 0.012951514, 0.009374956, 0.0048985356, 0.002012957, 0.000674716, 0.0001884012,
        4.431744e-05, 8.853369e-06,
    ),
)  # fmt: skip

# erf(x)/x in x², as a quotient with numerator 1 + …, for |x| ≤ 3.93; 2^-25.5.
# Its last bits are chosen by a random search for the smallest error of the f32 evaluation.
_TOP = (
    1.0, 0.16907770931720734, 0.046784136444330215, 0.003349578706547618, 0.00025240419199690223,
    1.8096418443747098e-06,
)  # fmt: skip
_BOTTOM = (
    0.886227011680603, 0.4452497661113739, 0.10125799477100372, 0.013291111215949059, 0.0010326388292014599,
    3.36801094817929e-05,
)  # fmt: skip


def erf(text: VectorText, x: str) -> str:
    """erf |x| = Σ c_k·r^k with r = |x| - n·h and coefficients from a table by n; the sign of x"""
    if not text.has_look_up:
        return _rational_erf(text, x)
    size = text.at_most(text.intrinsic("fabs", x), 3.99)
    numbered = text.multiply_add(size, text.constant(1 / _STEP), text.constant(_ROUNDER))
    n = text.subtract(numbered, text.constant(_ROUNDER))
    r = text.multiply_add(n, text.constant(-_STEP), size)
    result = x86_instructions.look_up(text, _TABLE[-1], numbered)
    for coefficients in reversed(_TABLE[:-1]):
        result = text.multiply_add(result, r, x86_instructions.look_up(text, coefficients, numbered))
    return text.intrinsic("copysign", result, x)


def _rational_erf(text: VectorText, x: str) -> str:
    """erf x = (x + x³·p'(x²)) / q(x²), at most 1 in size, constant beyond ±3.92, where it rounds to ±1

    Even and odd powers of x² apart (Estrin's rule) give shorter chains, and a smaller error near saturation.
    """
    limited = text.at_least(text.at_most(x, 3.92), -3.92)
    z = text.multiply(limited, limited)
    w = text.multiply(z, z)
    slope, below = (
        text.multiply_add(z, text.polynomial(w, terms[1::2]), text.polynomial(w, terms[0::2]))
        for terms in (_TOP[1:], _BOTTOM)
    )
    above = text.multiply_add(text.multiply(limited, z), slope, limited)
    return text.at_least(text.at_most(polynomials.quotient(text, above, below), 1.0), -1.0)
