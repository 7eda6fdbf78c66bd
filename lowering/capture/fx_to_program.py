"""FX graph → program: one function at the level `aten`; or pieces, each such a program, and a host program around them.

The host program calls the pieces and, between them, what eager runs (`plan.py` says which is which). What eager gives
is bound and checked: `host.bind` reads off sizes that only the data knows, `host.check` holds tensors to their types.
Graphs that `cond` and its like call are programs of their own in the same module.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeGuard, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue

from cuesta.dialects import host, sym
from cuesta.dialects.aten import LITERAL_TYPE, Argument, CallArguments, LiteralOp, Operand
from cuesta.dialects.core.diagnostics import Diagnostic
from cuesta.dialects.core.entry import by_storage, entry_function
from cuesta.dialects.core.locations import format_location, stamp_location
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.structs import struct
from cuesta.dialects.func import FuncOp
from cuesta.lowering.capture.compiled_bodies import has_compiled_body
from cuesta.lowering.capture.fx_overloads import CONSTANT_CONVERTERS
from cuesta.lowering.capture.fx_storages import inputs_by_storage
from cuesta.lowering.capture.fx_symbols import Symbols
from cuesta.lowering.capture.fx_to_aten import UnsupportedGraphError, import_graph, type_of_tensor
from cuesta.lowering.capture.operator_names import NamelessOperatorError, name_of_operator
from cuesta.lowering.capture.plan import (
    Piece,
    as_symbol,
    attribute_of,
    bindings_of,
    free_symbols,
    has_opaque_nodes,
    piece_of,
    plan_of,
)
from cuesta.lowering.capture.source_locations import location_of_node
from cuesta.lowering.capture.sympy_to_sym import UnsupportedExpressionError
from cuesta.lowering.capture.written_out import written_out


@struct
class ImportedProgram:
    """A graph as a program."""

    module: ModuleOp
    constants: tuple[tuple[str, Any], ...]
    """What the graph holds, by name (`a.b` is `b` of what it holds as `a`): the last arguments of the entry."""
    aten_ops: int
    """Calls in the graph, those in graphs that it calls included."""


def import_program(gm: GraphModule) -> ImportedProgram:
    """The program of a graph.

    Errors: UnsupportedGraphError, which names the node, what is wrong with it, and the model's line.
    """
    if has_opaque_nodes(gm):
        return _in_pieces(gm, set())
    imported = _as_one(gm)
    if positions := inputs_by_storage(gm):
        entry_function(imported.module).attributes["aten.by_storage"] = by_storage(positions)
    return imported


def _import(gm: GraphModule, names: set[str]) -> ImportedProgram:
    return _in_pieces(gm, names) if has_opaque_nodes(gm) else _as_one(gm)


def _in_pieces(gm: GraphModule, names: set[str]) -> ImportedProgram:
    """The program of a graph that has opaque nodes, unless they can be written out."""
    gm = written_out(gm)
    return _Importer(gm, names).run() if has_opaque_nodes(gm) else _as_one(gm)


def _as_one(gm: GraphModule) -> ImportedProgram:
    """The program of a graph without opaque nodes."""
    imported = import_graph(gm)
    if imported.untold:
        symbols = ", ".join(sorted(imported.untold))
        raise UnsupportedGraphError(
            Diagnostic(f"it has sizes that are known only after some of its ops have run ({symbols})")
        )
    count = sum(node.op == "call_function" for node in gm.graph.nodes)
    return ImportedProgram(imported.module, imported.constants, count)


class _Importer:
    def __init__(self, gm: GraphModule, names: set[str]) -> None:
        self.gm = gm
        self.names = names
        """The names of all programs in the module."""
        self.plan = plan_of(gm)
        self.block = PlainBlock()
        self.ops: list[Operation] = []
        self.modules: list[ModuleOp] = []
        self.values: dict[Node, SSAValue] = {}
        self.symbols = Symbols(node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder")
        self.bound: set[str] = set()
        """The symbols that have a value."""
        self.read = {str(symbol) for node in gm.graph.nodes for symbol in free_symbols(node.meta.get("val"))}
        """The symbols in sizes, strides and numbers. Few graphs ask where a tensor begins: it knows."""
        self.constants: dict[str, tuple[SSAValue, Any]] = {}
        self.bodies: dict[tuple[str, bool], SSAValue] = {}
        self.operators: dict[str, SSAValue] = {}
        self.remaining: dict[Node, int] = {}
        """How many steps still use a value."""
        self.node: Node | None = None
        self.aten_ops = 0
        self.temporaries: list[SSAValue] = []
        """Tuples and dictionaries made for the next call."""

    def run(self) -> ImportedProgram:
        nodes: list[Node] = list(self.gm.graph.nodes)
        output = nodes[-1]
        own = self.symbols.solution.values.keys()
        pieces = [piece_of(one, self.gm, own) if one else None for one in self.plan.pieces]
        steps: list[Piece | Node] = [*self.plan.calls[0]]
        for piece, calls in zip(pieces, self.plan.calls[1:], strict=True):
            steps += [*([] if piece is None else [piece]), *calls]
        steps += self.plan.writes
        for step in (*steps, output):
            for source in _read(step):
                self.remaining[source] = self.remaining.get(source, 0) + 1
        try:
            self.open([node for node in nodes if node.op == "placeholder"])
            for step in steps:
                if isinstance(step, Piece):
                    self.piece(step)
                else:
                    self.call(step)
            self.close(output)
        except (UnsupportedExpressionError, NamelessOperatorError) as error:
            self.refuse(str(error))
        return self.finish()

    def refuse(self, problem: str) -> NoReturn:
        node = self.node
        location = None if node is None else location_of_node(node)
        place = "" if location is None else format_location(location)
        name = "" if node is None else str(node.target) if node.op == "call_function" else node.name
        raise UnsupportedGraphError(Diagnostic(problem, place=place, op_name=name, stage="fx-to-program"))

    def finish(self) -> ImportedProgram:
        constants = [(name, value) for name, (_, value) in self.constants.items()]
        self.block.add_ops(self.ops)
        types = FunctionType.from_lists(
            [argument.type for argument in self.block.args], [value.type for value in self.ops[-1].operands]
        )
        attributes: dict[str, Attribute] = {}
        if ranges := self.symbols.ranges():
            attributes["sym.symbols"] = sym.SymbolsAttr.get(ranges)
        if constants:
            attributes["aten.constants"] = ArrayAttr([StringAttr(name) for name, _ in constants])
        main = host.FuncOp.build("main", types, Region(self.block), attributes)
        return ImportedProgram(ModuleOp([*self.modules, main]), tuple(constants), self.aten_ops)

    # -- beginning and end --------------------------------------------------------------------------------------------

    def open(self, placeholders: Sequence[Node]) -> None:
        """The arguments, and the symbols that they tell."""
        for node in placeholders:
            self.node = node
            value = node.meta.get("val")
            self.values[node] = self.argument(node.name, self.type_of(value))
            if (symbol := as_symbol(value)) is not None:
                self.bound.add(str(symbol))
            elif _is_strided(value):
                for number in (*value.shape, *value.stride()):
                    if (symbol := as_symbol(number)) is not None:
                        self.bound.add(str(symbol))
        self.free([node for node in placeholders if node not in self.remaining])

    def argument(self, name: str, argument_type: Attribute) -> SSAValue:
        argument = self.block.insert_arg(argument_type, len(self.block.args))
        argument.name_hint = name
        return argument

    def type_of(self, value: Any) -> Attribute:
        if _is_strided(value):
            return type_of_tensor(value, self.symbols)
        if isinstance(value, torch.SymInt):
            return sym.IntType(self.symbols.translate(value))
        return host.OBJECT

    def close(self, output: Node) -> None:
        self.node = output
        returned: Any = output.args[0]
        values = cast("Sequence[Any]", returned) if isinstance(returned, tuple | list) else (returned,)
        self.add(host.ReturnOp.build([self.returned(value) for value in values]))

    def returned(self, value: Any) -> SSAValue:
        if isinstance(value, Node):
            number = value.meta.get("val")
            if not isinstance(number, torch.SymInt):
                return self.value(value)
            value = number
        if isinstance(value, torch.SymInt):
            return self.size(value)
        literal = CallArguments.of((self.convert(value, []),))
        return self.add(LiteralOp.create(result_types=(LITERAL_TYPE,), properties={"value": literal}))

    def size(self, number: torch.SymInt) -> SSAValue:
        expression = self.symbols.translate(number)
        if isinstance(expression, int):
            return self.add(
                LiteralOp.create(result_types=(LITERAL_TYPE,), properties={"value": CallArguments.of((expression,))})
            )
        return self.add(sym.ValueOp(expression))

    # -- steps --------------------------------------------------------------------------------------------------------

    def piece(self, piece: Piece) -> None:
        """A call of a piece, which may let go of what nobody else reads."""
        imported = import_graph(piece.graph)
        if imported.untold:
            self.refuse(f"a part of it has sizes that nothing tells ({', '.join(sorted(imported.untold))})")
        self.aten_ops += sum(node.op == "call_function" for node in piece.graph.graph.nodes)
        name = self.add_module("piece_0", imported.module)
        operands = [self.size(node.meta["val"]) if _is_size(node) else self.value(node) for node in piece.inputs]
        operands += [self.add(sym.ValueOp(self.symbols.translate(number))) for number in piece.numbers]
        self.used(piece.inputs)
        last = [
            position
            for position, node in enumerate(piece.inputs)
            if not self.remaining[node] and not _is_size(node) and node.op != "get_attr"
        ]
        main = entry_function(imported.module)
        assert isinstance(main, FuncOp)
        call = host.CallOp.build(name, operands, list(main.function_type.outputs), last)
        self.ops.append(call)
        for node, result in zip(piece.outputs, call.results, strict=True):
            result.name_hint = node.name
            self.values[node] = result

    def add_module(self, hint: str, module: ModuleOp) -> str:
        """Puts a program into this one, under a name that no other has."""
        base, number = hint.rstrip("0123456789"), 0
        name = hint
        while name in self.names:
            number += 1
            name = f"{base}{number}"
        self.names.add(name)
        module.properties["sym_name"] = StringAttr(name)
        self.modules.append(module)
        return name

    def call(self, node: Node) -> None:
        """One call that eager runs; what it gives is bound and checked."""
        self.node = node
        target: Any = node.target
        self.aten_ops += isinstance(target, OpOverload | HigherOrderOperator)
        bodies = isinstance(target, HigherOrderOperator) and has_compiled_body(node, self.gm)
        first = len(self.ops)
        operands: list[SSAValue] = []
        # An overload takes lists wherever it takes tuples; who knows what others do.
        several = isinstance(target, OpOverload)

        def converted(argument: Any) -> Argument:
            return self.convert(argument, operands, bodies=bodies, lists=several)

        arguments = CallArguments.of(
            tuple(converted(argument) for argument in node.args),
            tuple((name, converted(value)) for name, value in node.kwargs.items()),
        )
        name = name_of_operator(target)
        value = self.eager(name, operands, arguments)
        value.name_hint = node.name
        self.values[node] = value
        if self.temporaries:
            self.ops.append(host.FreeOp.build(self.temporaries))
            self.temporaries = []
        for symbol, way in bindings_of(node).items():
            steps = _steps(way) if symbol.is_integer else None
            if steps is not None and (str(symbol) in self.read or not _is_beginning(steps)):
                self.bind(str(symbol), value, steps)
        self.check(node, value)
        location = location_of_node(node)
        if location is not None:
            for op in self.ops[first:]:
                stamp_location(op, location)
        self.used([*dict.fromkeys(node.all_input_nodes), *([] if node in self.remaining else [node])])
        self.free([one for one in (*node.all_input_nodes, node) if not self.remaining.get(one)])

    def eager(self, name: str, operands: Sequence[SSAValue], arguments: CallArguments) -> SSAValue:
        return self.add(host.EagerOp.of(name, operands, arguments, (host.OBJECT,), pure=False))

    def bind(self, symbol: str, value: SSAValue, steps: Sequence[tuple[str, int]]) -> None:
        self.bound.add(symbol)
        self.ops.append(host.BindOp.build(symbol, value, steps))

    def check(self, node: Node, value: SSAValue) -> None:
        """Holds a tensor to its type: what reads it is compiled for that.

        A size may be a symbol that nothing else tells (that of a random state's tensor): then it is what it is.
        """
        given = node.meta.get("val")
        if not _is_strided(given):
            return
        result, told = type_of_tensor(given, self.symbols), self.symbols.solution.values.keys()
        for axis, size in enumerate(given.shape):
            if (symbol := as_symbol(size)) is not None and str(symbol) not in self.bound | told:
                self.bind(str(symbol), value, [("size", axis)])
        if {str(symbol) for symbol in free_symbols(given)} <= self.bound | told:
            checked = self.add(host.CheckOp.build(value, _operator_behind(node), result))
            checked.name_hint = node.name
            self.values[node] = checked

    def used(self, nodes: Iterable[Node]) -> None:
        """Counts one use of each."""
        for node in nodes:
            self.remaining[node] = self.remaining.get(node, 1) - 1

    def free(self, nodes: Sequence[Node]) -> None:
        """Lets go of values."""
        values = [
            self.values[node]
            for node in dict.fromkeys(nodes)
            if node in self.values and node.op != "get_attr" and not isinstance(self.values[node].type, sym.IntType)
        ]
        if values:
            self.ops.append(host.FreeOp.build(values))

    # -- arguments ----------------------------------------------------------------------------------------------------

    def convert(
        self, argument: Any, operands: list[SSAValue], *, bodies: bool = False, lists: bool = False
    ) -> Argument:
        """One FX argument. What is no constant that a text can say becomes an operand."""

        def inner(value: Any, into: list[SSAValue] = operands) -> Argument:
            return self.convert(value, into, bodies=bodies, lists=lists)

        if isinstance(argument, Node) and _is_size(argument):
            argument = argument.meta["val"]
        if isinstance(argument, torch.SymInt):
            return self.symbols.translate(argument)
        converter = CONSTANT_CONVERTERS.get(cast("type[Any]", type(argument)))
        if converter is not None:
            return converter(argument)
        if isinstance(argument, list) or (lists and isinstance(argument, tuple)):
            return tuple([inner(element) for element in cast("Sequence[Any]", argument)])
        if isinstance(argument, Node):
            value = self.value(argument, bodies=bodies)
        elif isinstance(argument, tuple):
            parts: list[SSAValue] = []
            elements = tuple([inner(element, parts) for element in cast("Sequence[Any]", argument)])
            value = self.eager("builtins.tuple", parts, CallArguments.of((elements,)))
            self.temporaries.append(value)
        elif isinstance(argument, Mapping):
            parts = []
            pairs = cast("Mapping[Any, Any]", argument).items()
            if not all(isinstance(key, str) and key.isidentifier() for key, _ in pairs):
                raise UnsupportedExpressionError("a dictionary with keys that are no names cannot be written down")
            entries = tuple((str(key), inner(one, parts)) for key, one in pairs)
            value = self.eager("builtins.dict", parts, CallArguments.of((), entries))
            self.temporaries.append(value)
        elif isinstance(argument, OpOverload | HigherOrderOperator):
            value = self.operator(name_of_operator(argument))
        else:
            value = self.constant(f"object_{len(self.constants)}", argument)
        operands.append(value)
        return Operand(len(operands) - 1)

    def value(self, node: Node, *, bodies: bool = False) -> SSAValue:
        """The value of a node."""
        if node.op != "get_attr":
            return self.values[node]
        name = str(node.target)
        attribute = attribute_of(self.gm, name)
        if bodies and isinstance(attribute, GraphModule) and _is_traced(attribute):
            return self.body(name, attribute)
        return self.constant(name, attribute)

    def operator(self, name: str) -> SSAValue:
        known = self.operators.get(name)
        if known is None:
            known = self.operators[name] = self.add(host.OperatorOp.build(name))
            known.name_hint = name.split(".")[1] if "." in name else name
        return known

    def constant(self, name: str, value: Any) -> SSAValue:
        """What the graph holds: one of the last arguments. One object, one argument."""
        for known, (argument, held) in self.constants.items():
            if held is value or known == name:
                return argument
        kind = type_of_tensor(value, self.symbols) if _is_strided(value) else host.OBJECT
        argument = self.argument(name.replace(".", "_"), kind)
        self.constants[name] = argument, value
        return argument

    def body(self, name: str, gm: GraphModule) -> SSAValue:
        """A graph that a higher-order operator calls: a program of its own, once, however often it is called."""
        returned = next(node for node in gm.graph.nodes if node.op == "output").args[0]
        single = not isinstance(returned, tuple | list)
        known = self.bodies.get((name, single))
        if known is None:
            imported = _import(gm, self.names)
            self.aten_ops += imported.aten_ops
            callee = self.add_module(name.replace(".", "_"), imported.module)
            held = [self.constant(f"{name}.{inner}", value) for inner, value in imported.constants]
            known = self.bodies[name, single] = self.add(host.FunctionOp.build(callee, held, single=single))
            known.name_hint = name.replace(".", "_")
        return known

    def add(self, op: Operation) -> Any:
        """Appends an op; gives its result, if it has one."""
        self.ops.append(op)
        return op.results[0] if op.results else None


def _steps(way: Any) -> list[tuple[str, int]]:
    """The way from a result to a size, as torch says it, in the words of `host.bind`."""
    steps: list[tuple[str, int]] = []
    keys: list[Any] = list(way)
    while keys:
        key = keys.pop(0)
        kind = type(key).__name__
        if kind == "CallMethodKey" and key.name in ("size", "stride") and keys:
            steps.append((key.name, int(keys.pop(0).idx)))
        elif kind == "CallMethodKey" and key.name in host.NO_NUMBER:
            steps.append((key.name, 0))
        elif isinstance(key, pytree.SequenceKey):
            steps.append(("item", int(key.idx)))
        elif kind == "DivideByKey" and isinstance(key.divisor, int):
            steps.append(("divide", key.divisor))
        elif kind == "ConvertIntKey":
            steps.append(("divide", 1))
        else:
            raise UnsupportedExpressionError(f"a size that is found by {key}")
    return steps


def _is_beginning(steps: Sequence[tuple[str, int]]) -> bool:
    """Whether a number is where a tensor begins in its storage."""
    return bool(steps) and steps[-1][0] == "storage_offset"


def _operator_behind(node: Node) -> str:
    """What gave a value, by name: an overload, or a higher-order operator."""
    while node.target is operator.getitem and isinstance(node.args[0], Node):
        node = node.args[0]
    target: Any = node.target
    return f"higher_order.{target.name()}" if isinstance(target, HigherOrderOperator) else str(target)


def _read(step: Piece | Node) -> Sequence[Node]:
    return step.inputs if isinstance(step, Piece) else list(dict.fromkeys(step.all_input_nodes))


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt)


def _is_strided(value: Any) -> TypeGuard[torch.Tensor]:
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _is_traced(gm: GraphModule) -> bool:
    """Whether a graph says of each value what it is."""
    return all("val" in node.meta for node in gm.graph.nodes if node.op in ("placeholder", "call_function"))
