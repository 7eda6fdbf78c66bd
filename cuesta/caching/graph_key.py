"""The text that names a graph in the cache: equal texts compile to the same program.

It says what the importer (`lowering/capture/fx_to_aten.py`) reads of an FX graph and nothing else, by a walk over the
nodes that needs neither xDSL nor a pass of ours: who finds its programs in the cache never imports the compiler.
`docs/decisions/005-cache-keys.md` says why it is not the text of the level `aten`. Nodes are numbered, and so are
symbols, in order of appearance: names say nothing. So do lines of the model (see `entry.py`).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from cuesta.lowering.capture.objects import is_object

if TYPE_CHECKING:
    from torch.fx import GraphModule

_FUNCTION_MODULES: Final = ("_operator", "math", "torch", "torch.fx.experimental.sym_node")
"""Where functions on sizes come from; of one from elsewhere we cannot say what it is."""

_COMMUTATIVE: Final = frozenset({"Add", "Mul", "Max", "Min"})


class UnkeyableError(Exception):
    """A graph that holds something we have no text for. It is compiled as if there were no cache."""


def graph_text(gm: GraphModule, numbers: dict[int, int] | None = None) -> str:
    """The graph as text, a line for each node. With `numbers` CUDA devices are counted in order of appearance, and put
    down there; otherwise they stand in the text as they are.

    Errors: UnkeyableError.
    """
    writer = _Writer(gm, numbers)
    lines = [writer.line(number, node) for number, node in enumerate(gm.graph.nodes)]
    return "\n".join([*lines, *writer.symbol_lines()])


class _Writer:
    def __init__(self, gm: GraphModule, devices: dict[int, int] | None, outer: _Writer | None = None) -> None:
        self.gm = gm
        self.devices = devices
        self.numbers: dict[Node, str] = {}
        self.targets: dict[Any, str] = {}
        self.static_types: dict[Any, str] = {}
        self.expressions: dict[Any, str] = {}
        self.symbols: dict[Any, tuple[str, Any]] = {}  # SymPy symbol -> (its number, its shape environment)
        if outer is not None:  # a graph that another holds shares its symbols
            self.expressions, self.symbols = outer.expressions, outer.symbols

    def line(self, number: int, node: Node) -> str:
        """One node: what it is, what it is called with, and the metadata of what it gives."""
        self.numbers[node] = f"%{number}"
        if node.op == "call_function":
            arguments = self.arguments(node.args)
            if node.kwargs:
                arguments += "".join(f",{name}={self.value(value)}" for name, value in node.kwargs.items())
            bound = self.bindings(node) if node.meta.get("unbacked_bindings") else ""
            return f"{self.target(node.target)}({arguments}):{self.metadata(node)}{bound}"
        if node.op == "placeholder":
            # An object is passed on, whatever it is.
            return "input:object" if is_object(node.meta.get("val")) else f"input:{self.metadata(node)}"
        if node.op == "output":
            return f"output({self.arguments(node.args)})"
        if node.op == "get_attr":
            return self.constant(node)
        raise UnkeyableError(f"a {node.op} node")

    def arguments(self, values: Any) -> str:
        return ",".join([self.value(value) for value in values])

    def value(self, value: Any) -> str:
        """An argument, or the metadata of a result."""
        if type(value) is Node:
            return self.numbers[value]
        constant = _CONSTANTS.get(type(value))
        if constant is not None:
            return constant(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, torch.device):
            return f"device({self.device(value)})"
        if isinstance(value, tuple | list):
            return f"[{self.arguments(value)}]"
        if isinstance(value, dict):
            pairs = cast("dict[Any, Any]", value).items()
            return f"{{{','.join([f'{self.value(key)}:{self.value(one)}' for key, one in pairs])}}}"
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return f"{type(value).__name__}({self.symbolic(value)})"
        if isinstance(value, OpOverload | HigherOrderOperator):  # what `with_effects` calls
            return self.target(value)
        raise UnkeyableError(f"a value of type {type(value).__name__}")

    def bindings(self, node: Node) -> str:
        """The symbols that stand for sizes of a result, which only the data knows, and where they are found."""
        from cuesta.lowering.capture.plan import bindings_of, shape_env_of

        found = {symbol: (way, shape_env_of(node)) for symbol, way in bindings_of(node).items()}
        return "".join(f"<{self.expression(symbol, env)}={way}>" for symbol, (way, env) in found.items())

    def metadata(self, node: Node) -> str:
        return self.value(node.meta["val"]) if "val" in node.meta else "?"

    def constant(self, node: Node) -> str:
        """A tensor, or an object, that the graph holds: the driver passes it as an argument, so that what is in it does
        not matter.
        """
        name = str(node.target)
        value: Any = self.gm
        for part in name.split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            inner = _Writer(value, self.devices, self)
            return f"graph{{{';'.join(inner.line(number, one) for number, one in enumerate(value.graph.nodes))}}}"
        if not isinstance(value, torch.Tensor) and not is_object(value):
            raise UnkeyableError(f"an attribute of type {type(value).__name__}")
        key = ("constant", name)
        text = self.targets.setdefault(key, f"constant{len(self.targets)}")
        return f"{text}:{'object' if is_object(value) else self.value(node.meta.get('val', value))}"

    # -- targets ------------------------------------------------------------------------------------------------------

    def target(self, target: Any) -> str:
        text = self.targets.get(target)
        if text is None:
            text = self.targets[target] = _target_text(target)
        return text

    # -- tensors ------------------------------------------------------------------------------------------------------

    def tensor(self, value: torch.Tensor) -> str:
        if value.layout is not torch.strided:
            raise UnkeyableError(f"a tensor with layout {value.layout}")
        sizes: tuple[Any, ...] = tuple(value.shape)
        strides: tuple[Any, ...] = value.stride()
        for number in sizes + strides:
            if type(number) is not int:
                dims = ",".join([self.value(number) for number in sizes])
                steps = ",".join([self.value(number) for number in strides])
                return f"{value.dtype}({dims})({steps}){self.device(value.device)}"
        key = (sizes, strides, value.dtype, value.device)
        text = self.static_types.get(key)
        if text is None:
            text = self.static_types[key] = f"{value.dtype}{sizes}{strides}{self.device(value.device)}"
        return text

    def device(self, device: torch.device) -> str:
        if self.devices is None or device.type != "cuda" or device.index is None:
            return str(device)
        return f"cuda {self.devices.setdefault(device.index, len(self.devices))}"

    # -- symbols ------------------------------------------------------------------------------------------------------

    def symbolic(self, number: torch.SymInt | torch.SymFloat | torch.SymBool) -> str:
        node: Any = number.node
        expression = getattr(node, "expr", None)
        if expression is None:
            raise UnkeyableError("a size of a ragged tensor")
        return self.expression(expression, node.shape_env)

    def expression(self, expression: Any, shape_env: Any) -> str:
        """A SymPy expression, taken apart: its own printer rounds floats, and SymPy sorts by the names of symbols."""
        text = self.expressions.get(expression)
        if text is None:
            text = self.expressions[expression] = self.fresh_expression(expression, shape_env)
        return text

    def fresh_expression(self, expression: Any, shape_env: Any) -> str:
        name = type(expression).__name__
        if expression.args:
            arguments = [self.expression(argument, shape_env) for argument in expression.args]
            if name in _COMMUTATIVE:
                arguments.sort()
            return f"{name}({','.join(arguments)})"
        if getattr(expression, "is_Symbol", False):
            return self.symbols.setdefault(expression, (f"${len(self.symbols)}", shape_env))[0]
        if getattr(expression, "is_Float", False):
            import sympy

            return sympy.srepr(expression)
        return f"{name}:{expression}"

    def symbol_lines(self) -> list[str]:
        """What is known of each symbol. A first letter `u` says: not before the program runs."""
        lines: list[str] = []
        for symbol, (text, shape_env) in self.symbols.items():
            found = shape_env.var_to_range.get(symbol)
            ends = "" if found is None else f"{found.lower},{found.upper}"
            letters = str(symbol).rstrip("0123456789")
            facts = f"{symbol.is_integer},{symbol.is_nonnegative},{symbol.is_positive}"
            lines.append(f"{text}={letters} {facts} [{ends}]")
        return lines


def _target_text(target: Any) -> str:
    if isinstance(target, OpOverload):
        name = target.name()
        # An operator of torch's own is what torch's version says; a user's may be anything at all.
        if target.namespace in ("aten", "prims"):
            return name
        return f"{name}<{target._schema}>{sorted(map(str, target.tags))}"
    if isinstance(target, HigherOrderOperator):
        if target.name() in _HIGHER_ORDER:
            return f"higher_order.{target.name()}"
        raise UnkeyableError(f"the higher-order operator {target}")
    module = getattr(target, "__module__", None)
    if isinstance(target, types.BuiltinFunctionType | types.FunctionType) and module in _FUNCTION_MODULES:
        return f"{module}.{target.__qualname__}"
    raise UnkeyableError(f"a call of {target}")


_HIGHER_ORDER: Final = frozenset(
    {
        "associative_scan",
        "auto_functionalized",
        "auto_functionalized_v2",
        "cond",
        "flex_attention",
        "flex_attention_backward",
        "invoke_subgraph",
        "run_and_save_rng_state",
        "run_with_rng_state",
        "while_loop",
        "with_effects",
    }
)
"""Higher-order operators that are what their arguments say: they look nothing up in tables of the process."""

_CONSTANTS: Final[dict[type, Callable[[Any], str]]] = {
    int: repr,
    bool: repr,
    float: repr,
    complex: lambda number: f"complex({number.real!r},{number.imag!r})",
    str: repr,
    type(None): repr,
    torch.dtype: str,
    torch.memory_format: str,
    torch.layout: str,
}
"""Texts of constants, by their type. No two constants that the importer tells apart have the same."""
