"""Tiles of factors that hardware loads by a tensor descriptor (`dialects/kernel/descriptors.py`).

    v = tensor.load([p * 128, k_start])
    w = tl.trans(tensor_1.load([p_1 * 128, k_start]))

A factor whose tile lies with rows and columns exchanged is turned: that is how a matrix unit reads it, and moves
nothing. Where a third dimension is around, a tile of one of it is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuesta.dialects import kernel
from cuesta.dialects.kernel.descriptors import Described
from cuesta.targets.triton.emit_index import index_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def described_factor(
    emitter: KernelEmitter,
    op: kernel.ContractOp,
    load: kernel.LoadOp,
    one: Described,
    is_right: bool,
    first: str | None,
) -> str:
    """The tile of a factor, of the points from `first` on or of all, as an operand of `tl.dot`."""
    descriptor = one.descriptor
    if first is None:
        first = emitter.index(op.lowers.results[0], op.operands)[0]
    corner = emitter.index(one.lane.lowers.results[-1], one.lane.operands)[0]
    places = [corner, first] if one.points_last else [first, corner]
    if one.around is not None:
        places = [index_text(one.around, [emitter.names.get(index, "0") for index in load.indices]), *places]
    at = ", ".join(place if place.isdigit() else f"tl.cast({place}, tl.int32)" for place in places)
    text = f"{emitter.tensors[descriptor]}.load([{at}])"
    if one.around is not None:
        text = f"tl.reshape({text}, {list(descriptor.box[1:])})"
    if one.points_last == is_right:
        text = f"tl.trans({text})"
    return emitter.bind(text, load.result.name_hint or "v")


__all__ = ["described_factor"]
