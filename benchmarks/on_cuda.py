"""Programs for CUDA devices on a machine without one: captured on the CPU, and moved."""

from __future__ import annotations

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.func import FuncOp
from cuesta.dialects.layout import sizes_of, strides_of, tensor_type


def on_cuda(module: ModuleOp) -> ModuleOp:
    """A copy of a program at the `aten` level whose tensors all lie on a CUDA device."""
    moved = _parsed(print_text(module).replace('torch.device("cpu")', 'torch.device("cuda:0")'))
    for op in moved.walk():
        values: list[SSAValue] = [*op.results]
        for region in op.regions:
            for block in region.blocks:
                values += block.args
        for value in values:
            if isinstance(value.type, TensorType):
                Rewriter.replace_value_with_new_type(value, _on_cuda(value.type))
    main = entry_function(moved)
    assert isinstance(main, FuncOp)
    kind = main.function_type
    main.properties["function_type"] = FunctionType.from_lists(
        [_on_cuda(t) for t in kind.inputs], [_on_cuda(t) for t in kind.outputs]
    )
    return moved


def _on_cuda(kind: Attribute) -> Attribute:
    if not isinstance(kind, TensorType):
        return kind
    return tensor_type(sizes_of(kind), kind.element_type, strides_of(kind), "cuda:0")


def _parsed(text: str) -> ModuleOp:
    return CuestaParser(make_context(), text, "<test>").parse_module()


__all__ = ["on_cuda"]
