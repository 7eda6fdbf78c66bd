"""`kernel.within` as Triton text: lanes whose element is not there are told to the host, and masked.

    within [%p * 10 + %j], 60; load %x[%p * 10 + %j]
    →
    at = tl.full([], 0, tl.int64) + p * 10 + j
    inside = (at >= 0) & (at < 60)
    functions.outside(report + 2, at, 60, ~inside & mask)
    a = tl.load(x + p * 10 + j, mask=inside & mask, other=0)

What is checked is what is used: `at` adds to an integer of 64 bits what the access adds to a pointer. A program goes
on: nothing that a lane computes of a 0 in place of an element is ever seen, since the host, which looks at the report
before it goes on, raises an IndexError. `report` has two integers of 64 bits for each check of the kernel
(`targets/host/runtime.py`): which element it was, and how many there are. Several lanes may write the first; any will
do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation

from cuesta.dialects import kernel
from cuesta.dialects.kernel.shapes import joint_shape
from cuesta.targets.triton.emit_index import index_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def within(emitter: KernelEmitter, op: Operation) -> None:
    """Emits a check; the access that follows finds there which lanes pass it."""
    assert isinstance(op, kernel.WithinOp)
    text, _ = emitter.index(op.offset, op.indices)
    at = emitter.bind(moved("tl.full([], 0, tl.int64)", text), "at")
    size = emitter.bind(f"tl.cast({index_text(op.size, ())}, tl.int64)", "size")
    inside = emitter.bind(f"({at} >= 0) & ({at} < {size})", "inside")
    # A tile without points has no lane that could fail, also of what does not vary along it.
    masks = _masks(emitter, op)
    if op.mask is not None:
        masks.append(emitter.name(op.mask))
    row = 2 * emitter.checks[op]
    report = f"{emitter.report} + {row}" if row else emitter.report
    bad = " & ".join([f"({inside} == 0)", *masks])
    emitter.line(f"functions.outside({report}, {at}, {size}, {bad})")
    if op.next_op is not None:
        emitter.inside[op.next_op] = text, inside


def _masks(emitter: KernelEmitter, op: kernel.WithinOp) -> list[str]:
    """Which lanes are points. Where blocks are matrices, the lanes of an axis that an address does not vary along stand
    where others do: of such an axis it is asked whether it has a point at all.
    """
    if not emitter.has_products:
        return list(emitter.masks.values())
    shape = joint_shape(op.operands)
    own = {dim for dim, size in enumerate(shape) if size > 1}
    return [
        mask if dim in own else emitter.bind(f"tl.max({mask}.to(tl.int32)) != 0", "some")
        for dim, mask in emitter.masks.items()
    ]


def moved(start: str, distance: str) -> str:
    """The text of what lies so many elements after a pointer, or a number."""
    if distance.startswith("-"):
        return f"{start} - {distance[1:]}"
    return f"{start} + ({distance})" if " - " in distance else f"{start} + {distance}"


def mask_of_check(emitter: KernelEmitter, op: Operation, address: str) -> str | None:
    """The name of what says which lanes of an access are in bounds; None for one that is not checked."""
    text, inside = emitter.inside.get(op, ("", None))
    return inside if text == address else None


def is_checked(op: Operation) -> bool:
    """Whether a check stands before an access: then it is done as it is written, and with no other."""
    return isinstance(op.prev_op, kernel.WithinOp)


__all__ = ["is_checked", "mask_of_check", "moved", "within"]
