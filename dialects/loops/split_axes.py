"""A merged axis as two again, where memory tells them apart: the reverse of a view that joins two axes.

(p : 192) with addresses p floordiv 24 + (p mod 24)·8  →  (i : 8, j : 24) with addresses i + 8·j
"""

from __future__ import annotations

from cuesta.dialects import sym
from cuesta.dialects.loops.analysis import Access, NestAnalysis
from cuesta.dialects.sym.expr import Expr
from cuesta.dialects.sym.nodes import FloorDiv, Mod


def split_axes(analysis: NestAnalysis) -> None:
    """Splits every axis of the parallel domain that addresses divide, all by one number; they are rewritten to match.

    An axis along which some tensor lies in memory without a gap stays whole: its points are best taken together.
    """
    if analysis.meeting:
        return
    accesses = list(analysis.accesses.values())
    for axis in list(analysis.root.axes):
        size = analysis.sizes[axis]
        divisors = {divisor for access in accesses for divisor in divisors_of(access.address, axis)}
        if not isinstance(size, int) or len(divisors) != 1:
            continue
        (divisor,) = divisors
        contiguous = any(access.width and sym.coefficient(access.address, axis) == 1 for access in accesses)
        if not contiguous and isinstance(divisor, int) and 1 < divisor < size and size % divisor == 0:
            _split(analysis, axis, divisor, accesses)


def step(address: sym.IndexExpr, axis: int, analysis: NestAnalysis) -> sym.IndexExpr | None:
    """How an address moves along an axis of the parallel domain: its coefficient; of an axis that is two in memory that
    of the inner one, p mod 24 for 24. None where it is not one number.
    """
    found = sym.coefficient(address, axis)
    if found is not None:
        return found
    size, divisors = analysis.sizes[axis], divisors_of(address, axis)
    divisor = divisors.pop() if len(divisors) == 1 else None
    if not isinstance(size, int) or not isinstance(divisor, int) or not 1 < divisor < size or size % divisor:
        return None
    outer = len(analysis.sizes)
    images: list[sym.IndexExpr] = [sym.dim(k) for k in range(outer)]
    images[axis] = sym.dim(outer) * divisor + sym.dim(outer + 1)
    sizes = [*analysis.sizes, size // divisor, divisor]
    return sym.coefficient(sym.simplify(sym.substitute(address, images), sizes, analysis.symbol_ranges), outer + 1)


def usual_step(access: Access, axis: int, analysis: NestAnalysis) -> int | None:
    """How an access moves along an axis nearly everywhere: of (p + 3) mod 8192, for p below 8192, by 1. None where data
    say, or three places do not agree.
    """
    address = access.address
    if access.indirect >> axis & 1:
        return None
    found = step(address, axis, analysis)
    if found is not None or isinstance(address, int):
        return found if isinstance(found, int) else None
    here = [analysis.estimate(size) // 2 for size in analysis.sizes]
    symbols = {name: analysis.estimate(sym.symbol(name)) for name in address.symbols}
    steps: set[int] = set()
    for quarter in (1, 2, 3):  # and by 1, 2 and 3 off multiples of 6, where mod 2 and mod 3 do not agree
        here[axis] = analysis.estimate(analysis.sizes[axis]) * quarter // 4 // 6 * 6 + quarter
        before = sym.evaluate(address, here, symbols)
        here[axis] += 1
        steps.add(int(sym.evaluate(address, here, symbols)) - int(before))
    return steps.pop() if len(steps) == 1 else None


def divisors_of(e: sym.IndexExpr, axis: int) -> set[sym.IndexExpr]:
    """What an expression divides an axis by."""
    found: set[sym.IndexExpr] = set()
    if isinstance(e, Expr) and axis in e.dims:
        for monomial, _ in e.terms:
            for atom in monomial.atoms:
                if isinstance(atom, FloorDiv | Mod) and axis in atom.dims:
                    found.add(atom.right)
    return found


def _split(analysis: NestAnalysis, axis: int, divisor: int, accesses: list[Access]) -> None:
    """axis → outer · divisor + inner, two new axes in its place."""
    size = analysis.sizes[axis]
    outer, inner = len(analysis.sizes), len(analysis.sizes) + 1
    images: list[sym.IndexExpr] = [sym.dim(k) for k in range(outer)]
    images[axis] = sym.dim(outer) * divisor + sym.dim(inner)
    analysis.sizes += [size // divisor, divisor]
    for access in accesses:
        access.address = _rewritten(access.address, images, analysis)
        if access.local is not None:
            access.local = _rewritten(access.local, images, analysis)
        new = sum(1 << k for k in (outer, inner))
        read = {k for k in (outer, inner) if k in sym.dims_of(access.address)}
        if access.indirect >> axis & 1:
            access.indirect = access.indirect & ~(1 << axis) | new
            access.varies = access.varies & ~(1 << axis) | new
        elif access.varies >> axis & 1:
            access.varies = access.varies & ~(1 << axis) | sum(1 << k for k in read)
    position = analysis.root.axes.index(axis)
    analysis.root.axes[position : position + 1] = [outer, inner]


def _rewritten(e: sym.IndexExpr, images: list[sym.IndexExpr], analysis: NestAnalysis) -> sym.IndexExpr:
    return sym.simplify(sym.substitute(e, images), analysis.sizes, analysis.symbol_ranges)
