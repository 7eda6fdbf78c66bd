"""Accesses beyond the ends of a tensor, found in the text: for programs that a person wrote or edited.

Nothing stops such an access at run time. An index expression is evaluated at the corners of the domain around it, all
of which are points that run: what is reported does happen. (Expressions are monotone along each axis more often than
not, so that little is missed; what depends on data or symbols is not looked at.)
"""

from __future__ import annotations

import itertools

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.layout import is_tensor_type, sizes_of
from cuesta.dialects.loops.access import LoadOp, TensorWriteOp
from cuesta.dialects.loops.structure import DomainOp

_MOST_CORNERS = 256


def verify_reach(module: ModuleOp) -> None:
    """Checks every load, store and change that has no mask.

    Errors: CuestaError, which names the access and a point where it goes wrong.
    """
    for op in module.walk():
        if isinstance(op, LoadOp):
            _verify_access(op, op.source)
        elif isinstance(op, TensorWriteOp):
            _verify_access(op, op.target)


def _verify_access(op: LoadOp | TensorWriteOp, tensor: SSAValue) -> None:
    tensor_type = tensor.type
    extents = [_extent(index) for index in op.indices]
    if op.rest or not is_tensor_type(tensor_type) or not _runs(op) or any(extent is None for extent in extents):
        return
    corners = [sorted({0, extent - 1}) for extent in extents if extent is not None]
    for axis, (index, size) in enumerate(zip(op.map.results, sizes_of(tensor_type), strict=True)):
        if not isinstance(size, int) or not (isinstance(index, int) or not index.symbols):
            continue
        for point in itertools.islice(itertools.product(*corners), _MOST_CORNERS):
            value = sym.evaluate(index, point, {})
            if not 0 <= value < size:
                where = f" at the point {point}" if point else ""
                problem = f"{value} is out of range for axis {axis}, which has size {size}{where}"
                raise CuestaError(Diagnostic.on(op, problem))


def _extent(index: SSAValue) -> int | None:
    """The size of the axis that an induction variable runs along; None when that is not known, or it is none."""
    if not isinstance(index, BlockArgument):
        return None
    owner = index.block.parent_op()
    if not isinstance(owner, DomainOp) or index.index >= len(owner.sizes):
        return None
    size = owner.sizes[index.index]
    return size if isinstance(size, int) else None


def _runs(op: Operation) -> bool:
    """Whether the domains around an op all have points."""
    parent = op.parent_op()
    while isinstance(parent, DomainOp):
        if any(not isinstance(size, int) or size == 0 for size in parent.sizes):
            return False
        parent = parent.parent_op()
    return True
