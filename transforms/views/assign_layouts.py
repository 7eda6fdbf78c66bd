"""`assign-layouts`: convolutions read and write channels last, where little has to be copied for it.

    %y = loops.nest … outs(%o : tensor<8x64x56x56xf32>)
    %z = loops.extern pure "aten.convolution.default"(%y, %w, …)
    →
    %y = loops.nest … outs(%o : tensor<8x64x56x56xf32, #aten.layout<strides = [200704, 1, 3584, 64]>>)
    %z = loops.extern pure "aten.convolution.default"(%y, %w, …)        and the same strides for %z

A library brings every tensor of a plain convolution into a layout of its own, and back, at each call. Channels last is
next to that layout. Our own kernels write and read any strides, so between two convolutions the change is free.
What other nests make of such tensors, for nests alone, is channels last then, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, OpResult, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import device_of, is_contiguous, is_tensor, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import loads_of
from cuesta.dialects.sym import MapAttr, dim
from cuesta.transforms.views.materialize_views import materialize

_CONVOLUTION = "aten.convolution.default"
_TRANSPOSED, _GROUPS = 6, 8  # where these arguments stand
"""Where these arguments stand.

Source: a definition: the schema of `aten.convolution`.
"""
_COPIES_PER_TENSOR = 0.25
"""The most tensors that are copied for the change, of those that convolutions read and write.

Source: measured by `make bench-constants ARGS='--only assign_layouts._COPIES_PER_TENSOR'`
"""


class AssignLayoutsPass(ModulePass):
    """What convolutions read and write is channels last; whoever needs another layout gets a copy in it.

    layout law: the elements of a tensor do not depend on its strides. Only library calls and the caller see strides,
    and they keep those they had. (A library may add up in another order for another layout.)
    A program stays as it is when one of its convolutions is grouped or transposed, for which libraries are slower that
    way, or when too much would have to be copied, as in training, where activations are given out between convolutions.
    """

    name = "assign-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        every = [
            call for call in entry_block(op).ops if isinstance(call, loops.ExternOp) and call.overload == _CONVOLUTION
        ]
        if every:
            _assign(every)


def _assign(every: Sequence[loops.ExternOp]) -> None:
    if any(not _is_plain(call) for call in every):
        no_match(every[0], "some convolution is grouped, transposed, or not of images")
        return
    convolutions = [call for call in every if all(_has_choice(value) for value in (call.operands[0], call.results[0]))]
    calls = set(convolutions)
    tensors = list(dict.fromkeys(value for call in convolutions for value in (call.operands[0], call.results[0])))
    copies = sum(1 for value in tensors if not _is_ours(value, calls) or _particular_uses(value, calls))
    if copies > _COPIES_PER_TENSOR * len(tensors):
        no_match(every[0], f"{copies} of {len(tensors)} tensors would have to be copied to be channels last")
        return
    for value in tensors:
        if _is_ours(value, calls):
            _lay_out(value, calls)
        else:
            _read_copy(value, calls)
    _follow(every[0])


def _follow(first: Operation) -> None:
    """What nests compute of images that lie channels last, for nothing but other nests, lies as they do.

    A nest between two layouts would have to transpose, and could not write over what it reads.
    """
    block = first.parent
    assert block is not None
    for nest in [op for op in block.ops if isinstance(op, loops.NestOp) and not op.operands]:
        images = {load.source for load in loads_of(nest) if _is_image(load.source)}
        last = [value for value in images if not _has_choice(value)]
        if 2 * len(last) <= len(images):
            continue
        for value in nest.results:
            if _is_image(value) and _has_choice(value) and not _particular_uses(value, set()):
                _lay_out(value, set())


def _is_image(value: SSAValue) -> bool:
    """Whether it has several channels and several places, whatever its layout."""
    if not is_tensor(value) or len(sizes_of(value.type)) != 4:
        return False
    sizes = sizes_of(value.type)
    return 0 not in sizes and sizes[1] != 1 and sizes[2:] != (1, 1)


def _is_plain(call: loops.ExternOp) -> bool:
    arguments = call.arguments_attr.positional
    if len(arguments) <= _GROUPS or arguments[_TRANSPOSED] is not False or arguments[_GROUPS] != 1:
        return False
    return all(is_tensor(value) and len(sizes_of(value.type)) == 4 for value in (call.operands[0], call.results[0]))


def _has_choice(value: SSAValue) -> bool:
    """Whether channels last is another layout than the one it has, with several channels and several places."""
    if not is_tensor(value) or not is_contiguous(value.type):
        return False
    _, channels, height, width = sizes_of(value.type)
    return 0 not in sizes_of(value.type) and channels != 1 and (height, width) != (1, 1)


def _is_ours(value: SSAValue, convolutions: set[loops.ExternOp]) -> bool:
    """Whether its layout is for us to choose."""
    return (isinstance(value.owner, loops.NestOp) and not value.owner.operands) or value.owner in convolutions


def _particular_uses(value: SSAValue, convolutions: set[loops.ExternOp]) -> list[Use]:
    """The uses that see strides and are not convolutions of ours."""
    return [
        use
        for use in value.uses
        if not isinstance(use.operation, loops.LoadOp) and not (use.operation in convolutions and use.index == 0)
    ]


def _channels_last(tensor: TensorType) -> TensorType:
    sizes = sizes_of(tensor)
    _, channels, height, width = sizes
    strides = (height * width * channels, 1, width * channels, channels)
    return tensor_type(sizes, tensor.element_type, strides, device_of(tensor))


def _lay_out(value: SSAValue, convolutions: set[loops.ExternOp]) -> None:
    assert isinstance(value, OpResult)
    plain = tensor_type_of(value)
    particular = _particular_uses(value, convolutions)
    owner, position = value.owner, value.index
    if isinstance(owner, loops.NestOp):
        Rewriter.replace_value_with_new_type(owner.handles[position], _channels_last(plain))
    changed = Rewriter.replace_value_with_new_type(value, _channels_last(plain))
    if particular:
        _copy(changed, plain, particular)


def _read_copy(value: SSAValue, convolutions: set[loops.ExternOp]) -> None:
    assert is_tensor(value)
    _copy(value, _channels_last(value.type), [use for use in value.uses if use.operation in convolutions])


def _copy(value: SSAValue, wanted: TensorType, uses: Sequence[Use]) -> None:
    """Lets these uses, all in the entry block, read a copy of the value in the wanted layout."""
    owner = value.owner
    view = loops.ViewOp.build(value, MapAttr.get(4, tuple(dim(k) for k in range(4))), wanted)
    if isinstance(owner, Operation):
        view.location = owner.location
        place = InsertPoint.after(owner)
    else:  # an argument: the copy is made for whom reads it
        view.location = uses[0].operation.location
        place = InsertPoint.at_start(owner)
    Rewriter.insert_op(view, place)
    for use in uses:
        use.operation.operands[use.index] = view.results[0]
    materialize(view)
