#!/usr/bin/env python
"""Writes `lowering/aten/series.py`: Chebyshev series of smooth parts of special functions, from mpmath's 40 digits.

    scripts/fit_special_functions.py            a minute; needs mpmath, which torch brings along

A series of f on [-1, 1] is interpolated at Chebyshev nodes, and cut off where what is left is below a double's digits.
Each table says of which function it is, and what t stands for; `lowering/aten/bessel.py` has the formulas around it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath

PLACE = Path(__file__).resolve().parent.parent / "lowering" / "aten" / "series.py"
NODES = 64
SMALL = 2e-18
"""Beside the greatest coefficient: less than a double's last digit, also of a sum of some tens."""

m: Any = mpmath


def series(function: Callable[[Any], Any]) -> list[float]:
    """The coefficients c_k of Σ c_k T_k(t)."""
    nodes = [m.cos(m.pi * (2 * j + 1) / (2 * NODES)) for j in range(NODES)]
    values = [function(t) for t in nodes]
    coefficients = [
        2 * m.fsum(value * m.cos(k * m.acos(t)) for t, value in zip(nodes, values, strict=True)) / NODES
        for k in range(NODES)
    ]
    coefficients[0] /= 2
    least = SMALL * max(map(abs, coefficients))
    last = max(k for k, coefficient in enumerate(coefficients) if abs(coefficient) > least)
    assert last < NODES - 8, "the series does not end"
    return [float(coefficient) for coefficient in coefficients[: last + 1]]


def roots(order: int) -> list[Any]:
    """The squares of the first two positive zeros of J of this order."""
    return [m.besseljzero(order, k) ** 2 for k in (1, 2)]


def without_roots(order: int, x: Any) -> Any:
    """J over its power of x and its first two roots."""
    first, second = roots(order)
    return m.besselj(order, x) / (x**order * (x * x - first) * (x * x - second))


def rest_of_y(order: int, x: Any) -> Any:
    """Y, less what is infinite at 0, over x^order."""
    singular = m.log(x) * m.besselj(order, x) - (1 / x if order else 0)
    return (m.bessely(order, x) - 2 / m.pi * singular) / x**order


def phase(order: int, x: Any, sine: bool) -> Any:
    """P, or x Q, of Hankel's expansion: J = √(2/πx) (P cos χ − Q sin χ), Y = √(2/πx) (P sin χ + Q cos χ)."""
    angle = x - (2 * order + 1) * m.pi / 4
    j, y = m.besselj(order, x), m.bessely(order, x)
    value = y * m.cos(angle) - j * m.sin(angle) if sine else j * m.cos(angle) + y * m.sin(angle)
    return m.sqrt(m.pi * x / 2) * value * (x if sine else 1)


def near(low: float, high: float) -> Callable[[Any], Any]:
    """t ↦ x, from [-1, 1] to an interval."""
    return lambda t: low + (high - low) * (t + 1) / 2


def tables() -> dict[str, tuple[str, list[float]]]:
    """By name: what it is, and the coefficients."""
    found: dict[str, tuple[str, list[float]]] = {}

    def add(name: str, text: str, function: Callable[[Any], Any], x_of: Callable[[Any], Any]) -> None:
        found[name] = text, series(lambda t: function(x_of(t)))

    for order in (0, 1):
        power = f"/ x^{order}" if order else ""
        add(
            f"I{order}_NEAR",
            f"e^-x I{order}(x) {power} for x = 4 (t + 1)",
            lambda x, n=order: m.exp(-x) * (m.besseli(n, x) / x**n if x else m.mpf(1) / 2**n),
            near(0, 8),
        )
        add(
            f"I{order}_FAR",
            f"√x e^-x I{order}(x) for x = 16 / (t + 1)",
            lambda x, n=order: m.sqrt(x) * m.exp(-x) * m.besseli(n, x),
            lambda t: 16 / (t + 1),
        )
        add(
            f"K{order}_NEAR",
            "K0(x) + log(x/2) I0(x) for x² = 2 (t + 1)" if not order else "x (K1(x) − log(x/2) I1(x)), as K0_NEAR",
            lambda x, n=order: (
                m.besselk(0, x) + m.log(x / 2) * m.besseli(0, x)
                if not n
                else x * (m.besselk(1, x) - m.log(x / 2) * m.besseli(1, x))
            ),
            lambda t: m.sqrt(2 * (t + 1)),
        )
        add(
            f"K{order}_FAR",
            f"√x e^x K{order}(x) for x = 4 / (t + 1)",
            lambda x, n=order: m.sqrt(x) * m.exp(x) * m.besselk(n, x),
            lambda t: 4 / (t + 1),
        )
        add(
            f"J{order}_NEAR",
            f"J{order}(x) {power} over (x² − r) for its first two roots, x² = 12.5 (t + 1)",
            lambda x, n=order: without_roots(n, x),
            lambda t: m.sqrt(12.5 * (t + 1)),
        )
        singular = "log(x) J0(x)" if not order else "(log(x) J1(x) − 1/x)"
        add(
            f"Y{order}_NEAR",
            f"(Y{order}(x) − 2/π {singular}) {power}, as J{order}_NEAR",
            lambda x, n=order: rest_of_y(n, x),
            lambda t: m.sqrt(12.5 * (t + 1)),
        )
        for sine in (False, True):
            add(
                f"{'Q' if sine else 'P'}{order}_FAR",
                f"{'x Q' if sine else 'P'}{order} of Hankel's expansion for x² = 50 / (t + 1)",
                lambda x, n=order, s=sine: phase(n, x, s),
                lambda t: m.sqrt(50 / (t + 1)),
            )
    add(
        "ERFCX",
        "(1 + 2x) e^(x²) erfc(x) for t = (x − 3.75) / (x + 3.75)",
        lambda x: (1 + 2 * x) * m.exp(x * x) * m.erfc(x),
        lambda t: 3.75 * (1 + t) / (1 - t),
    )
    add("LOG_GAMMA", "log Γ(1 + a) / a for t = a − 1", lambda a: m.loggamma(1 + a) / a, lambda t: 1 + t)
    return found


HEADING = '''"""Chebyshev series of smooth parts of special functions: coefficients of T_0, T_1, … in t from -1 to 1.

Written by `scripts/fit_special_functions.py`, which says how.
"""

from __future__ import annotations

from typing import Final
'''


def main() -> None:
    """Writes the module."""
    m.mp.dps = 40
    lines = [HEADING]
    for name, (text, coefficients) in tables().items():
        lines.append(f"{name}: Final = (")
        lines += [f"    {coefficient!r}," for coefficient in coefficients]
        lines += [")", f'"""{" ".join(text.split())}"""']
    for order in (0, 1):
        squares = ", ".join(_pair(square) for square in roots(order))
        lines += [
            f"J{order}_ROOTS: Final = ({squares})",
            f'"""The squares of the first two zeros of J{order}, in two parts each."""',
        ]
    PLACE.write_text("\n".join(lines) + "\n")


def _pair(value: Any) -> str:
    high = float(value)
    return f"({high!r}, {float(value - m.mpf(high))!r})"


if __name__ == "__main__":
    main()
