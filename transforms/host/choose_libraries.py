"""`choose-libraries`: a product of f32 matrices on the CPU is oneDNN's, where that is the faster library here.

%y = host.extern pure "aten.addmm.default"(%b, %x, %w)
→
%t = host.reinterpret %w offset 0 : tensor<768x3072xf32> to tensor<3072x768xf32, #aten.layout<strides = [1, 3072]>>
%y = host.extern pure "mkldnn::_linear_pointwise.default"(%x, %t, %b, "none", [], "")

How many times as fast it is, and what a call of it costs more, are facts of the machine (`onednn`, `onednn_call`): MKL,
which PyTorch calls for products, has its best kernels for the processors of one vendor.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import host
from cuesta.dialects.aten import flatten_call
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import (
    element_type_of,
    is_tensor_type,
    sizes_of,
    strides_of,
    tensor_type,
    tensor_type_of,
    traits_of,
)
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.products.products import is_one, static

LINEAR = "mkldnn::_linear_pointwise.default"
"""oneDNN's product of rows with the rows of a matrix, and a bias. It is PyTorch's own name, in all its versions."""

_COPY = 220.0
"""Additions and products in the time that an element is copied, where the rows of the left factor do not lie as rows:
oneDNN is given a copy.

Source: transposing six matrices on two cores of an EPYC, beside other processes: 1.4 ns or more an element.
"""


class ChooseLibrariesPass(ModulePass):
    """mm(x, w), addmm(b, x, w) -> linear(x, wᵀ, b)

    Reassociates: a library adds up in another order. Near misses: a machine on which oneDNN is not faster; a product
    so small, or of a left factor so large beside its columns, that the call or a copy costs more; other types than
    f32; sizes that are not known; factors with gaps between their rows; a bias that is a matrix, or scaled; what is
    added to memory in place.
    """

    name = "choose-libraries"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        if machine.onednn <= 1.0:
            return
        for call in entry_block(op).ops:
            if not isinstance(call, host.ExternOp) or call.overload not in ("aten.mm.default", "aten.addmm.default"):
                continue
            if (reason := _obstacle(call, machine)) is None:
                _rewrite(call)
            else:
                no_match(call, reason)


def _factors(call: CallLike) -> tuple[SSAValue, SSAValue, SSAValue | None]:
    if call.overload == "aten.mm.default":
        return call.tensor("self"), call.tensor("mat2"), None
    return call.tensor("mat1"), call.tensor("mat2"), call.tensor("self")


def _obstacle(call: host.ExternOp, machine: Machine) -> str | None:
    """Why a product stays with the library that PyTorch calls."""
    left, right, bias = _factors(call)
    for value in (call.results[0], left, right, *(() if bias is None else (bias,))):
        kind = value.type
        if not is_tensor_type(kind) or element_type_of(value) != f32 or not traits_of(value).onednn:
            return "not all of it is f32, or the device has no oneDNN"
        if not all(isinstance(one, int) for one in (*sizes_of(kind), *strides_of(kind))):
            return "a size is known when it runs only"
    (rows, points), of_left = _lies(left)
    (_, columns), of_right = _lies(right)
    if bias is not None and not (is_one(call, "beta") and is_one(call, "alpha")):
        return "a term is scaled"
    if bias is not None and _lies(bias) != ((columns,), (1,)):
        return "what is added is no row of numbers"
    if of_right not in ((columns, 1), (1, points)) or _lies(call.results[0])[1] != (columns, 1):
        return "a matrix has gaps, or the result is transposed"
    if of_left not in ((points, 1), (1, rows)):
        return "the left factor has gaps"
    copied = 0 if of_left == (points, 1) else rows * points
    work = 2 * rows * columns * points
    return None if with_onednn(work, copied, machine) < work else "too small for what another call costs"


def with_onednn(work: float, copied: int, machine: Machine) -> float:
    """The time of a product with oneDNN, which copies so many elements first. Units: additions and products of the
    library that PyTorch calls; the product is as much `work` with that.
    """
    return work / machine.onednn + machine.onednn_call + _COPY * copied


def _lies(value: SSAValue) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and the strides of a tensor, which are numbers."""
    kind = tensor_type_of(value)
    return static(sizes_of(kind)), static(strides_of(kind))


def _rewrite(call: host.ExternOp) -> None:
    left, right, bias = _factors(call)
    (points, columns), (one, other) = _lies(right)
    wanted = tensor_type((columns, points), f32, (other, one))
    made = right.owner
    if isinstance(made, host.ReinterpretOp) and made.source.type == wanted and made.offset == 0:
        weight = made.source
    else:
        turned = host.ReinterpretOp.build(right, 0, wanted)
        turned.location = call.location
        Rewriter.insert_op(turned, InsertPoint.before(call))
        weight = turned.results[0]
    operands, arguments = flatten_call([left, weight, bias, "none", [], ""])
    new = host.ExternOp.of(LINEAR, operands, arguments, [call.results[0].type], pure=call.is_pure)
    new.location = call.location
    new.results[0].name_hint = call.results[0].name_hint
    Rewriter.insert_op(new, InsertPoint.before(call))
    replace_all_uses(call.results[0], new.results[0])
    remove(call)
    if isinstance(made, host.ReinterpretOp) and not made.results[0].uses:
        remove(made)


__all__ = ["LINEAR", "ChooseLibrariesPass", "with_onednn"]
