"""Library products of matrices, and the nests that compute the same together with what is done to the result.

    %m = loops.extern "aten.mm.default"(%a, %b)
    %y = loops.nest (%i : 512, %j : 256) { … f(load %m[%i, %j]) … }
    →
    %y = loops.nest (%i : 512, %j : 256) { %s = sum (%k : 1024) of %a[%i, %k] · %b[%k, %j]; … f(%s) … }

Nothing is decided here. A target computes such a nest well only with the choices of a contraction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeGuard

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import device_of, element_type_of, is_tensor_type, sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, is_pointwise, loads_of, remove, through_views
from cuesta.dialects.loops.writing import load_only_where, store_only_where, type_of_positions

_FACTORS = {
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.baddbmm.default": ("batch1", "batch2"),
}
"""The names of the factors in the calls that are products."""


@struct
class Product:
    """A library product, and the pointwise nest that may take it in.

    Its operands are those of the call, always: what gives them may become another nest.
    """

    call: loops.ExternOp
    consumer: loops.NestOp | None
    is_kept: bool
    """Whether somebody else than the consumer needs the product, too."""
    producers: Mapping[SSAValue, loops.NestOp]
    """By what they give, the pointwise nests that a factor is read from, and nobody else reads."""
    beside: tuple[Product, ...] = ()
    """Products of the same sizes that the consumer reads at the same points, and nobody else reads."""

    @property
    def left(self) -> SSAValue:
        """The factor of rows."""
        return self.call.tensor(_FACTORS[self.call.overload][0])

    @property
    def right(self) -> SSAValue:
        """The factor of columns."""
        return self.call.tensor(_FACTORS[self.call.overload][1])

    @property
    def bias(self) -> SSAValue | None:
        """What is added."""
        return self.call.tensor("self") if "add" in self.call.overload else None

    @property
    def result(self) -> SSAValue:
        """The product."""
        return self.call.results[0]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, and the points of each sum."""
        rows, columns = static(sizes_of(tensor_type_of(self.result))[-2:])
        return rows, columns, static(sizes_of(tensor_type_of(self.left)))[-1]

    @property
    def batch(self) -> int:
        """How many products of matrices it is."""
        return math.prod(static(sizes_of(tensor_type_of(self.result))[:-2]))

    @property
    def device(self) -> str:
        """Where it is computed: `cuda:0`."""
        return device_of(tensor_type_of(self.result))

    @property
    def bits(self) -> int:
        """The bits of a factor."""
        return getattr(element_type_of(self.result), "bitwidth", 32)


def static(sizes: Sequence[sym.IndexExpr]) -> tuple[int, ...]:
    """Sizes that are known to be numbers."""
    return tuple(size for size in sizes if isinstance(size, int))


def products_of(block: Block, *, tf32: bool, untouched: Collection[loops.NestOp] = ()) -> list[Product]:
    """The library products of @main that a nest could compute, in order. Of f32 only if rounding to TF32 is allowed.
    Nests in `untouched` take none in.
    """
    found: list[Product] = []
    positions: dict[Operation, int] = {op: position for position, op in enumerate(block.ops)}
    taken = set(untouched)
    for op in block.ops:
        if isinstance(op, loops.ExternOp) and (product := product_of(op, positions, taken, tf32)) is not None:
            found.append(product)
            if product.consumer is not None:
                taken.add(product.consumer)
    return found


def product_of(
    call: loops.ExternOp,
    positions: dict[Operation, int],
    taken: set[loops.NestOp],
    tf32: bool,
    *,
    fewest: int = 2,
) -> Product | None:
    """What a call multiplies, if it is a product that a nest could compute, with at least `fewest` rows, columns and
    points: a vector is no matrix.
    """
    names = _FACTORS.get(call.overload)
    if names is None or not call.results[0].uses:
        return None
    left, right = call.tensor(names[0]), call.tensor(names[1])
    bias = call.tensor("self") if "add" in call.overload else None
    if bias is not None and not (is_one(call, "beta") and is_one(call, "alpha")):
        return None
    every = [value.type for value in (call.results[0], left, right, *(() if bias is None else (bias,)))]
    scalar = element_type_of(call.results[0])
    if not isinstance(scalar, BFloat16Type | Float16Type) and not (isinstance(scalar, Float32Type) and tf32):
        return None
    for one in every:
        if not is_tensor_type(one) or one.element_type != scalar or len(static(sizes_of(one))) < len(sizes_of(one)):
            return None
        if math.prod(static(sizes_of(one))) == 0:
            return None
    consumer, is_kept = consumer_of(call, positions, taken)
    made = [nest for factor in (left, right) if (nest := producer_of(factor)) is not None and nest not in taken]
    producers: dict[SSAValue, loops.NestOp] = {nest.results[0]: nest for nest in made}
    product = Product(call, consumer, is_kept, producers)
    if min(product.sizes) < fewest:
        return None
    if consumer is None:
        return product
    beside = _beside(product, consumer, positions, taken, tf32)
    return Product(call, consumer, is_kept, producers, beside) if beside else product


def _beside(
    product: Product, consumer: loops.NestOp, positions: dict[Operation, int], taken: set[loops.NestOp], tf32: bool
) -> tuple[Product, ...]:
    """The other products that a consumer reads as it does this one."""
    loads = loads_of(consumer)
    own = next(load for load in loads if load.source is product.result)
    found: list[Product] = []
    for source in dict.fromkeys(load.source for load in loads):
        call = source.owner
        if not isinstance(call, loops.ExternOp) or call is product.call or call not in positions:
            continue
        alike = [load for load in loads if load.source is source]
        if any(load.mask is not None or load.map != own.map or load.indices != own.indices for load in alike):
            continue
        if len(alike) < len(list(source.uses)) or source.type != product.result.type:
            continue
        other = product_of(call, positions, taken | {consumer}, tf32)
        if other is not None and other.sizes == product.sizes:
            found.append(other)
    return tuple(found)


def is_one(call: CallLike, name: str) -> bool:
    """Whether a factor of a call is 1."""
    value = call.argument(name)
    return isinstance(value, int | float) and value == 1


def consumer_of(
    call: loops.ExternOp, positions: dict[Operation, int], taken: set[loops.NestOp]
) -> tuple[loops.NestOp | None, bool]:
    """The first user, if it is a pointwise nest that reads every element once, or each of a part when nobody reads the
    rest; and whether there are other users.
    """
    result = call.results[0]
    users: dict[Operation, None] = {}
    for use in result.uses:
        top: Operation = use.operation
        while top not in positions:
            parent = top.parent_op()
            assert parent is not None
            top = parent
        users[top] = None
    first = min(users, key=positions.__getitem__)
    if not isinstance(first, loops.NestOp) or first in taken or first.operands or not is_pointwise(first):
        return None, False
    loads = [load for load in loads_of(first) if load.source is result]
    if any(load.mask is not None or load.map != loads[0].map or load.indices != loads[0].indices for load in loads):
        return None, False
    if len(users) == 1 and reads_a_part(first, loads[0]):
        return first, False
    once = reads_each_once(first.induction_variables, first.sizes, loads[0])
    return (first, len(users) > 1) if once else (None, False)


def producer_of(factor: SSAValue) -> loops.NestOp | None:
    """The pointwise nest that computes a factor, perhaps viewed, for this use alone."""
    while factor.has_one_use() and isinstance(view := factor.owner, loops.ViewOp):
        factor = view.source
    nest = factor.owner
    if not isinstance(nest, loops.NestOp) or not factor.has_one_use():
        return None
    return nest if stores_in_order(nest) else None


def stores_in_order(nest: loops.NestOp) -> bool:
    """Whether a nest is pointwise and gives one tensor, each point the element of its own indices."""
    if len(nest.results) != 1 or nest.operands or not is_pointwise(nest):
        return False
    if any(isinstance(op, loops.BoundOp) for op in nest.body.ops):
        return False
    users = [use.operation for use in nest.handles[0].uses]
    if len(users) != 1 or not isinstance(store := users[0], loops.StoreOp) or store.mask is not None:
        return False
    substitution = Substitution(nest.induction_variables)
    stored = substitution.expressions(store.map.results, store.indices)
    in_order = all(
        e == sym.dim(axis) or (size == 1 and e == 0)
        for axis, (e, size) in enumerate(zip(stored, nest.sizes, strict=False))
    )
    return in_order and len(stored) == len(nest.sizes)


def reads_each_once(variables: Sequence[SSAValue], ranges: Sequence[sym.IndexExpr], load: loops.LoadOp) -> bool:
    """Whether the points of a domain read the elements of a tensor, each one once: the address is a number whose digits
    are the induction variables.
    """
    sizes = static(ranges)
    tensor = static(sizes_of(tensor_type_of(load.source)))
    if len(sizes) < len(ranges) or math.prod(sizes) != math.prod(tensor):
        return False
    substitution = Substitution(variables)
    address: sym.IndexExpr = 0
    for index, size in zip(substitution.expressions(load.map.results, load.indices), tensor, strict=True):
        address = address * size + index
    if len(substitution.axes) > len(sizes):
        return False  # an index made of data
    address = sym.simplify(address, sizes)
    digits: list[tuple[int, int]] = []
    for axis, size in enumerate(sizes):
        stride = sym.coefficient(address, axis)
        if size > 1:
            if not isinstance(stride, int):
                return False
            digits.append((stride, size))
    weight = 1
    for stride, size in sorted(digits):
        if stride != weight:
            return False
        weight *= size
    return True


def reads_a_part(nest: loops.NestOp, load: loops.LoadOp) -> bool:
    """Whether each point of a nest reads the element of its own indices: none twice, but perhaps not every one."""
    if len(nest.sizes) != len(load.map.results):
        return False
    substitution = Substitution(nest.induction_variables)
    read = substitution.expressions(load.map.results, load.indices)
    return all(
        e == sym.dim(axis) or (size == 1 and e == 0)
        for axis, (e, size) in enumerate(zip(read, nest.sizes, strict=True))
    )


def fused_nest(
    product: Product,
    *,
    keep_roundings: bool = False,
    prologues: bool = False,
    group: int = 0,
    beside: bool = False,
) -> loops.NestOp:
    """The nest that computes a product and what its consumer does with it; it stands nowhere yet.

    Its outs are the consumer's, and the product itself where somebody else needs it. With `prologues`, what the
    producers of its factors do is done again wherever a factor is read. Not exact: the consumer takes the sum before
    it is rounded to the product's type, unless `keep_roundings`. With `group`, which divides the points of a sum, these
    are two axes, of groups and of the points of one. With `beside`, it computes the products beside this one, too. Of
    a consumer that reads a part, the nest has the points of the whole product, whose rows begin where vectors may, and
    stores that part.
    """
    consumer = product.consumer
    together = (product, *(product.beside if beside else ()))
    producers = {value: nest for one in together for value, nest in one.producers.items()} if prologues else {}
    result_type = product.result.type
    if consumer is None:
        nest = loops.NestOp.build(sizes_of(tensor_type_of(product.result)), [result_type])
    else:
        kept = [result_type] if product.is_kept else []
        whole = static(sizes_of(tensor_type_of(product.result))) if _is_part(product) else consumer.sizes
        nest = loops.NestOp.build(whole, [*(result.type for result in consumer.results), *kept])
    nest.location = product.call.location
    place = InsertPoint.at_end(nest.body)
    if consumer is None:
        variables = nest.induction_variables
        dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(variables))]
        _, rounded = sum_at(product, dims, variables, nest.sizes, place, producers, group)
        insert(loops.StoreOp.build(rounded, nest.handles[0], dims, variables), product.call, place)
        return nest
    substitution = Substitution(nest.induction_variables)
    for axis, variable in enumerate(consumer.induction_variables):
        substitution.set_index(variable, sym.dim(axis))
        nest.induction_variables[axis].name_hint = variable.name_hint
    for old, new in zip(consumer.handles, nest.handles, strict=False):
        substitution.values[old] = new
        new.name_hint = old.name_hint
    there = _inside(nest, consumer.sizes, product.call, place)
    exact: dict[SSAValue, SSAValue] = {}
    members = {one.result: one for one in together}
    sums: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
    for op in consumer.body.ops:
        if isinstance(op, loops.LoadOp) and (member := members.get(op.source)) is not None:
            if op.source not in sums:
                dims = substitution.expressions(op.map.results, op.indices)
                made = sum_at(member, dims, nest.induction_variables, nest.sizes, place, producers, group)
                sums[op.source] = made
                if member.is_kept:
                    store = loops.StoreOp.build(made[1], nest.handles[-1], dims, nest.induction_variables)
                    insert(store, product.call, place)
            exact[op.result], substitution.values[op.result] = sums[op.source]
        elif not keep_roundings and is_widening(op) and op.operands[0] in exact:
            substitution.values[op.result] = exact[op.operands[0]]
        else:
            copy = clone_op(op, substitution)
            Rewriter.insert_op(copy, place)
            if there is not None and isinstance(copy, loops.LoadOp):
                substitution.values[op.results[0]] = load_only_where(there, copy)
            elif there is not None and isinstance(copy, loops.StoreOp):
                store_only_where(there, [copy])
    for whole, rounded in sums.values():
        if rounded is not whole and not rounded.uses:
            assert isinstance(rounded.owner, Operation)
            remove(rounded.owner)
    return nest


def _is_part(product: Product) -> bool:
    """Whether the consumer reads a part of the product, element by element."""
    assert product.consumer is not None
    sizes = sizes_of(tensor_type_of(product.result))
    return len(sizes) == len(product.consumer.sizes) and math.prod(static(sizes)) > math.prod(
        static(product.consumer.sizes)
    )


def _inside(nest: loops.NestOp, sizes: Sequence[sym.IndexExpr], like: Operation, place: InsertPoint) -> SSAValue | None:
    """Appends whether a point of a nest is one of a domain of these sizes; None when all are."""
    found: SSAValue | None = None
    for variable, whole, size in zip(nest.induction_variables, nest.sizes, sizes, strict=True):
        if whole == size:
            continue
        assert isinstance(size, int)
        kind = type_of_positions(size)
        index = insert(loops.IndexOp.build(sym.dim(0), [variable], kind), like, place)
        limit = insert(elem.constant(size, kind), like, place)
        assert index is not None and limit is not None
        test = insert(elem.make("lt", index, limit), like, place)
        found = test if found is None or test is None else insert(elem.make("and", found, test), like, place)
    return found


def is_widening(op: Operation) -> TypeGuard[elem.ConvertOp]:
    """Whether an op converts to f32."""
    return isinstance(op, elem.ConvertOp) and op.result.type == f32


def insert(op: Operation, like: Operation, place: InsertPoint) -> SSAValue | None:
    """Inserts an op where another one comes from; gives its result, if it has one."""
    op.location = like.location
    Rewriter.insert_op(op, place)
    return op.results[0] if op.results else None


def sum_at(
    product: Product,
    dims: Sequence[sym.IndexExpr],
    around: Sequence[SSAValue],
    ranges: Sequence[sym.IndexExpr],
    place: InsertPoint,
    producers: Mapping[SSAValue, loops.NestOp] = MappingProxyType({}),
    group: int = 0,
) -> tuple[SSAValue, SSAValue]:
    """Inserts the sum of products for one element, whose index is `dims`, expressions over the index values `around`,
    which stay below `ranges`; gives it in f32, and rounded. The points are as many groups of `group`, if that is not 0.
    """
    *batch, row, column = dims
    rows, columns, points = product.sizes
    del rows, columns
    reduction = loops.ReduceOp.build("sum", [points // group, group] if group else [points], f32)
    axes = [*around, *reduction.induction_variables]
    reduction.induction_variables[-1].name_hint = "k"
    sizes = (*ranges, *reduction.sizes)
    k: sym.IndexExpr = sym.dim(len(axes) - 1)
    if group:
        k = sym.dim(len(axes) - 2) * group + k
    inside = InsertPoint.at_end(reduction.body)
    left = load_in_f32(product.left, [*batch, row, k], axes, sizes, product.call, inside, producers)
    right = load_in_f32(product.right, [*batch, k, column], axes, sizes, product.call, inside, producers)
    multiplied = insert(elem.make("mul", left, right), product.call, inside)
    assert multiplied is not None
    insert(loops.YieldOp.build(multiplied), product.call, inside)
    total = insert(reduction, product.call, place)
    assert total is not None
    if product.bias is not None:
        bias_sizes = sizes_of(tensor_type_of(product.bias))
        last = dims[len(dims) - len(bias_sizes) :]
        own = [0 if size == 1 else dim for size, dim in zip(bias_sizes, last, strict=True)]
        bias = load_in_f32(product.bias, own, around, ranges, product.call, place)
        total = insert(elem.make("add", total, bias), product.call, place)
        assert total is not None
    scalar = element_type_of(product.result)
    if scalar == f32:
        return total, total
    rounded = insert(elem.ConvertOp.build(total, scalar), product.call, place)
    assert rounded is not None
    return total, rounded


def load_in_f32(
    tensor: SSAValue,
    dims: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    sizes: Sequence[sym.IndexExpr],
    like: Operation,
    place: InsertPoint,
    producers: Mapping[SSAValue, loops.NestOp] = MappingProxyType({}),
) -> SSAValue:
    """Appends a load of an element in f32, not through views; or what a producer does to give it."""
    source, indices = through_views(tensor, dims)
    indices = tuple(sym.simplify(index, sizes) for index in indices)
    if source in producers:
        value = computed(producers[source], indices, axes, place)
    else:
        loaded = insert(loops.LoadOp.build(source, indices, axes), like, place)
        assert loaded is not None
        value = loaded
    if value.type != f32:
        value = insert(elem.ConvertOp.build(value, f32), like, place)
        assert value is not None
    return value


def computed(
    producer: loops.NestOp, indices: Sequence[sym.IndexExpr], axes: Sequence[SSAValue], place: InsertPoint
) -> SSAValue:
    """Appends a producer's body at one point; gives what it stores there."""
    substitution = Substitution(axes)
    for variable, index in zip(producer.induction_variables, indices, strict=True):
        substitution.set_index(variable, index)
    return cloned_value(producer.body.ops, substitution, place)


def cloned_value(ops: Iterable[Operation], substitution: Substitution, place: InsertPoint) -> SSAValue:
    """Clones what leads to a store to a place; gives what would be stored, the last of several."""
    stored: SSAValue | None = None
    for op in ops:
        if isinstance(op, loops.StoreOp):
            stored = substitution.value(op.value)
        else:
            Rewriter.insert_op(clone_op(op, substitution), place)
    assert stored is not None
    return stored


def replace(product: Product, nest: loops.NestOp, choices: dict[str, int]) -> None:
    """Puts the fused nest in the place of the product and its consumer, and of what nobody needs any more; so also of
    the products beside it, where the nest computes these.
    """
    if choices:
        nest.properties["schedule"] = loops.ScheduleAttr.of(choices)
    consumer = product.consumer
    old = consumer or product.call
    Rewriter.insert_op(nest, InsertPoint.before(old))
    replaced: list[SSAValue] = [*(consumer.results if consumer is not None else ())]
    if consumer is None or product.is_kept:
        replaced.append(product.result)
    for before, after in zip(replaced, nest.results, strict=True):
        after.name_hint = before.name_hint
        replace_all_uses(before, after)
    if consumer is not None:
        remove(consumer)
    for one in (product, *product.beside):
        if one is product or not one.result.uses:
            remove_product(one)


def remove_product(product: Product) -> None:
    """Takes a product away that nobody needs, and what only gave its factors."""
    factors = [product.left, product.right]
    remove(product.call)
    for value in factors:
        while not value.uses and isinstance(owner := value.owner, loops.ViewOp):
            value = owner.source
            remove(owner)
        if not value.uses and value in product.producers:
            remove(product.producers[value])


__all__ = [
    "Product",
    "cloned_value",
    "computed",
    "fused_nest",
    "insert",
    "is_one",
    "is_widening",
    "load_in_f32",
    "producer_of",
    "product_of",
    "products_of",
    "reads_each_once",
    "remove_product",
    "replace",
    "static",
    "stores_in_order",
    "sum_at",
]
