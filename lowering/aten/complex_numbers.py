"""Calls with complex tensors, as calls of real ones: each complex value has two planes, its real and imaginary parts.

In memory the parts of an element lie side by side, so that a complex tensor of sizes S is a real one of sizes (*S, 2):

    planes(z)  =  view_as_real(z)[…, 0], view_as_real(z)[…, 1]          z as it comes from outside, or from a library
    z          =  view_as_complex(interleaved(planes(z)))               z as it is given to one, or to the caller

Neither is more than a name for memory, and what nobody asks for, `dce` takes away: between two calls of ours there are
only planes, which fuse as any other real tensors do. `docs/decisions/037-complex-as-pairs.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import ComplexType, Float32Type, Float64Type, f64
from xdsl.ir import Attribute, BlockArgument, SSAValue

from cuesta.dialects import aten, loops, sym
from cuesta.dialects.aten import CallArguments, Operand
from cuesta.dialects.elem import kind_of
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of, tensor_type, tensor_type_of
from cuesta.lowering.aten import creation, indexing, reductions, scans, scatter_rules, views
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, Rule, decline
from cuesta.lowering.aten.complex_formulas import TABLE, Pair, Row
from cuesta.lowering.aten.operands import argument_value, sizes_of_value
from cuesta.lowering.aten.pointwise import broadcast_indices
from cuesta.lowering.aten.scalar import Scalar

Planes: TypeAlias = "tuple[SSAValue, SSAValue]"


def part_type(value_type: Attribute) -> Attribute | None:
    """The element type of the planes of a complex tensor's type; None for any other."""
    element = value_type.element_type if is_tensor_type(value_type) else None
    if type(element) is not ComplexType:  # asked of every tensor of a graph
        return None
    part = cast("Attribute", cast("ComplexType[Any]", element).element_type)
    return part if isinstance(part, Float32Type | Float64Type) else None


def is_complex_call(op: AtenCall) -> bool:
    """Whether an operand or a result is a complex tensor."""
    return any(part_type(value.type) is not None for value in (*op.operands, *op.results))


def has_rule(overload: str) -> bool:
    """Whether there is a rule for calls of the overload that are complex."""
    return overload in TABLE or overload in _PLANEWISE or overload in _OTHERS


class ComplexValues:
    """The planes of the complex values of a block. Requires: no nest is open when they are asked for."""

    def __init__(self, builder: LoopBuilder) -> None:
        self.builder = builder
        self._planes: dict[SSAValue, Planes] = {}
        self._pairs: dict[SSAValue, SSAValue] = {}
        self._views: dict[SSAValue, tuple[SSAValue, Sequence[sym.IndexExpr]]] = {}
        """Views of complex values: of which, and where an index of the view is in it."""
        self._conjugates: dict[SSAValue, SSAValue] = {}
        """Of which value another is the conjugates, in the same memory."""

    def forget_erased(self) -> None:
        """What was rolled back in the builder goes here, too."""
        self._pairs = {value: pairs for value, pairs in self._pairs.items() if _stands(pairs)}
        self._planes = {value: planes for value, planes in self._planes.items() if all(map(_stands, planes))}
        self._views = {value: view for value, view in self._views.items() if _stands(value)}
        self._conjugates = {value: source for value, source in self._conjugates.items() if _stands(value)}

    def lower(self, op: AtenCall, overload: str) -> list[SSAValue]:
        """The results of a complex call. Errors: Declined; VerifyException, as rules raise it."""
        if overload in TABLE:
            found = self._pointwise(op, TABLE[overload])
        elif (other := _OTHERS.get(overload)) is not None:
            return [other(self, op)]
        else:
            found = self._planewise(op, _PLANEWISE[overload])
        in_place = op.schema is not None and op.schema.is_view
        return [
            planes if isinstance(planes, SSAValue) else self._made(op, position, planes, in_place)
            for position, planes in enumerate(found)
        ]

    # -- between complex tensors and planes ---------------------------------------------------------------------------

    def planes(self, value: SSAValue) -> Planes:
        """The real and the imaginary parts of a complex value."""
        known = self._planes.get(value)
        if known is None:
            known = self._planes[value] = self._planes_in(self.pairs(value), tensor_type_of(value))
        return known

    def pairs(self, value: SSAValue) -> SSAValue:
        """view_as_real of a complex value."""
        known = self._pairs.get(value)
        if known is None:
            planes = self._planes.get(value)
            if value in self._views:  # a view of the pairs: who has both has one memory
                whole, place = self._views[value]
                last = sym.dim(len(sizes_of_value(value)))
                known = self.builder.view(self.pairs(whole), [*place, last], _pairs_type(value.type))
            else:
                known = self._view_as_real(value) if planes is None else self._interleaved(value.type, planes)
            self._pairs[value] = known
        return known

    def _planes_in(self, pairs: SSAValue, whole: Attribute) -> Planes:
        assert is_tensor_type(whole)
        sizes = tuple(sizes_of(whole))
        indices = [sym.dim(axis) for axis in range(len(sizes))]
        plane = tensor_type(sizes, tensor_type_of(pairs).element_type, device=device_of(whole))
        return self.builder.view(pairs, [*indices, 0], plane), self.builder.view(pairs, [*indices, 1], plane)

    def _view_as_real(self, value: SSAValue) -> SSAValue:
        if _may_have_bit(value):
            value = self._call("aten.resolve_conj.default", value, value.type)
        return self._call("aten.view_as_real.default", value, _pairs_type(value.type))

    def _interleaved(self, whole: Attribute, planes: Planes) -> SSAValue:
        assert is_tensor_type(whole)
        with self.builder.nest(sizes_of(whole), [_pairs_type(whole)]) as nest:
            for position, plane in enumerate(planes):
                part = self.builder.load_raw(plane, nest.indices)
                self.builder.store(part, nest.handles[0], [*nest.indices, position])
        return nest.results[0]

    def _made(self, op: AtenCall, position: int, planes: Planes, in_place: bool) -> SSAValue:
        """The complex result that has these planes: the same view of the complex operand, or memory of its own."""
        result_type = op.results[position].type
        if in_place:
            value = self._same_call(op, op.operands, [result.type for result in op.results])[position]
            view = planes[0].owner
            for source in tuple(op.operands)[:1]:  # of a number there is none
                whole = self._planes.get(source, (None,))[0]
                if planes[0] is whole:
                    self._views[value] = source, sym.MapAttr.identity(len(sizes_of_value(value))).results
                elif isinstance(view, loops.ViewOp) and view.source is whole:
                    self._views[value] = source, view.map.results
        else:
            pairs = self._interleaved(result_type, planes)
            value = self._call("aten.view_as_complex.default", pairs, result_type)
            self._pairs[value] = pairs
        self._planes[value] = planes
        return value

    def _call(self, overload: str, operand: SSAValue, result_type: Attribute) -> SSAValue:
        call = loops.ExternOp.of(overload, (operand,), CallArguments.of((Operand(0),)), (result_type,), pure=True)
        self.builder.emit(call)
        return call.results[0]

    def _same_call(self, op: AtenCall, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> Sequence[SSAValue]:
        call = loops.ExternOp.of(op.overload, operands, op.arguments_attr, types, pure=True)
        self.builder.emit(call)
        return call.results

    # -- rules --------------------------------------------------------------------------------------------------------

    def _planewise(self, op: AtenCall, rule: Rule) -> list[Planes | SSAValue]:
        """f(z) -> f(real part), f(imaginary part), of what only moves elements or adds them up."""
        places = _indices(op)
        if any(part_type(value.type) is None and value not in places for value in op.operands):
            decline("real and complex operands are mixed")
        split = [self.planes(value) if part_type(value.type) is not None else None for value in op.operands]
        types = [_plane_type(result.type) for result in op.results]
        made: list[Sequence[SSAValue]] = []
        for part in range(2):
            operands = [
                value if planes is None else planes[part] for value, planes in zip(op.operands, split, strict=True)
            ]
            plane = type(op).create(operands=operands, result_types=types, properties=op.properties.copy())
            plane.location = op.location
            try:
                made.append(rule(plane, self.builder))
            finally:  # it uses what is rolled back when the rule declines
                plane.drop_all_references()
        return list(zip(*made, strict=True))

    def _pointwise(self, op: AtenCall, row: Row) -> list[Planes | SSAValue]:
        """One nest over the result, whose body is the row's formula of the arguments that the schema names."""
        schema = op.schema
        if schema is None or len(op.results) != 1:
            decline("the schema is unknown")
        result_type = tensor_type_of(op.results[0])
        part = part_type(result_type) or self._part_of_operands(op)
        formals = schema.arguments[: row.count]
        passed = [
            (letter, argument_value(op, formal.name))
            for letter, formal in zip(row.passing.ljust(len(formals), "z"), formals, strict=True)
        ]
        split = {
            value: self.planes(value)
            for _, value in passed
            if isinstance(value, SSAValue) and part_type(value.type) is not None
        }
        is_complex = part_type(result_type) is not None
        sizes = tuple(sizes_of(result_type))
        outs = [_plane_type(result_type)] * 2 if is_complex else [result_type]
        with self.builder.nest(sizes, outs) as nest:
            arguments = [self._pass(letter, value, split, part, sizes, nest.indices) for letter, value in passed]
            value = row.formula(*arguments)
            if isinstance(value, Pair) and is_complex:
                parts = (value.real, value.imaginary)
            elif isinstance(value, Pair):
                decline("the imaginary part is dropped, of which eager warns")
            else:
                parts = (value,)
            for own, handle in zip(parts, nest.handles, strict=True):
                self.builder.store(own, handle, nest.indices)
        results = nest.results
        return [(results[0], results[1])] if is_complex else [results[0]]

    def _part_of_operands(self, op: AtenCall) -> Attribute:
        parts = {part for value in op.operands if (part := part_type(value.type)) is not None}
        if len(parts) > 1:
            decline("complex numbers of two precisions meet")
        if parts != {f64} and any(part_type(one.type) is None and _is_of_floats(one.type) for one in op.operands):
            decline("a real tensor may be of a higher precision")
        return parts.pop()

    def _pass(
        self,
        letter: str,
        value: SSAValue | aten.Argument,
        split: Mapping[SSAValue, Planes],
        part: Attribute,
        sizes: Sequence[sym.IndexExpr],
        indices: Sequence[sym.IndexExpr],
    ) -> Pair | Scalar | aten.Argument:
        builder = self.builder
        if letter in ("p", "n"):
            if isinstance(value, complex) and letter == "p":
                decline("a complex number")
            return value if not isinstance(value, SSAValue) else None
        if isinstance(value, SSAValue):
            place = broadcast_indices(sizes_of_value(value), sizes, indices)
            if value in split:
                real, imaginary = (builder.convert(builder.load_raw(one, place), part) for one in split[value])
                return Pair(real, imaginary)
            scalar = builder.load_raw(value, place)
            if letter == "b":
                return scalar.to_bool()
            scalar = builder.convert(scalar, part)
            return scalar if letter == "s" else Pair(scalar, builder.constant(0.0, part))
        if letter == "z" and isinstance(value, bool | int | float | complex):
            number = complex(value)
            return Pair(builder.constant(number.real, part), builder.constant(number.imag, part))
        if letter == "z" and isinstance(value, sym.Expr):
            return Pair(builder.index(value).convert(part), builder.constant(0.0, part))
        decline(f"{value} does not stand for a tensor")

    # -- and those that are neither -----------------------------------------------------------------------------------

    def view_as_real(self, op: AtenCall) -> SSAValue:
        """The pairs themselves; of a tensor from outside, as eager gives them."""
        return self.pairs(op.operands[0])

    def view_as_complex(self, op: AtenCall) -> SSAValue:
        """A name for the memory of the pairs, whose planes are views of them."""
        pairs = op.operands[0]
        value = self._same_call(op, op.operands, [op.results[0].type])[0]
        self._pairs[value], self._planes[value] = pairs, self._planes_in(pairs, value.type)
        return value

    def conjugate(self, op: AtenCall) -> SSAValue:
        """(x, −y). Eager's only sets a bit of the tensor; so does what is given to a library, or to the caller.

        conj(view(conj(z))) -> view(z)
        """
        operand = next(iter(op.operands), None)  # of a number there is none
        whole, place = (None, ()) if operand is None else self._viewed(operand)
        source = None if whole is None else self._conjugates.get(whole)
        if source is None:
            planes = self._pointwise(op, TABLE["aten._conj_physical.default"])[0]
            assert isinstance(planes, tuple)
            value = self._made(op, 0, planes, True)
            if operand is not None:
                self._conjugates[value] = operand
            return value
        plane = _plane_type(op.results[0].type)
        real, imaginary = self.planes(source)
        value = self._same_call(op, op.operands, [op.results[0].type])[0]
        self._planes[value] = self.builder.view(real, place, plane), self.builder.view(imaginary, place, plane)
        self._views[value] = source, place
        return value

    def _viewed(self, value: SSAValue) -> tuple[SSAValue, Sequence[sym.IndexExpr]]:
        """What a value is a view of that is none itself, and where an index of the value is in it."""
        place = sym.MapAttr.identity(len(sizes_of_value(value)))
        while value in self._views:
            value, results = self._views[value]
            place = sym.MapAttr.get(len(place.results), tuple(results)).compose(place)
        return value, place.results

    def full(self, op: AtenCall) -> SSAValue:
        """A number in every element."""
        name = next(name for name in ("fill_value", "value", "s") if op.has_argument(name))
        return self._constant(op, argument_value(op, name))

    def ones(self, op: AtenCall) -> SSAValue:
        """1 + 0i in every element."""
        return self._constant(op, 1.0)

    def _constant(self, op: AtenCall, value: SSAValue | aten.Argument) -> SSAValue:
        result_type = op.results[0].type
        part = part_type(result_type)
        if not isinstance(value, bool | int | float | complex) or part is None:
            decline("the value is a tensor")
        number = complex(value)
        with self.builder.nest(sizes_of_value(op.results[0]), [_plane_type(result_type)] * 2) as nest:
            for own, handle in zip((number.real, number.imag), nest.handles, strict=True):
                self.builder.store(self.builder.constant(own, part), handle, nest.indices)
        return self._made(op, 0, (nest.results[0], nest.results[1]), False)

    def padded(self, op: AtenCall) -> SSAValue:
        """Zeros around both planes."""
        if op.argument("value") != 0:
            decline("what is around it is not 0")
        planes = self._planewise(op, indexing.RULES["aten.constant_pad_nd.default"])[0]
        assert isinstance(planes, tuple)
        return self._made(op, 0, planes, False)


def _may_have_bit(value: SSAValue) -> bool:
    """Whether a tensor may come with the bit of a conjugate: from eager, which is told to make views, or from another
    piece of a program, which may have been. The arguments of a whole program come without (`values_of_inputs.py`).
    """
    if isinstance(value, BlockArgument):
        function = value.block.parent_op()
        module = None if function is None else function.parent_op()
        return module is not None and module.parent_op() is not None
    return isinstance(value.owner, loops.ExternOp) and value.owner.may_alias


def _stands(value: SSAValue) -> bool:
    owner = value.owner
    return not isinstance(owner, loops.NestOp | loops.ExternOp | loops.ViewOp) or owner.parent is not None


def _indices(op: AtenCall) -> set[SSAValue]:
    """The operands that say where: both parts are found with the same."""
    given = [op.argument(name) for name in ("index", "indices") if op.has_argument(name)]
    flat = [one for argument in given for one in (argument if isinstance(argument, tuple) else (argument,))]
    return {op.operands[one.index] for one in flat if isinstance(one, aten.Operand)}


def _is_of_floats(value_type: Attribute) -> bool:
    return is_tensor_type(value_type) and kind_of(value_type.element_type) not in "iub"


def _plane_type(whole: Attribute) -> Attribute:
    part = part_type(whole)
    if part is None or not is_tensor_type(whole):
        decline("the result is not complex")
    return tensor_type(sizes_of(whole), part, device=device_of(whole))


def _pairs_type(whole: Attribute) -> Attribute:
    """The type of view_as_real of a complex tensor."""
    part = part_type(whole)
    assert is_tensor_type(whole) and part is not None
    strides = (*(2 * stride for stride in strides_of(whole)), 1)
    return tensor_type((*sizes_of(whole), 2), part, strides, device_of(whole))


_PLANEWISE: dict[str, Rule] = {
    **{name: rule for name, rule in views.RULES.items() if name != "aten.view.dtype"},
    **{name: rule for name, rule in indexing.RULES.items() if name != "aten.constant_pad_nd.default"},
    **{
        name: scatter_rules.RULES[name]
        for name in (
            "aten.index_put.default",
            "aten._unsafe_index_put.default",
            "aten.scatter.src",
            "aten.scatter_add.default",
            "aten.embedding_dense_backward.default",
        )
    },
    **{
        name: rule
        for name, rule in creation.RULES.items()
        if rule is creation.RULES["aten.zeros.default"] or name in ("aten.tril.default", "aten.triu.default")
    },
    **{f"aten.empty{name}": creation.RULES[f"aten.empty{name}"] for name in (".memory_format", "_like.default")},
    **{
        name: reductions.RULES[name]
        for name in ("aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim")
    },
    "aten.cumsum.default": scans.RULES["aten.cumsum.default"],
}
"""Overloads that do the same to both parts, and nothing between them."""

_OTHERS = {
    "aten.view_as_real.default": ComplexValues.view_as_real,
    "aten.view_as_complex.default": ComplexValues.view_as_complex,
    "aten._conj.default": ComplexValues.conjugate,
    **dict.fromkeys(
        ("aten.full.default", "aten.full_like.default", "aten.new_full.default", "aten.scalar_tensor.default"),
        ComplexValues.full,
    ),
    **dict.fromkeys(("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"), ComplexValues.ones),
    "aten.constant_pad_nd.default": ComplexValues.padded,
}
