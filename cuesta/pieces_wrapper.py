"""The wrapper of a graph in pieces: Python text that calls them, and between them what eager runs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch._ops import HigherOrderOperator, OperatorBase
from torch.fx import GraphModule, Node
from torch.utils._pytree import key_get

from cuesta.dialects import sym
from cuesta.lowering.capture.sympy_to_sym import index_expression
from cuesta.opaque import free_symbols, kinds_of
from cuesta.pieces import Piece, as_symbol, attribute_of, bindings_of, complete_metadata, piece_of, plan_of
from cuesta.targets.host.python_text import Names, expression, identifier, tuple_text
from cuesta.targets.host.runtime import check_metadata, with_strides
from cuesta.targets.python_functions import define

BoxedFunction = Callable[[list[Any]], Any]

_WITH_COMPILED_BODIES = ("cond", "while_loop", "invoke_subgraph")
"""The higher-order operators that only call the graphs they are given."""


class PiecesWriter:
    """Writes the function that runs the pieces, and what eager runs, in order."""

    def __init__(self, gm: GraphModule, compile_piece: Callable[[GraphModule], BoxedFunction]) -> None:
        self.gm = gm
        self.compile_piece = compile_piece
        complete_metadata(gm)
        self.kinds = kinds_of(gm.graph.nodes)
        self.plan = plan_of(gm, self.kinds)
        self.lines: list[str] = []
        self.taken = Names(("args", "call", "inputs", "max", "min"))
        self.namespace: dict[str, Any] = {
            "torch": torch,
            "key_get": key_get,
            "check_metadata": check_metadata,
            "with_strides": with_strides,
        }
        self.taken.update(self.namespace)
        self.names: dict[Node, str] = {}
        self.bound: set[str] = set()
        """The symbols that have a value."""
        self.constants: dict[int, str] = {}
        self.remaining: dict[Node, int] = {}
        """How many steps still use a value."""
        self.opaque: list[str] = []
        """The operators that eager runs for their results: not those that only check."""
        self.bodies: dict[GraphModule, Callable[..., Any]] = {}

    def write(self) -> tuple[str, Callable[[list[Any]], Any]]:
        """The text, and the function."""
        plan = self.plan
        pieces = [piece_of(nodes, self.gm) if nodes else None for nodes in plan.pieces]
        nodes = list(self.gm.graph.nodes)
        output = nodes[-1]
        steps: list[Piece | Node] = [*plan.calls[0]]
        for piece, calls in zip(pieces, plan.calls[1:], strict=True):
            steps += [*([] if piece is None else [piece]), *calls]
        steps += plan.writes
        for step in (*steps, output):
            for source in _read(step):
                self.remaining[source] = self.remaining.get(source, 0) + 1
        self.open([node for node in nodes if node.op == "placeholder"])
        for step in steps:
            if isinstance(step, Piece):
                self.piece(step)
            else:
                self.call(step)
        returned = output.args[0]
        values = returned if isinstance(returned, tuple | list) else (returned,)
        self.lines.append(f"return ({''.join(f'{self.text(value)}, ' for value in values)})")
        source = "def call(args):\n    " + "\n    ".join(self.lines) + "\n"
        return source, self.function(source)

    def function(self, source: str) -> Callable[[list[Any]], Any]:
        """The text as a function."""
        define(source, "pieces", self.namespace)
        return self.namespace["call"]

    def open(self, placeholders: Sequence[Node]) -> None:
        """Takes the inputs, and binds the symbols that they tell."""
        names = [self.define(node) for node in placeholders]
        if names:
            self.lines.append(f"{', '.join(names)}, = args")
        self.lines.append("args.clear()")
        found: dict[str, str] = {}
        for node, name in zip(placeholders, names, strict=True):
            value = node.meta.get("val")
            if (symbol := as_symbol(value)) is not None:
                found[str(symbol)] = name
            elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
                for axis, size in enumerate(value.shape):
                    if (symbol := as_symbol(size)) is not None:
                        found.setdefault(str(symbol), f"{name}.size({axis})")
        for symbol, text in found.items():
            self.bind(symbol, text)
        self.free([node for node in placeholders if node not in self.remaining])

    def bind(self, symbol: str, text: str) -> None:
        """Gives a symbol its value."""
        if symbol in self.taken:
            raise AssertionError(f"the symbol {symbol} has the name of a value")
        self.taken.add(symbol)
        self.bound.add(symbol)
        self.lines.append(f"{symbol} = {text}")

    def define(self, node: Node) -> str:
        """Names a value; `v_`: symbols are called `s0`, values never are."""
        hint = f"v_{node.name}" if node.name[1:].isdigit() else node.name
        name = self.names[node] = identifier(hint, self.taken)
        return name

    def piece(self, piece: Piece) -> None:
        """One piece: its inputs go as soon as it has read them."""
        name = identifier("piece", self.taken)
        self.namespace[name] = self.compile_piece(piece.graph)
        values = [*map(self.text, piece.inputs), *map(str, piece.symbols)]
        self.lines.append(f"inputs = [{', '.join(values)}]")
        self.used(piece.inputs)
        results = [self.define(node) for node in piece.outputs]
        call = f"{name}(inputs)"
        self.lines.append(f"{', '.join(results)}, = {call}" if results else call)

    def call(self, node: Node) -> None:
        """One call that eager runs."""
        target: Any = node.target
        if self.kinds.get(node) == "opaque" and isinstance(target, OperatorBase) and node.users:
            self.opaque.append(_operator_behind(node))
        bodies = isinstance(target, HigherOrderOperator) and target.name() in _WITH_COMPILED_BODIES
        parts = [self.text(argument, compiled=bodies) for argument in node.args]
        parts += [f"{key}={self.text(value, compiled=bodies)}" for key, value in node.kwargs.items()]
        name = self.define(node)
        self.lines.append(f"{name} = {self.constant(target, getattr(target, '__name__', 'call'))}({', '.join(parts)})")
        for symbol, path in bindings_of(node).items():
            self.bind(str(symbol), f"key_get({name}, {self.constant(path, f'way_to_{symbol}')})")
        self.check(node)
        self.used([*dict.fromkeys(node.all_input_nodes), *([] if node in self.remaining else [node])])

    def check(self, node: Node) -> None:
        """Holds a result of eager's to its metadata: what reads it was compiled for these sizes and strides.

        A size may be a symbol that nothing else tells (that of a random state's tensor): then it is what it is.
        """
        value, name = node.meta.get("val"), self.names[node]
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return
        for axis, size in enumerate(value.shape):
            if (symbol := as_symbol(size)) is not None and str(symbol) not in self.bound:
                self.bind(str(symbol), f"{name}.size({axis})")
        if not {str(symbol) for symbol in free_symbols(value)} <= self.bound:
            return
        sizes, strides = (tuple_text(tuple(map(_expression_of, numbers))) for numbers in (value.shape, value.stride()))
        self.lines.append(f"check_metadata({name}, {sizes}, {value.dtype}, {_operator_behind(node)!r})")
        if value.dim():
            self.lines.append(f"if {name}.stride() != {strides}: {name} = with_strides({name}, {strides})")

    def used(self, nodes: Sequence[Node]) -> None:
        """Counts one use of each; what is used no more loses its name."""
        for node in nodes:
            self.remaining[node] = self.remaining.get(node, 1) - 1
        self.free([node for node in nodes if self.remaining[node] <= 0])

    def free(self, nodes: Sequence[Node]) -> None:
        """Forgets values."""
        names = [self.names[node] for node in nodes if node in self.names]
        if names:
            self.lines.append(f"del {', '.join(names)}")

    def text(self, value: Any, *, compiled: bool = False) -> str:
        """An argument in Python."""
        if isinstance(value, Node):
            return self.node_text(value, compiled=compiled)
        if isinstance(value, tuple | list):
            inner = [self.text(element, compiled=compiled) for element in value]
            return f"({''.join(f'{one}, ' for one in inner)})" if isinstance(value, tuple) else f"[{', '.join(inner)}]"
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return f"{{{', '.join(f'{key!r}: {self.text(one, compiled=compiled)}' for key, one in pairs)}}}"
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return repr(value)
        if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
            return str(value)
        return self.constant(value, "constant")

    def node_text(self, node: Node, *, compiled: bool) -> str:
        """A value of the graph: a size is told by its expression."""
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            return expression(_expression_of(value))
        if node.op != "get_attr":
            return self.names[node]
        attribute = attribute_of(self.gm, str(node.target))
        if compiled and isinstance(attribute, GraphModule) and _is_traced(attribute):
            attribute = self.body(attribute)
        return self.constant(attribute, node.name)

    def body(self, gm: GraphModule) -> Callable[..., Any]:
        """A graph that a higher-order operator calls, compiled; once, however often it is called."""
        known = self.bodies.get(gm)
        if known is None:
            boxed = self.compile_piece(gm)
            returned = next(node for node in gm.graph.nodes if node.op == "output").args[0]
            several = isinstance(returned, tuple | list)
            known = self.bodies[gm] = lambda *args: tuple(boxed(list(args))) if several else boxed(list(args))[0]
        return known

    def constant(self, value: Any, hint: str) -> str:
        """The name of an object; one object, one name."""
        known = self.constants.get(id(value))
        if known is None:
            known = self.constants[id(value)] = identifier(hint, self.taken)
            self.namespace[known] = value
        return known


def _expression_of(number: Any) -> sym.IndexExpr:
    return index_expression(number.node.expr) if isinstance(number, torch.SymInt) else int(number)


def _operator_behind(node: Node) -> str:
    """What gave a value, by name: an overload, or a higher-order operator."""
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    target = node.target
    return f"higher_order.{target.name()}" if isinstance(target, HigherOrderOperator) else str(target)


def _read(step: Piece | Node) -> Sequence[Node]:
    return step.inputs if isinstance(step, Piece) else list(dict.fromkeys(step.all_input_nodes))


def _is_traced(gm: GraphModule) -> bool:
    """Whether a graph says of each value what it is."""
    return all("val" in node.meta for node in gm.graph.nodes if node.op in ("placeholder", "call_function"))
