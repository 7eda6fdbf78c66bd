"""FX graph → aten: imports what AOTAutograd captured, one op per node, with the types its fake tensors have."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeGuard, cast

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, NameLoc, NoneAttr, StringAttr, UnknownLoc, f64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import LITERAL_TYPE, Argument, CallArguments, LiteralOp, Operand, dtype_to_type
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import writes_to
from cuesta.dialects.core.interning import Memo
from cuesta.dialects.core.locations import format_location, stamp_location
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.structs import struct
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import is_tensor, sizes_of, strides_of, tensor_type, tensor_type_of
from cuesta.lowering.capture.fx_floats import SymbolicFloats
from cuesta.lowering.capture.fx_foreach import OfEach, of_each
from cuesta.lowering.capture.fx_overloads import CONSTANT_CONVERTERS, callee_of, is_symbolic_query
from cuesta.lowering.capture.fx_symbols import Symbols
from cuesta.lowering.capture.objects import is_object
from cuesta.lowering.capture.source_locations import location_of_node
from cuesta.lowering.capture.sympy_to_sym import UnsupportedExpressionError

Kind: TypeAlias = Literal["tensor", "integer", "literal"]
"""What a graph passes or returns in one place: a tensor, a SymInt, or anything else (None, a constant, an object)."""

Imported: TypeAlias = Any
"""What a node has become: an SSA value (of a tensor), a constant, a torch.SymInt and its like (translated where it is
used), an `_Unusable`, or a list of these.
"""


_NOWHERE: Final = NameLoc(StringAttr("a graph of no lines"), NoneAttr())
"""Where the ops of a graph come from that no line of a model asked for, such as one that returns its inputs. A name and
no line: who prints lines of the model prints nothing.
"""


class UnsupportedGraphError(CuestaError):
    """A graph that this level cannot say. The driver runs such a graph in eager, and says so."""


@struct
class ImportedGraph:
    """A graph as a program, and what a caller needs to know to run it."""

    module: ModuleOp
    constants: tuple[tuple[str, Any], ...]
    """The tensors and objects that the graph holds as attributes, by name: extra trailing arguments of the entry, in
    this order.
    """
    inputs: tuple[Kind, ...]
    """One per graph input, constants not counted."""
    outputs: tuple[Kind, ...]
    """One per graph output."""
    untold: frozenset[str]
    """The symbols that no argument tells, such as those (`u0`) of sizes known only after some op of the graph has run.
    """


def import_graph(gm: GraphModule, *, name: str = "main") -> ImportedGraph:
    """The program of an FX graph of functional ATen calls, as AOTAutograd hands it to a compiler.

    Requires: every node carries fake-tensor metadata in `meta["val"]`.
    Errors: UnsupportedGraphError, which names the node, what is wrong with it, and the model's line.
    """
    return _Importer(gm).run(name)


@struct
class _Unusable:
    """A node that may stand in the graph, but not in a call."""

    reason: str


class _Importer:
    def __init__(self, gm: GraphModule):
        self.gm = gm
        self.block = PlainBlock()
        self.values: dict[Node, Imported] = {}
        self.ops: list[Operation] = []
        self.constants: list[tuple[str, Any]] = []
        self.constant_values: dict[str, SSAValue] = {}
        self.symbols = Symbols(node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder")
        self.floats = SymbolicFloats(self.ops.append, self.symbols.said)
        self.literals: dict[CallArguments, SSAValue] = {}
        self.operands: list[SSAValue] = []
        self.symbolic_floats: list[tuple[int, torch.SymFloat]] = []
        self.node: Node | None = None
        self.written: set[SSAValue] = set()
        self.writes: dict[Node, tuple[BlockArgument[Attribute], SSAValue]] = {}
        """Copies into arguments: the argument and what it is to hold in the end."""

    def run(self, name: str) -> ImportedGraph:
        nodes: list[Node] = list(self.gm.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        try:
            inputs: list[Kind] = [self.import_placeholder(node) for node in placeholders]
            for node in nodes:
                if node.op == "get_attr":
                    self.import_constant(node)
            for node in nodes:
                if node.op == "call_function":
                    self.import_call(node)
                elif node.op in ("call_method", "call_module"):
                    self.refuse(node, f"a graph of ATen calls has no {node.op} nodes")
            (output,) = [node for node in nodes if node.op == "output"]
            outputs = self.import_output(output)
        except UnsupportedExpressionError as error:
            assert self.node is not None
            self.refuse(self.node, str(error))
        module = self.finish(name)
        untold = frozenset(self.symbols.ranges()) - self.told_by_arguments()
        return ImportedGraph(module, tuple(self.constants), tuple(inputs), outputs, untold)

    def told_by_arguments(self) -> set[str]:
        """The symbols of which an argument, or a size or stride of one, is a line."""
        told: set[str] = set()
        for argument in self.block.args:
            kind, numbers = argument.type, list[sym.IndexExpr]()
            if isinstance(kind, sym.IntType):
                numbers.append(kind.data)
            elif is_tensor(argument):
                numbers += (*sizes_of(tensor_type_of(argument)), *strides_of(tensor_type_of(argument)))
            told.update(line[0] for e in numbers if (line := sym.line_of(e)) is not None)
        return told

    def finish(self, name: str) -> ModuleOp:
        self.block.add_ops(self.ops)
        returned = self.ops[-1].operands
        function = FuncOp.build(
            name,
            [argument.type for argument in self.block.args],
            [value.type for value in returned],
            Region(self.block),
        )
        ranges = self.symbols.ranges()
        if ranges:
            function.attributes["sym.symbols"] = sym.SymbolsAttr.get(ranges)
        if self.constants:
            names = [StringAttr(constant) for constant, _ in self.constants]
            function.attributes["aten.constants"] = ArrayAttr(names)
        if self.writes:
            function.attributes["aten.writes_to"] = writes_to([argument.index for argument, _ in self.writes.values()])
        # What no line of the model asked for is where its first op is: every op has a location.
        known = (op.location for op in self.ops if not isinstance(op.location, UnknownLoc))
        stamp_location(function, next(known, _NOWHERE))
        return ModuleOp([function])

    def refuse(self, node: Node, problem: str) -> NoReturn:
        """Raises the diagnostic."""
        location = location_of_node(node)
        place = "" if location is None else format_location(location)
        name = str(node.target) if node.op == "call_function" else node.name
        raise UnsupportedGraphError(Diagnostic(problem, place=place, op_name=name, stage="fx-to-aten"))

    # -- inputs and constants -----------------------------------------------------------------------------------------

    def import_placeholder(self, node: Node) -> Kind:
        self.node = node
        value: Any = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.values[node] = self.add_argument(node.name, self.tensor_type_of(node, value))
            return "tensor"
        # An input that is not a tensor stands in calls as the constant or expression it is known to equal.
        self.values[node] = value
        if isinstance(value, torch.SymInt):
            expression = self.symbols.translate(value)
            argument = self.add_argument(node.name, sym.IntType(expression))
            self.symbols.values.setdefault(expression, argument)
            return "integer"
        argument = self.add_argument(node.name, LITERAL_TYPE)
        if is_object(value):
            self.values[node] = argument
        return "literal"

    def add_argument(self, name: str, argument_type: Attribute) -> SSAValue:
        argument = self.block.insert_arg(argument_type, len(self.block.args))
        argument.name_hint = name
        return argument

    def import_constant(self, node: Node) -> None:
        self.node = node
        name = str(node.target)
        known = self.constant_values.get(name)
        if known is None:
            value = self.attribute(name)
            if isinstance(value, torch.Tensor):
                argument_type = self.tensor_type_of(node, node.meta.get("val", value))
            elif is_object(value):
                argument_type = LITERAL_TYPE
            else:
                self.values[node] = _Unusable(f"{name} is a {type(value).__name__}, not a tensor")
                return
            known = self.add_argument(name.replace(".", "_"), argument_type)
            self.constant_values[name] = known
            self.constants.append((name, value))
        self.values[node] = known

    def attribute(self, name: str) -> object:
        value: object = self.gm
        for part in name.split("."):
            value = getattr(value, part)
        return value

    # -- calls --------------------------------------------------------------------------------------------------------

    def import_call(self, node: Node) -> None:
        self.node = node
        target, value = node.target, node.meta.get("val")
        if target is operator.getitem:
            arguments: Any = node.args
            source = self.values[arguments[0]] if isinstance(arguments[0], Node) else arguments[0]
            if _is_list(source):
                self.values[node] = source[arguments[1]]
                return
        if target is torch.ops.aten.copy_.default:
            self.import_write(node)
        elif isinstance(target, OpOverload):
            overload = cast("OpOverload[..., Any]", target)
            if is_symbolic_query(overload):
                self.values[node] = value
            elif overload is torch.ops.aten.scalar_tensor.default and self.is_symbolic_float(node.args[0]):
                self.values[node] = self.scalar_of_symbolic_float(node, value)
            elif (each := of_each(overload)) is not None and _is_list(value):
                self.values[node] = self.import_each(node, each, value)
            else:
                self.values[node] = self.emit_call(
                    node, self.taking_tensors(overload, node.args), value, node.args, node.kwargs
                )
        elif target is torch.ops.higher_order.with_effects and isinstance(node.args[1], OpOverload):
            self.import_effect(node, value)
        elif isinstance(target, HigherOrderOperator):
            self.refuse(node, "a higher-order operator; the graph runs in eager")
        elif value is not None and not isinstance(value, torch.Tensor | tuple | list):
            self.values[node] = value  # arithmetic on sizes: the result knows its own expression
        else:
            self.refuse(node, "is not an ATen overload")

    def import_write(self, node: Node) -> None:
        """copy_(argument, value), with which AOTAutograd ends a graph that changes its inputs: one more result.

        The rest of the graph is functional: wherever it reads the argument, it means what that held before.
        """
        arguments: Any = node.args
        argument, value = [self.values[one] if isinstance(one, Node) else one for one in arguments[:2]]
        into = arguments[0]
        is_input = isinstance(into, Node) and into.op in ("placeholder", "get_attr")
        if not (is_input and _is_value(argument) and isinstance(argument.owner, Block) and _is_value(value)):
            self.refuse(node, "writes to what is not an input")
        old, new = tensor_type_of(argument), tensor_type_of(value)
        if (old.element_type, sizes_of(old)) != (new.element_type, sizes_of(new)):
            self.refuse(node, "writes a tensor of another type or size")
        if argument in self.written:
            self.refuse(node, "writes to an input a second time")
        self.written.add(argument)
        self.writes[node] = (cast("BlockArgument[Attribute]", argument), value)
        self.values[node] = value

    def import_effect(self, node: Node, value: Any) -> None:
        """(token, *results) = with_effects(token, overload, *arguments): the overload, called in its place.

        The token only keeps such calls in order, which impure calls are anyway.
        """
        token, overload, *arguments = cast("Any", node.args)
        several = callee_of(overload).result_count > 1
        results = self.emit_call(node, overload, tuple(value[1:]) if several else value[1], arguments, node.kwargs)
        self.values[node] = [self.values[token], *(results if several else [results])]

    def import_each(self, node: Node, each: OfEach, values: Sequence[Any]) -> Imported:
        """_foreach_add([x, y], 1) is add(x, 1), add(y, 1)."""

        def known(argument: Any) -> Any:
            return self.values[argument] if isinstance(argument, Node) else argument

        keywords = {name: known(argument) for name, argument in node.kwargs.items()}
        calls = each.calls([known(argument) for argument in node.args], keywords, len(values))
        return [
            self.emit_call(node, self.taking_tensors(each.overload, arguments), one, arguments, given)
            for one, (arguments, given) in zip(values, calls, strict=True)
        ]

    def emit_call(
        self,
        node: Node,
        overload: OpOverload[..., Any],
        value: Any,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Imported:
        """Appends the call; gives what stands for its value."""
        callee = callee_of(overload)
        operands = self.operands = []
        convert = self.convert
        converted = CallArguments.of(
            tuple([convert(argument) for argument in arguments]),
            tuple([(name, convert(argument)) for name, argument in keywords.items()]) if keywords else (),
        )
        if self.symbolic_floats:
            self.pass_symbolic_floats(overload, arguments)
        properties: dict[str, Attribute] = {"arguments": converted}
        if callee.name is not None:
            properties = {"callee": callee.name, "arguments": converted}
        types: list[Attribute] = []
        if callee.result_count:
            if "val" not in node.meta:
                self.refuse(node, "has no fake-tensor metadata")
            self.collect_types(node, value, types)
        op = callee.op.create(
            operands=operands,
            result_types=types,
            properties=properties,
            location=location_of_node(node),
        )
        self.ops.append(op)
        results = op.results
        for result in results:
            if isinstance(result.type, sym.IntType):
                self.symbols.values.setdefault(result.type.data, result)
        if len(results) == 1 and not _is_list(value):
            results[0].name_hint = node.name
            return _pick(value, results[0])
        return _assign(value, iter(results)) if results else None

    def collect_types(self, node: Node, value: Any, types: list[Attribute]) -> None:
        """Appends one type per result: lists of results are flattened."""
        if isinstance(value, torch.Tensor):
            types.append(self.tensor_type_of(node, value))
        elif _is_list(value):
            for element in value:
                self.collect_types(node, element, types)
        elif isinstance(value, torch.SymInt):
            types.append(sym.IntType(self.symbols.translate(value)))
        elif isinstance(value, int) and not isinstance(value, bool):
            types.append(sym.IntType(value))
        else:
            types.append(LITERAL_TYPE)

    # -- arguments ----------------------------------------------------------------------------------------------------

    def convert(self, argument: Any) -> Argument:
        """One FX argument. Tensors are appended to `operands`."""
        if isinstance(argument, Node):
            argument = self.values[argument]
        converter = CONSTANT_CONVERTERS.get(cast("type[Any]", type(argument)))
        if converter is not None:
            return converter(argument)
        if _is_value(argument):
            self.operands.append(argument)
            index = len(self.operands) - 1
            return _OPERANDS[index] if index < len(_OPERANDS) else Operand(index)
        if _is_list(argument):
            return tuple([self.convert(element) for element in argument])
        if isinstance(argument, torch.SymInt):
            return self.symbols.translate(argument)
        if isinstance(argument, torch.SymFloat):
            self.symbolic_floats.append((len(self.operands), argument))
            self.operands.append(self.floats.double(self.symbols.float_expression(argument)))
            return Operand(len(self.operands) - 1)
        raise UnsupportedExpressionError(
            argument.reason
            if isinstance(argument, _Unusable)
            else f"an argument of type {type(argument).__name__}, {argument}, cannot be written down"
        )

    def is_symbolic_float(self, argument: Any) -> bool:
        return isinstance(self.values[argument] if isinstance(argument, Node) else argument, torch.SymFloat)

    def taking_tensors(self, overload: OpOverload[..., Any], arguments: Sequence[Any]) -> OpOverload[..., Any]:
        """mul.Scalar(x, s) -> mul.Tensor(x, s) where s is a symbolic float, which stands in the place of a tensor."""
        name = overload._overloadname  # pyright: ignore[reportPrivateUsage]  # the name has no public name
        if name != "Scalar" or len(arguments) != 2 or not self.is_symbolic_float(arguments[1]):
            return overload
        return getattr(overload.overloadpacket, "Tensor", overload)

    def scalar_of_symbolic_float(self, node: Node, value: Any) -> SSAValue:
        """scalar_tensor(x) is what x is computed as anyway."""
        number = self.values[cast("Node", node.args[0])]
        if value.dtype not in (torch.float32, torch.float64):
            self.refuse(node, f"a symbolic float as {value.dtype}")
        compute = self.floats.double if value.dtype == torch.float64 else self.floats.single
        return compute(self.symbols.float_expression(number))

    def pass_symbolic_floats(self, overload: OpOverload[..., Any], arguments: Sequence[Any]) -> None:
        """Symbolic floats stand in the places of tensors, in the precision in which eager would use the number."""
        floats, self.symbolic_floats = self.symbolic_floats, []
        formals = overload._schema.arguments  # pyright: ignore[reportPrivateUsage]
        given = [self.values[argument] if isinstance(argument, Node) else argument for argument in arguments]
        in_place = [
            isinstance(value, torch.SymFloat) and isinstance(formal.type, torch.TensorType)
            for formal, value in zip(formals, given, strict=False)
        ]
        if sum(in_place) != len(floats):
            raise UnsupportedExpressionError("a symbolic float where only a number may stand")
        wide = any(
            is_tensor(operand) and tensor_type_of(operand).element_type == f64
            for position, operand in enumerate(self.operands)
            if all(position != own for own, _ in floats)
        )
        if not wide:
            for position, number in floats:
                self.operands[position] = self.floats.single(self.symbols.float_expression(number))

    # -- results ------------------------------------------------------------------------------------------------------

    def import_output(self, node: Node) -> tuple[Kind, ...]:
        self.node = node
        returned = node.args[0]
        values = returned if isinstance(returned, tuple | list) else (returned,)
        kinds: list[Kind] = []
        operands: list[SSAValue] = []
        for value in values:
            kind, operand = self.output_value(value)
            kinds.append(kind)
            operands.append(operand)
        self.ops.append(ReturnOp.build([*operands, *(value for _, value in self.writes.values())]))
        return tuple(kinds)

    def output_value(self, value: Any) -> tuple[Kind, SSAValue]:
        if isinstance(value, Node):
            # The result of a copy_ is the argument, as the caller knows it.
            value = self.writes[value][0] if value in self.writes else self.values[value]
        if _is_value(value):
            return "tensor" if is_tensor(value) else "literal", value
        if isinstance(value, torch.SymInt):
            expression = self.symbols.translate(value)
            if isinstance(expression, int):
                value = expression
            else:
                known = self.symbols.values.get(expression)
                if known is None:
                    op = sym.ValueOp(expression)
                    self.ops.append(op)
                    known = self.symbols.values[expression] = op.results[0]
                return "integer", known
        self.operands = []
        constant = CallArguments.of((self.convert(value),))
        known = self.literals.get(constant)
        if known is None:
            op = LiteralOp.create(result_types=(LITERAL_TYPE,), properties={"value": constant})
            self.ops.append(op)
            known = self.literals[constant] = op.result
        return "literal", known

    # -- types --------------------------------------------------------------------------------------------------------

    def tensor_type_of(self, node: Node, value: Any) -> Attribute:
        if not isinstance(value, torch.Tensor):
            self.refuse(node, "has no fake-tensor metadata")
        if value.layout is not torch.strided:
            self.refuse(node, f"tensors with layout {value.layout} are left to eager")
        return type_of_tensor(value, self.symbols)


def type_of_tensor(value: torch.Tensor, symbols: Symbols) -> Attribute:
    """The type of a strided tensor, symbols in its sizes and strides translated by `symbols`."""
    # Typed as ints by torch, but symbolic ones are SymInts.
    sizes: tuple[Any, ...] = tuple(value.shape)
    strides: tuple[Any, ...] = value.stride()
    key = (sizes, strides, value.dtype, value.device)
    symbolic = False
    for number in sizes + strides:
        if type(number) is not int:
            symbolic = True
    if not symbolic:
        found = _static_types.get(key)
        if found is not None:
            return found
    translate = symbols.translate
    found = tensor_type(
        [number if type(number) is int else translate(number) for number in sizes],
        dtype_to_type(str(value.dtype)[6:]),
        [number if type(number) is int else translate(number) for number in strides],
        str(value.device),
    )
    if not symbolic:
        _static_types.keep(key, found)
    return found


_static_types = Memo[tuple[object, ...], Attribute](100_000)
_OPERANDS: Final = [Operand(index) for index in range(64)]


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, tuple | list)


def _is_value(value: Any) -> TypeGuard[SSAValue]:
    return isinstance(value, SSAValue)


def _pick(value: Any, result: SSAValue) -> Any:
    """What stands for a result: the SSA value of a tensor, the number itself of a number."""
    return result if isinstance(value, torch.Tensor) else value


def _assign(value: Any, results: Iterator[SSAValue]) -> Any:
    """Hands out flat results along the tree of metadata that they were flattened from."""
    if _is_list(value):
        return [_assign(element, results) for element in value]
    return _pick(value, next(results))
