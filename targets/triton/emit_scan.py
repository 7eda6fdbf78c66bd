"""`kernel.running` as Triton text: the lanes of a tile are scanned, and joined with what earlier tiles came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Operation

from cuesta.dialects import kernel
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.reductions import identity
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.kernel.shapes import Shape
from cuesta.targets.triton.emit_reduce import filled, position_text
from cuesta.targets.triton.emit_types import constant_text, dtype_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter

_FUNCTIONS = {"sum": "add", "prod": "multiply"}


def running(emitter: KernelEmitter, op: Operation) -> None:
    """Emits a running value. What is carried from tile to tile is set before the scan."""
    assert isinstance(op, kernel.RunningOp)
    scan = op.parent_op()
    assert isinstance(scan, kernel.ScanOp)
    scalar = scalar_of(op.value.type)
    indexed = len(op.results) > 1
    function = f"functions.{_FUNCTIONS.get(op.kind, op.kind)}"
    value, real = f"tl.cast({emitter.name(op.value)}, {dtype_text(scalar)})", emitter.real_of(op.value)
    place, place_shape = position_text(emitter, scan)
    values = [value, f"tl.cast({place}, {emitter.integer})"] if indexed else [value]
    if scan.lanes == 1:
        shape = real or emitter.joint([place_shape]) or (1,) * emitter.rank
        carried = _carried(emitter, op, scan, shape, scalar)
        names = ", ".join(carried)
        emitter.line(f"{names} = {function}({', '.join([*carried, *values])})")
        results = [emitter.fresh("running") for _ in carried]
        emitter.line(f"{', '.join(results)} = {names}")
        _define(emitter, op, results, shape)
        return
    wide = list(real or (1,) * emitter.rank)
    wide[emitter.place(scan.dim)] = scan.lanes
    shape = tuple(wide)
    shapes = [real, place_shape]
    values = [emitter.spread(text, own, shape) for text, own in zip(values, shapes, strict=False)]
    mask = emitter.masks.get(scan.dim)
    if mask is not None and (len(scan.induction_variables) > 1 or op.backwards):
        if indexed:
            fail(op, "lanes along an inner axis of a scan, some of them not active")
        values = [f"tl.where({mask}, {values[0]}, {_identities(emitter, op, scalar)[0]})"]
    values = [emitter.bind(text, "v") for text in values]
    given = f"({', '.join(values)})" if indexed else values[0]
    results = [emitter.fresh("scanned") for _ in values]
    along = emitter.place(scan.dim)
    turned = ", reverse=True" if op.backwards else ""
    if op.kind == "sum":
        emitter.line(f"{results[0]} = tl.cumsum({given}, {along}{turned}).to({dtype_text(scalar)})")
    else:
        emitter.line(f"{', '.join(results)} = tl.associative_scan({given}, {along}, {function}{turned})")
    if not emitter.is_whole(scan):
        kept = (
            tuple(1 if axis == emitter.place(scan.dim) else size for axis, size in enumerate(shape))
            if emitter.rank > 1
            else ()
        )
        carried = _carried(emitter, op, scan, kept, scalar)
        keep = ", keep_dims=True" if emitter.rank > 1 else ""
        joined = [emitter.fresh("running") for _ in values]
        last = [emitter.fresh("last") for _ in values]
        emitter.line(f"{', '.join(joined)} = {function}({', '.join([*carried, *results])})")
        emitter.line(f"{', '.join(last)} = tl.reduce({given}, {emitter.place(scan.dim)}, {function}{keep})")
        emitter.line(f"{', '.join(carried)} = {function}({', '.join([*carried, *last])})")
        results = joined
    _define(emitter, op, results, shape)


def _define(emitter: KernelEmitter, op: kernel.RunningOp, names: list[str], shape: Shape) -> None:
    """Names the results. A place is an i64; as wide as addresses it goes from lane to lane in half as many moves."""
    if len(names) > 1 and not emitter.wide:
        names[1] = emitter.bind(f"{names[1]}.to(tl.int64)", "place")
    for result, name in zip(op.results, names, strict=True):
        emitter.names[result], emitter.real[result] = name, shape


def _carried(
    emitter: KernelEmitter, op: kernel.RunningOp, scan: kernel.ScanOp, shape: Shape, scalar: Attribute
) -> list[str]:
    """Names for what is carried, which are set before the scan: for every round that is written out, the same."""
    carried = emitter.initials.setdefault(scan, {})
    if op not in carried:
        texts = _identities(emitter, op, scalar)
        carried[op] = [(emitter.fresh("carried"), filled(text, shape) if shape else text) for text in texts]
    return [name for name, _ in carried[op]]


def _identities(emitter: KernelEmitter, op: kernel.RunningOp, scalar: Attribute) -> list[str]:
    """What there is before the first point."""
    first = constant_text(identity(op.kind, scalar), scalar)
    return [first, constant_text(0, i64 if emitter.wide else i32)] if len(op.results) > 1 else [first]
