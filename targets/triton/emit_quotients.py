"""Quotients of the points of a tile by a number of which a tile is one or two long: one division for all of them.

    for i_start in range(0, 258064, 4096):
        i = i_start + lanes
        v = tl.load(x + i + (i // 16129) * 1532255)
    →
        q = i_start // 16129
        r = i_start - q * 16129 + lanes
        q_1 = q + (r >= 16129)
        v = tl.load(x + i + q_1 * 1532255)

Exact: (s + l) // n = s // n + (s % n + l >= n) where 0 ≤ l < n, and so on for longer tiles. A division takes some ten
instructions, and registers, for each element. Sums of 16 images of 127 by 127 for each of 96 channels, by 32 warps,
were 32 instructions a load, of which 4 moved what registers did not hold, and are 16. Only where n is odd: by others
elements may be vectors, of which Triton's compiler knows that they have one quotient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.structs import struct
from cuesta.dialects.sym.nodes import FloorDiv, monomial_expr
from cuesta.targets.triton.emit_index import without_remainders

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


MOST = 2
"""Comparisons that take the place of a division, at most.

Source: a choice, by instructions: each is two, a division by what is known is seven and a multiplication of 64 bits.
"""


@struct
class Start:
    """Where the tile of a loop begins, the text of its lanes, and how many there are."""

    text: str
    lanes: str
    count: int


def with_quotients(
    emitter: KernelEmitter, e: sym.IndexExpr, operands: Sequence[SSAValue], names: list[str]
) -> tuple[sym.IndexExpr, list[str]]:
    """An expression over more dimensions, which are such quotients, and the names of all of them. Kernels of products
    give operands an order of their own, and have none.
    """
    if emitter.has_products or not emitter.starts:
        return e, names
    starts = {place: emitter.starts[value] for place, value in enumerate(operands) if value in emitter.starts}
    if not starts or isinstance(e := without_remainders(e), int):
        return e, names
    found = list(names)
    for monomial, factor in e.terms:
        if len(monomial.atoms) != 1 or not isinstance(atom := monomial.atoms[0], FloorDiv):
            continue
        place = next((one for one in starts if atom.left == sym.dim(one)), None)
        if place is None or not isinstance(atom.right, int) or not _is_long(atom.right, starts[place]):
            continue
        e = e + factor * sym.dim(len(found)) - monomial_expr(monomial, factor)
        found.append(_quotient(emitter, starts[place], atom.right))
    return e, found


def _is_long(divisor: int, start: Start) -> bool:
    return divisor % 2 == 1 and _most(divisor, start) <= MOST


def _most(divisor: int, start: Start) -> int:
    """By how much a quotient is more than that of the first point, at most."""
    return (divisor + start.count - 2) // divisor


def _quotient(emitter: KernelEmitter, start: Start, divisor: int) -> str:
    """The name of the quotients."""
    first = f"({start.text})" if " " in start.text else start.text
    of_first = emitter.bind(f"{first} // {divisor}", "q")
    rest = emitter.bind(f"{start.text} - {of_first} * {divisor} + {start.lanes}", "r")
    more = (f"({rest} >= {k * divisor}).to({emitter.integer})" for k in range(1, _most(divisor, start) + 1))
    return emitter.bind(" + ".join([of_first, *more]), "q")


__all__ = ["Start", "with_quotients"]
