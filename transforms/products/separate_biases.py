"""`separate-biases`: a bias is added by the kernel that follows, where the library would not add it for nothing, and
after a convolution by one of its own if none follows; the gradient of one is summed up by a kernel of ours.

%y = loops.extern pure "aten.convolution.default"(%x, %w, %b, …)
→
%t = loops.extern pure "aten.convolution.default"(%x, %w, none, …)
%y = loops.nest (%n : 8, %c : 64, %i : 56, %j : 56) … { %t[%n, %c, %i, %j] + %b[%c] }

%dx, %dw, %db = loops.extern pure "aten.convolution_backward.default"(%dy, …, [true, true, true])
→
%dx, %dw, %none = loops.extern pure "aten.convolution_backward.default"(%dy, …, [true, true, false])
%db = loops.nest (%c : 64) … { sum (%n : 8, %i : 56, %j : 56) of %dy[%n, %c, %i, %j] }
"""

from __future__ import annotations

from typing import Final

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.aten import LITERAL_TYPE, Operand, flatten_call
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import element_type_of, is_tensor, sizes_of, tensor_type_of, traits_of
from cuesta.dialects.loops.surgery import remove
from cuesta.transforms.products.products import insert, load_in_f32, number_of, scaled, unknown_factors

_CONVOLUTION: Final = "aten.convolution.default"
_ADDMM: Final = "aten.addmm.default"
_BACKWARD: Final = "aten.convolution_backward.default"


class SeparateBiasesPass(ModulePass):
    """convolution(x, w, b) -> convolution(x, w, none) + b; addmm(b, x, w) -> alpha · mm(x, w) + beta · b, where a nest
    follows; the third result of convolution_backward(dy, …) -> a sum of dy.

    Reassociates in a product: a sum begins with 0 in place of the bias. In f16 and bf16 a convolution is rounded before
    its bias is added, as in eager, whose library does the same; a product would not be, and is left alone.
    """

    name = "separate-biases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for call in entry_block(op).ops:
            if not isinstance(call, loops.ExternOp):
                continue
            if call.overload in (_CONVOLUTION, _ADDMM) and biased(call):
                if (reason := obstacle(call)) is None:
                    separate(call)
                else:
                    no_match(call, reason)
            elif call.overload == _BACKWARD and asks_for_a_sum(call):
                sum_gradient(call)


def biased(call: loops.ExternOp) -> bool:
    """Whether a convolution, or a product, has a bias."""
    return call.overload == _ADDMM or isinstance(call.arguments_attr.positional[2], Operand)


def asks_for_a_sum(call: loops.ExternOp) -> bool:
    """Whether a library would sum up the gradient of a bias, beside another gradient, and by a kernel of its own."""
    wanted = call.arguments_attr.positional[-1]
    bias = call.results[2]
    if not isinstance(wanted, tuple) or not wanted[2] or not any(wanted[:2]) or not is_tensor(bias):
        return False
    return element_type_of(bias) in (f32, Float16Type(), BFloat16Type()) and not traits_of(bias).free_biases


def sum_gradient(call: loops.ExternOp) -> None:
    """Puts a sum over all but the channels in the place of the gradient of a bias."""
    positional = call.positional_values()
    wanted = positional[-1]
    assert isinstance(wanted, tuple)
    positional[-1] = (*wanted[:2], False)
    operands, arguments = flatten_call(positional)
    types = [*(result.type for result in call.results[:2]), LITERAL_TYPE]
    rest = loops.ExternOp.of(_BACKWARD, operands, arguments, types, pure="pure" in call.properties)
    given, bias = call.operands[0], tensor_type_of(call.results[2])
    batch, channels, *places = sizes_of(tensor_type_of(given))
    nest, total = loops.NestOp.build((channels,), [bias]), loops.ReduceOp.build("sum", (batch, *places), f32)
    rest.location = nest.location = total.location = call.location
    inside, place = InsertPoint.at_end(total.body), InsertPoint.at_end(nest.body)
    axes = [*nest.induction_variables, *total.induction_variables]
    at: list[sym.IndexExpr] = [sym.dim(1), sym.dim(0), *(sym.dim(k + 2) for k in range(len(places)))]
    value = load_in_f32(given, at, axes, (channels, batch, *places), call, inside)
    insert(loops.YieldOp.build(value), call, inside)
    found = insert(total, call, place)
    if found is not None and bias.element_type != f32:
        found = insert(elem.ConvertOp.build(found, bias.element_type), call, place)
    assert found is not None
    insert(loops.StoreOp.build(found, nest.handles[0], [sym.dim(0)], nest.induction_variables), call, place)
    Rewriter.insert_op([rest, nest], InsertPoint.before(call))
    for old, new in zip(call.results, (*rest.results[:2], nest.results[0]), strict=True):
        new.name_hint = old.name_hint
        replace_all_uses(old, new)
    remove(call)


def obstacle(call: loops.ExternOp) -> str | None:
    """Why a bias stays with its call."""
    result = call.results[0]
    if not is_tensor(result) or element_type_of(result) not in (f32, Float16Type(), BFloat16Type()):
        return "the result is not of floats of 16 or 32 bits"
    if traits_of(result).free_biases:
        return "the library adds the bias for nothing"
    if call.overload == _CONVOLUTION:
        return None  # whoever sees the sum, it is written by a kernel of its own: by eager's, or by ours
    followed = [isinstance(use.operation, loops.LoadOp) for use in result.uses]
    if not (followed and all(followed)):
        return "who is no nest sees the sum"
    if element_type_of(result) != f32:
        return "the product would be rounded before the bias is added"
    if (reason := unknown_factors(call)) is not None:
        return reason
    sizes = sizes_of(tensor_type_of(call.tensor("self")))
    if len(sizes) == 2 and sizes[0] != 1:
        return "what is added is a matrix"
    return None


def separate(call: loops.ExternOp) -> None:
    """Puts a call without a bias, and a nest that adds it, in the place of a call."""
    result = tensor_type_of(call.results[0])
    sizes = sizes_of(result)
    alpha, beta = number_of(call, "alpha"), number_of(call, "beta")
    if call.overload == _CONVOLUTION:
        bias, overload = call.tensor("bias"), _CONVOLUTION
        positional = call.positional_values()
        positional[2] = None
    else:
        bias, overload = call.tensor("self"), "aten.mm.default"
        positional = [call.tensor("mat1"), call.tensor("mat2")]
    operands, arguments = flatten_call(positional)
    alone = loops.ExternOp.of(overload, operands, arguments, [result], pure="pure" in call.properties)
    alone.results[0].name_hint = call.results[0].name_hint
    nest = loops.NestOp.build(sizes, [result])
    alone.location = nest.location = call.location
    place = InsertPoint.at_end(nest.body)
    dims: list[sym.IndexExpr] = [sym.dim(k) for k in range(len(sizes))]
    own = sizes_of(tensor_type_of(bias))
    along = dims[1:2] if overload == _CONVOLUTION else dims[len(dims) - len(own) :]
    at = [0 if size == 1 else dim for size, dim in zip(own, along, strict=True)]
    variables = nest.induction_variables
    total: SSAValue | None = load_in_f32(alone.results[0], dims, variables, sizes, call, place)
    total = scaled(total, alpha, call, place)
    if beta:
        right = scaled(load_in_f32(bias, at, variables, sizes, call, place), beta, call, place)
        total = insert(elem.make("add", total, right), call, place)
        assert total is not None
    if result.element_type != f32:
        total = insert(elem.ConvertOp.build(total, result.element_type), call, place)
        assert total is not None
    insert(loops.StoreOp.build(total, nest.handles[0], dims, variables), call, place)
    Rewriter.insert_op([alone, nest], InsertPoint.before(call))
    replace_all_uses(call.results[0], nest.results[0])
    remove(call)


__all__ = ["SeparateBiasesPass"]
