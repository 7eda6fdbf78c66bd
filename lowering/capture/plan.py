"""What is made of each call of a graph, and when: the one plan that the importer then writes down.

A level has ops for most calls. What none can say, eager runs: higher-order operators (a branch, a loop, a random state
kept for recomputation), operators whose result has a size that only the data knows, and whatever takes or gives a
tensor that is not strided, or an object. The rest is compiled around that, in as few pieces as the data flow allows:
piece 0 is what needs nothing of eager's, piece k + 1 what needs something that eager computes from the results of
pieces up to k. Each is a graph of its own: a size that only the data knows is an input to it. Writes to inputs come
last.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import torch
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from cuesta.dialects.core.structs import struct
from cuesta.lowering.capture.objects import is_object

if TYPE_CHECKING:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

Kind = Literal["computed", "opaque", "size", "number", "write"]
"""What is made of a call: compiled; run by eager; told by an index expression; run in Python; done at the very end."""

_WRITE: Final = torch.ops.aten.copy_.default
_WITH_EFFECTS: Final = torch.ops.higher_order.with_effects


_COMMUNICATION: Final = ("_c10d_functional", "_dtensor", "c10d", "symm_mem")
"""Where operators come from that communicate with other processes."""


def has_opaque_nodes(gm: GraphModule) -> bool:
    """Whether a graph has to be compiled in pieces."""
    unsayable = _unsayable(gm.graph.nodes)
    returned = [one for one in gm.graph.output_node().all_input_nodes if not _passes_through(one)]
    if not unsayable.isdisjoint(returned):
        return True  # the condition of a loop over numbers
    return any(node.op == "call_function" and _is_opaque(node, unsayable) for node in gm.graph.nodes)


def _unsayable(nodes: Iterable[Node]) -> set[Node]:
    """The nodes that may not stand in a call that is compiled."""
    return {node for node in nodes if _is_unsayable(node.meta.get("val"), as_argument=True)}


def _passes_through(node: Node) -> bool:
    """Whether it is an object that the graph is given, or holds."""
    return node.op != "call_function" and is_object(node.meta.get("val"))


def _is_opaque(node: Node, unsayable: set[Node]) -> bool:
    """Whether no level can say a call."""
    target, value = node.target, node.meta.get("val")
    if isinstance(target, OpOverload):
        if node.meta.get("unbacked_bindings") or _is_given_objects(node, cast("Any", target)):
            return True
        if (may_be_refused := _LOOKED_AT.get(cast("object", target))) is not None and may_be_refused(node):
            return True
    elif isinstance(target, HigherOrderOperator):
        return target is not _WITH_EFFECTS or not isinstance(node.args[1], OpOverload)
    else:
        return not (target is operator.getitem or _is_number(value))
    return bool(unsayable) and (_is_unsayable(value) or not unsayable.isdisjoint(node.all_input_nodes))


def _may_not_be_there(node: Node) -> bool:
    """Whether only the data knows if there is a place that is read or inserted into: eager looks."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

    source, *_, dim, index = (cast("Any", one.meta["val"] if isinstance(one, Node) else one) for one in node.args)
    size = source.shape[dim] if source.dim() else 0
    if isinstance(size, int) or not free_unbacked_symbols(size):
        return False
    return not (statically_known_true(index < size) and statically_known_true(index >= -size))


def _may_not_fit(node: Node) -> bool:
    """Whether only the data knows if what is inserted has the size of its place: eager looks."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

    given: list[Any] = [one.meta["val"] if isinstance(one, Node) else one for one in node.args]
    defaults: list[Any] = [0, None, None, 1]
    whole, part, dim, start, end, step = given + defaults[len(given) - 2 :]
    sizes: list[Any] = [*whole.shape]
    start = 0 if start is None else start
    end = sizes[dim] if end is None or statically_known_true(end >= sizes[dim]) else end
    if not any(map(free_unbacked_symbols, (*sizes, *part.shape, start, end))):
        return False
    if not (statically_known_true(start >= 0) and statically_known_true(end >= start)):
        return True
    sizes[dim] = (end - start + step - 1) // step
    if len(sizes) != part.dim():
        return True
    return not all(statically_known_true(one == other) for one, other in zip(sizes, part.shape, strict=True))


_LOOKED_AT: Final[Mapping[object, Callable[[Node], bool]]] = {
    torch.ops.aten.select.int: _may_not_be_there,
    torch.ops.aten.select_scatter.default: _may_not_be_there,
    torch.ops.aten.slice_scatter.default: _may_not_fit,
}
"""Operators that may refuse what only the data knows, and when they may."""


def _is_given_objects(node: Node, target: OpOverload[..., Any]) -> bool:
    """Whether an operator of somebody's is called with an object that stands in the graph as it is."""
    if target.namespace in ("aten", "prims", "_c10d_functional"):
        return False
    return any(not isinstance(one, Node) and is_object(one) for one in (*node.args, *node.kwargs.values()))


def _kind_of(node: Node, unsayable: set[Node], kinds: dict[Node, Kind]) -> Kind:
    """What is made of a call. What is taken from an opaque result is opaque too."""
    if node.target is _WRITE:
        return "write"
    if _is_opaque(node, unsayable) or node.target is _WITH_EFFECTS:
        return "opaque"  # Tokens are no tensors: what they order stays with them.
    if node.target is operator.getitem:
        source = node.args[0]
        return kinds.get(source, "computed") if isinstance(source, Node) else "computed"
    if _is_number(value := node.meta.get("val")):
        return "size" if isinstance(value, torch.SymInt) else "number"
    return "computed"


def free_symbols(value: Any) -> set[Any]:
    """The SymPy symbols in the metadata of a value: in its sizes and strides, or in the number that it is."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return set()
        return {symbol for number in (*value.shape, *value.stride()) for symbol in free_symbols(number)}
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        expression = getattr(cast("Any", value).node, "expr", None)
        return set() if expression is None else expression.free_symbols
    if isinstance(value, tuple | list):
        return {symbol for one in cast("Sequence[Any]", value) for symbol in free_symbols(one)}
    return set()


def keeps_its_place(node: Node) -> bool:
    """Whether a call must stay in order with others like it: random numbers, effects, what we know nothing about; and
    communication, to which all processes must come in one order.
    """
    target = node.target
    if isinstance(target, OpOverload):
        if target.namespace in _COMMUNICATION and target is not torch.ops._c10d_functional.wait_tensor.default:
            return True
        return torch.Tag.nondeterministic_seeded in target.tags or not node.users or _is_mutable(cast("Any", target))
    return isinstance(target, HigherOrderOperator)


def _is_mutable(overload: OpOverload[..., Any]) -> bool:
    return overload._schema.is_mutable  # pyright: ignore[reportPrivateUsage]  # it has no public name


def _is_number(value: object) -> bool:
    return value is not None and not isinstance(value, torch.Tensor | tuple | list)


def _is_unsayable(value: Any, *, as_argument: bool = False) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout is not torch.strided
    if value is None:
        return False
    if isinstance(value, tuple | list):
        return any(_is_unsayable(one) for one in cast("Sequence[Any]", value))
    if as_argument and isinstance(value, torch.SymFloat):
        return any(symbol.name.startswith(("u", "zuf")) for symbol in free_symbols(value))
    return is_object(value) or (as_argument and isinstance(value, torch.SymBool))


@struct(frozen=False)
class Plan:
    """What is done when: piece 0, calls that eager runs, piece 1, …; `calls[0]` come before the first piece."""

    pieces: list[list[Node]] = field(default_factory=list[list[Node]])
    calls: list[list[Node]] = field(default_factory=lambda: [[]])
    writes: list[Node] = field(default_factory=list[Node])
    kinds: dict[Node, Kind] = field(default_factory=dict[Node, Kind])

    def place(self, node: Node, kind: Kind, level: int) -> None:
        """Puts a call into piece `level`, or among the calls after it."""
        while len(self.pieces) <= level:
            self.pieces.append([])
            self.calls.append([])
        if kind == "computed":
            self.pieces[level].append(node)
        else:
            self.calls[level + 1].append(node)


def complete_metadata(gm: GraphModule) -> None:
    """Says what a higher-order operator gives, where the partitioner that put it into a backward graph did not."""
    for node in gm.graph.nodes:
        if "val" in node.meta or not isinstance(node.target, HigherOrderOperator):
            continue
        if all(user.target is operator.getitem and "val" in user.meta for user in node.users):
            continue
        values = [source.meta.get("val") for source in node.all_input_nodes]
        mode = detect_fake_mode(values)
        if mode is not None:
            args, kwargs = map_arg((node.args, node.kwargs), lambda source: source.meta.get("val"))
            with mode:
                node.meta["val"] = node.target(*args, **kwargs)


def plan_of(gm: GraphModule) -> Plan:
    """Divides a graph: every call as early as what it needs allows."""
    plan = Plan()
    kinds, unsayable = plan.kinds, set[Node]()
    after: dict[Node, int] = {}
    """The piece after which a value is there; −1: from the start."""
    symbols: dict[Any, int] = {}
    in_order = -1, 0  # the least level of the next call that keeps its place: after a piece, in a piece
    for node in gm.graph.nodes:
        if _is_unsayable(node.meta.get("val"), as_argument=True):
            unsayable.add(node)
        kind = None
        if node.op == "call_function":
            kind = kinds[node] = _kind_of(node, unsayable, kinds)
        if kind is None or kind == "size":
            after[node] = max([-1, *(symbols.get(symbol, -1) for symbol in free_symbols(node.meta.get("val")))])
            continue
        if kind == "write":
            plan.writes.append(node)
            continue
        needed = {symbol for one in (node, *node.all_input_nodes) for symbol in free_symbols(one.meta.get("val"))}
        bound = bindings_of(node)
        known = [symbols.get(symbol, -1) for symbol in needed if symbol not in bound]
        if kind == "computed":
            level = max([0, *(after[source] + (kinds.get(source) != "computed") for source in node.all_input_nodes)])
            level = max([level, *(one + 1 for one in known)])
            if keeps_its_place(node):
                level = max(level, in_order[1])
                in_order = level, level
        else:
            level = max([-1, *(after[source] for source in node.all_input_nodes), *known])
            # Who changes a tensor comes behind those who read it: then it need not be given a clone (`lend-arguments`).
            level = max([level, *(after.get(reader, -1) for one in _changed_by(node) for reader in one.users)])
            if kind == "opaque" and keeps_its_place(node):
                level = max(level, in_order[0])
                in_order = level, level + 1
        after[node] = level
        symbols.update(dict.fromkeys(bound, level))
        plan.place(node, kind, level)
    return plan


def _changed_by(node: Node) -> list[Node]:
    """The tensors that an operator of a user's changes, or else clones of them."""
    if node.target is not torch.ops.higher_order.auto_functionalized_v2:
        return []
    return [one for one in cast("Sequence[Any]", node.kwargs.get("_all_bases", ())) if isinstance(one, Node)]


def bindings_of(node: Node) -> dict[Any, Any]:
    """The symbols that stand for sizes of a call's result, and for where it begins in its storage; and the way from the
    result to each.
    """
    bindings: dict[Any, Any] = node.meta.get("unbacked_bindings") or {}
    if not bindings:
        return {}
    from torch.fx.experimental.symbolic_shapes import resolve_unbacked_bindings

    return resolve_unbacked_bindings(shape_env_of(node), bindings) or {}


def shape_env_of(node: Node) -> ShapeEnv | None:
    """The environment of the symbols in what a call gives."""
    value = node.meta.get("val")
    found = [number.node.shape_env for number in [*_symbolic_numbers(value), *_symbolic_beginnings(value)]]
    return found[0] if found else None


def _symbolic_beginnings(value: Any) -> list[Any]:
    """Where tensors begin in their storages."""
    if isinstance(value, torch.Tensor):
        beginning = value.storage_offset() if value.layout is torch.strided else 0
        return [beginning] if isinstance(beginning, torch.SymInt) else []
    if isinstance(value, tuple | list):
        return [number for one in cast("Sequence[Any]", value) for number in _symbolic_beginnings(one)]
    return []


def _symbolic_numbers(value: Any) -> list[Any]:
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return [value]
    if isinstance(value, torch.Tensor):
        strides = value.stride() if value.layout is torch.strided else ()
        return [number for number in (*value.shape, *strides) if isinstance(number, torch.SymInt)]
    if isinstance(value, tuple | list):
        return [number for one in cast("Sequence[Any]", value) for number in _symbolic_numbers(one)]
    return []


# -- a piece as a graph of its own -------------------------------------------------------------------------------------


@struct(frozen=False)
class Piece:
    """Calls that are compiled together. Its inputs are values of the whole graph, then symbols, and numbers made of
    symbols that nothing tells alone.
    """

    graph: GraphModule
    inputs: list[Node]
    numbers: list[torch.SymInt]
    outputs: list[Node]


def piece_of(nodes: Sequence[Node], gm: GraphModule, untold: Collection[str] = ()) -> Piece:
    """The graph of some calls. `untold` are symbols that the whole graph is not told: only what is made of them."""
    inside = set(nodes)
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Node] = []
    met: dict[Any, Any] = {}  # SymPy symbol -> its shape environment
    made: dict[Any, torch.SymInt] = {}  # SymPy expression -> the number, of those that untold symbols are in
    for node in nodes:
        for source in node.all_input_nodes:
            if source not in inside and source not in copies:
                copies[source] = _placeholder(graph, source.name, _value_of(source, gm))
                inputs.append(source)
        for one in (node, *node.all_input_nodes):
            for number in _symbolic_numbers(one.meta.get("val")):
                symbols = free_symbols(number)
                met.update(dict.fromkeys(symbols, number.node.shape_env))
                if any(str(symbol) in untold for symbol in symbols) and isinstance(number, torch.SymInt):
                    made.setdefault(cast("Any", number).node.expr, number)
    given = {as_symbol(source.meta.get("val")) for source in inputs}
    numbers: list[torch.SymInt] = []
    for symbol in sorted(
        (one for one in met if one not in given and one.is_integer and str(one) not in untold), key=str
    ):
        hint = met[symbol].backed_var_to_val.get(symbol)
        numbers.append(met[symbol].create_symintnode(symbol, hint=None if hint is None else int(hint)))
        _placeholder(graph, f"value_of_{symbol}", numbers[-1])
    for number in made.values():
        _placeholder(graph, f"value_{len(numbers)}", number)
        numbers.append(number)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    graph.output(tuple(copies[node] for node in outputs))
    return Piece(GraphModule({}, graph), inputs, numbers, outputs)


def _placeholder(graph: Graph, name: str, value: Any) -> Node:
    node = graph.placeholder(name)
    node.meta["val"] = value
    return node


def _value_of(node: Node, gm: GraphModule) -> Any:
    if "val" in node.meta or node.op != "get_attr":
        return node.meta.get("val")
    return attribute_of(gm, str(node.target))


def attribute_of(gm: GraphModule, name: str) -> Any:
    """What a graph holds under a name, dots and all."""
    value: Any = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value


def as_symbol(value: Any) -> Any:
    """The symbol that an input is; None when it is anything else."""
    if not isinstance(value, torch.SymInt):
        return None
    found = getattr(cast("Any", value).node, "expr", None)
    return found if getattr(found, "is_Symbol", False) else None
