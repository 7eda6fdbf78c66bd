"""`multiply-patches`: a transposed convolution whose windows do not overlap is a product, and nests read its patches.

%y = loops.extern pure "aten.convolution.default"(%x, %w, none, [2, 2], [0, 0], [1, 1], true, [0, 0], 1)
→
%p = loops.extern pure "aten.mm.default"(%rows, %columns)                       a row for every point of the images

and %y[%n, %c, %i, %j] is read as %p[(%n · 64 + %i // 2) · 64 + %j // 2, (%i % 2 · 2 + %j % 2) · 16 + %c].


Every number that it gives is one sum over the channels, that of a product of matrices. Libraries have kernels for the
gradient of a convolution, which know nothing of that, and bring images into another layout and back for some of them.
Channels first the product is one for each image, of the weight with all of its points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import loops, sym
from cuesta.dialects.aten import flatten_call
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import ops_of, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import (
    contiguous_strides,
    device_of,
    element_type_of,
    is_contiguous,
    is_tensor,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
    traits_of,
)
from cuesta.dialects.loops.surgery import index_ranges, remove
from cuesta.transforms.products.products import static

_MOST_WORK, _MOST_WORK_HALF = 35, 230
"""The products that a product of matrices may have for each element that it reads and writes, of 32 and of 16 bits:
what it takes for these is no more than what memory takes for the elements, at 45 and 600 TF/s, and 2.6 TB/s. In f32 a
convolution may round to TF32, a product does not. 64x16x64x64 f32 in windows of 2x2 took the library 251 us channels
first and 362 channels last, the product 48; 16x64x64x64 to 32 channels (42 for each) 44 and 41; bf16 62 and 21, 113 and
65.

Source: the rates of both, and these calls, on an H100.
"""


class MultiplyPatchesPass(ModulePass):
    """convolution(x, w, stride = window, transposed)[n, o, i·k + a, j·l + b] -> Σ_c x[n, c, i, j] · w[c, o, a, b], a
    product of matrices.

    Reassociates, and in f32 rounds less. Near misses: windows that overlap, or leave something out; groups; a bias,
    which no nest adds; a reader that is no nest and would see a copy; sums of so many channels that f32 is slower
    than TF32; sizes that only the call knows; a CPU.
    """

    name = "multiply-patches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for call in ops_of(entry_block(op)):
            if not isinstance(call, loops.ExternOp) or (patches := _patches_of(call)) is None:
                continue
            if (reason := _obstacle(patches)) is not None:
                no_match(call, f"stays a convolution: {reason}")
            else:
                _multiply(patches)


@struct
class _Patches:
    """A transposed convolution whose windows are its strides."""

    call: loops.ExternOp
    image: SSAValue
    weight: SSAValue
    sizes: tuple[int, ...]
    """Of what it reads: images, channels, and points along each axis."""
    window: tuple[int, ...]
    channels: int
    """Of what it gives."""

    @property
    def result(self) -> SSAValue:
        """What it gives."""
        return self.call.results[0]

    @property
    def points(self) -> int:
        """Of an image."""
        return math.prod(self.sizes[2:])

    @property
    def columns(self) -> int:
        """Of the product: channels of what it gives, for each point of a window."""
        return self.channels * math.prod(self.window)


def _patches_of(call: loops.ExternOp) -> _Patches | None:
    """None when a call is another."""
    if call.overload != "aten.convolution.default" or len(call.arguments_attr.positional) != 9:
        return None
    stride, padding, dilation, transposed, more, groups = call.arguments_attr.positional[3:]
    if transposed is not True or groups != 1 or call.arguments_attr.positional[2] is not None:
        return None
    values = call.operands[0], call.operands[1], call.results[0]
    if not all(is_tensor(value) for value in values):
        return None
    image, weight, result = (sizes_of(tensor_type_of(value)) for value in values)
    window = static(weight[2:])
    known = len(static((*image, *weight, *result))) == len(image) + len(weight) + len(result)
    if not known or 0 in (*image, *weight, *result) or len(image) != len(weight) or not window or max(window) == 1:
        return None
    lists = [tuple(one) for one in (stride, padding, dilation, more) if isinstance(one, list | tuple)]
    rank = len(window)
    if lists != [window, (0,) * rank, (1,) * rank, (0,) * rank]:
        return None
    return _Patches(call, values[0], values[1], static(image), window, static(weight)[1])


def _obstacle(patches: _Patches) -> str | None:
    """Why a convolution stays one."""
    element = element_type_of(patches.result)
    if not traits_of(patches.result).blocks:
        return "it is not of a GPU"
    if not isinstance(element, Float32Type | Float16Type | BFloat16Type):
        return "nobody measured products of such numbers"
    image, result = tensor_type_of(patches.image), tensor_type_of(patches.result)
    if not (is_contiguous(image) and is_contiguous(result)) and not (_is_last(image) and _is_last(result)):
        return "images are neither channels first nor channels last"
    if not is_contiguous(tensor_type_of(patches.weight)):
        return "the weight does not lie in order"
    if not all(isinstance(use.operation, loops.LoadOp) for use in patches.result.uses):
        return "who is no nest reads it"
    channels, columns = patches.sizes[1], patches.columns
    most = _MOST_WORK if isinstance(element, Float32Type) else _MOST_WORK_HALF
    if channels * columns > most * (channels + columns):
        return "its sums are long"
    return None


def _is_last(tensor: TensorType) -> bool:
    """Whether images lie channels last."""
    sizes = sizes_of(tensor)
    batch, *places, channel = contiguous_strides((sizes[0], *sizes[2:], sizes[1]))
    return strides_of(tensor) == (batch, channel, *places)


def _multiply(patches: _Patches) -> None:
    """Puts a product in the place of a convolution, and lets nests read it."""
    images, channels, *places = patches.sizes
    points, columns, rank = patches.points, patches.columns, len(places)
    around = contiguous_strides(patches.window)
    at: list[sym.IndexExpr] = [sym.dim(k + 2) for k in range(rank)]
    point: sym.IndexExpr = 0
    within: sym.IndexExpr = 0
    for index, size, window, stride in zip(at, places, patches.window, around, strict=True):
        point = point * size + index // window
        within = within + (index % window) * stride
    if is_contiguous(tensor_type_of(patches.image)):
        left = _view(patches, patches.weight, (images, columns, channels), _of_weight(patches, sym.dim(2), sym.dim(1)))
        right = _view(
            patches, patches.image, (images, channels, points), _of_point(sym.dim(0), sym.dim(1), sym.dim(2), places)
        )
        product = _product(patches, "aten.bmm.default", left, right, (images, columns, points))
        found: list[sym.IndexExpr] = [sym.dim(0), sym.dim(1) * math.prod(patches.window) + within, point]
    else:
        rows = _view(
            patches, patches.image, (images * points, channels),
            _of_point(sym.dim(0) // points, sym.dim(1), sym.dim(0) % points, places),
        )  # fmt: skip
        # What is next to each other in memory is the channels of a point.
        column = sym.dim(1) % patches.channels * math.prod(patches.window) + sym.dim(1) // patches.channels
        weights = _view(patches, patches.weight, (channels, columns), _of_weight(patches, sym.dim(0), column))
        product = _product(patches, "aten.mm.default", rows, weights, (images * points, columns))
        found = [sym.dim(0) * points + point, within * patches.channels + sym.dim(1)]
    for use in list(patches.result.uses):
        load = use.operation
        assert isinstance(load, loops.LoadOp)
        ranges = index_ranges(load, load.indices)
        results = [sym.substitute(index, load.map.results) for index in found]
        results = results if ranges is None else [sym.simplify(index, ranges) for index in results]
        new = loops.LoadOp.build(product, results, load.indices, load.mask, load.other)
        new.location = load.location
        Rewriter.insert_op(new, InsertPoint.before(load))
        replace_all_uses(load.result, new.result)
        remove(load)
    remove(patches.call)


def _of_weight(patches: _Patches, channel: sym.IndexExpr, column: sym.IndexExpr) -> list[sym.IndexExpr]:
    """The index of a weight, of a column that counts the points of all windows, channel by channel."""
    return [channel, *sym.delinearize(column, (patches.channels, *patches.window))]


def _of_point(
    image: sym.IndexExpr, channel: sym.IndexExpr, point: sym.IndexExpr, places: Sequence[int]
) -> list[sym.IndexExpr]:
    """The index of an element of the images."""
    return [image, channel, *sym.delinearize(point, places)]


def _view(patches: _Patches, tensor: SSAValue, sizes: tuple[int, ...], index: Sequence[sym.IndexExpr]) -> SSAValue:
    """A view of a tensor; its strides are those that the view has, where it has any, and else those of a copy."""
    simple = tuple(sym.simplify(one, sizes) for one in index)
    kind = tensor_type_of(tensor)
    address: sym.IndexExpr = 0
    for one, stride in zip(simple, strides_of(kind), strict=True):
        address = address + one * stride
    address = sym.simplify(address, sizes)
    strides = [sym.coefficient(address, axis) for axis in range(len(sizes))]
    known = [stride for stride in strides if stride is not None]
    wanted = tensor_type(
        sizes, kind.element_type, known if len(known) == len(sizes) else contiguous_strides(sizes), device_of(kind)
    )
    view = loops.ViewOp.build(tensor, sym.MapAttr.get(len(sizes), simple), wanted)
    view.location = patches.call.location
    Rewriter.insert_op(view, InsertPoint.before(patches.call))
    return view.result


def _product(patches: _Patches, overload: str, left: SSAValue, right: SSAValue, sizes: tuple[int, ...]) -> SSAValue:
    """A product before the convolution."""
    kind = tensor_type_of(patches.result)
    operands, arguments = flatten_call([left, right])
    made = tensor_type(sizes, kind.element_type, device=device_of(kind))
    call = loops.ExternOp.of(overload, operands, arguments, [made], pure="pure" in patches.call.properties)
    call.location = patches.call.location
    call.results[0].name_hint = patches.result.name_hint
    Rewriter.insert_op(call, InsertPoint.before(patches.call))
    return call.results[0]


__all__ = ["MultiplyPatchesPass"]
