"""The FX graph that AOTAutograd handed over, as data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuesta.explain.model import Node

if TYPE_CHECKING:
    import torch

    from cuesta.explain.provenance import Sources

_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "i1", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "ui8",
}  # fmt: skip
_ROOT = re.compile(r"^L\['\w+'\]\.?|^\w*self\b\.?")
_MEMBER = re.compile(r"(?:\._modules)?\[['\"]?(\w+)['\"]?\]")


@dataclass(frozen=True)
class _Traced:
    name: str
    operator: str
    inputs: tuple[str, ...]
    type: str
    line: tuple[str, int] | None
    module: str


@dataclass
class TracedGraph:
    """A graph's nodes, its text, and what its symbols were when it was captured."""

    nodes: list[_Traced] = field(default_factory=list[_Traced])
    text: str = ""
    hints: dict[str, int] = field(default_factory=dict[str, int])
    device: str = ""

    @classmethod
    def of(cls, gm: torch.fx.GraphModule) -> TracedGraph:
        """Reads a graph."""
        import torch

        from cuesta.lowering.capture.stack_traces import line_of

        found = cls()
        for node in gm.graph.nodes:
            value = node.meta.get("val")
            operator = str(node.target) if node.op == "call_function" else node.op
            inputs = tuple(one.name for one in node.all_input_nodes)
            found.nodes.append(_Traced(node.name, operator, inputs, _type_of(value), line_of(node), _module_of(node)))
            for one in value if isinstance(value, tuple | list) else (value,):
                found._hint(one)
                if isinstance(one, torch.Tensor) and not found.device:
                    found.device = str(one.device)
        try:
            found.text = gm.print_readable(print_output=False)
        except (RuntimeError, AttributeError, TypeError, ValueError):  # a graph that only runs: its nodes are known
            found.text = str(gm.graph)
        return found

    def _hint(self, value: Any) -> None:
        """Remembers what symbols stand for at the capture: sizes of a tensor, or a number."""
        import torch

        if isinstance(value, torch.Tensor):
            try:
                sizes = [*value.shape, *value.stride()]
            except (RuntimeError, NotImplementedError):  # of a subclass, or no strides
                return
        else:
            sizes = [value]
        for size in sizes:
            if not isinstance(size, torch.SymInt):
                continue
            expression, hint = getattr(size.node, "expr", None), getattr(size.node, "hint", None)
            if expression is not None and isinstance(hint, int) and getattr(expression, "is_symbol", False):
                self.hints.setdefault(str(expression), hint)

    def names_by_operator(self) -> dict[str, Iterator[str]]:
        """The names of the nodes of each operator, in order."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            found.setdefault(node.operator, []).append(node.name)
        return {operator: iter(names) for operator, names in found.items()}

    def name_sources(self, sources: Sources) -> None:
        """Numbers the lines of all nodes."""
        sources.of(node.line for node in self.nodes if node.line is not None)

    def as_nodes(self, sources: Sources) -> tuple[Node, ...]:
        """The nodes as an explanation has them."""
        return tuple(
            Node(
                one.name,
                one.operator,
                one.inputs,
                one.type,
                sources.of([one.line]) if one.line is not None else (),
                one.module,
            )
            for one in self.nodes
        )


def type_text(dtype: str, sizes: Any) -> str:
    """`f32[64, 256]`."""
    return f"{_SHORT.get(dtype, dtype)}[{', '.join(map(str, sizes))}]"


def _type_of(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return type_text(str(value.dtype).removeprefix("torch."), value.shape)
    if isinstance(value, tuple | list):
        return ", ".join(_type_of(one) or "none" for one in value)
    return "" if value is None else str(value)


def _module_of(node: torch.fx.Node) -> str:
    """The path of the innermost module that called for a node: `layers.0.attention`."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return _MEMBER.sub(r".\1", _ROOT.sub("", path)).replace("_modules.", "").strip(".")
