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
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import device_of, element_type_of, is_tensor_type, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, loads_of, remove, through_views
from cuesta.dialects.loops.writing import load_only_where, store_only_where, type_of_positions
from cuesta.transforms.products.neighbours import (
    consumer_of,
    producer_of,
    reads_each_once,
    static,
    stores_in_order,
    varies_along_all,
    weights_of,
)
from cuesta.transforms.products.windows import CONVOLUTION, VECTOR, Windows, lies_across, reads_in_order, windows_of

_FACTORS = {
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.baddbmm.default": ("batch1", "batch2"),
    "aten._int_mm.default": ("self", "mat2"),
    CONVOLUTION: ("input", "weight"),
}
"""The names of the factors in the calls that are products."""


def types_of_convolutions(tf32: bool) -> tuple[type[Attribute], ...]:
    """The types of elements of which convolutions may be products: f32 if it may be rounded to TF32."""
    return (BFloat16Type, Float16Type, *((Float32Type,) if tf32 else ()))


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
    windows: Windows | None = None
    """Of a convolution, how it is a product: its factors are no matrices, and its result is none."""

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
        """What is added, `beta` times; nothing where that is 0, whatever it holds."""
        return self.call.tensor("self") if "add" in self.call.overload and self.beta else None

    @property
    def alpha(self) -> float:
        """How often the sum of products is taken."""
        return number_of(self.call, "alpha")

    @property
    def beta(self) -> float:
        """How often what is added is taken."""
        return number_of(self.call, "beta")

    @property
    def result(self) -> SSAValue:
        """The product."""
        return self.call.results[0]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns, and the points of each sum."""
        if self.windows is not None:
            return self.windows.sizes
        rows, columns = static(sizes_of(tensor_type_of(self.result))[-2:])
        return rows, columns, static(sizes_of(tensor_type_of(self.left)))[-1]

    @property
    def batch(self) -> int:
        """How many products of matrices it is."""
        if self.windows is not None:
            return 1
        return math.prod(static(sizes_of(tensor_type_of(self.result))[:-2]))

    @property
    def domain(self) -> tuple[int, ...]:
        """The sizes of a nest that computes it: of a convolution, its rows and columns."""
        return static(sizes_of(tensor_type_of(self.result))) if self.windows is None else self.windows.sizes[:2]

    def left_at(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The index in the left factor of the number `k` that is summed for the element `dims` of the result."""
        return [*dims[:-1], k] if self.windows is None else self.windows.left(dims, k)

    def right_at(self, dims: Sequence[sym.IndexExpr], k: sym.IndexExpr) -> list[sym.IndexExpr]:
        """The same in the right factor."""
        return [*dims[:-2], k, dims[-1]] if self.windows is None else self.windows.right(dims, k)

    @property
    def device(self) -> str:
        """Where it is computed: `cuda:0`."""
        return device_of(tensor_type_of(self.result))

    @property
    def bits(self) -> int:
        """The bits of a factor."""
        return getattr(element_type_of(self.result), "bitwidth", 32)


def products_of(
    block: Block,
    *,
    tf32: bool,
    untouched: Collection[loops.NestOp] = (),
    convolutions: tuple[type[Attribute], ...] = (),
) -> list[Product]:
    """The library products of @main that a nest could compute, in order. Of f32 only if rounding to TF32 is allowed.
    Nests in `untouched` take none in. Of elements of the types `convolutions`, convolutions that are products, too.
    """
    found: list[Product] = []
    positions: dict[Operation, int] = {op: position for position, op in enumerate(block.ops)}
    taken = set(untouched)
    for op in block.ops:
        if isinstance(op, loops.ExternOp) and op.overload in _FACTORS:
            product = product_of(op, positions, taken, tf32, convolutions=convolutions)
            if product is None:
                continue
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
    convolutions: tuple[type[Attribute], ...] = (),
) -> Product | None:
    """What a call multiplies, if it is a product that a nest could compute, with at least `fewest` rows, columns and
    points: a vector is no matrix. Of elements of the types `convolutions`, a convolution is one, too.
    """
    names = _FACTORS.get(call.overload)
    if names is None or not call.results[0].uses or (call.overload == CONVOLUTION and not convolutions):
        return None
    left, right = call.tensor(names[0]), call.tensor(names[1])
    bias = call.tensor("self") if "add" in call.overload else None
    if bias is not None and (reason := unknown_factors(call)) is not None:
        no_match(call, f"is not taken for a product: {reason}")
        return None
    every = [value.type for value in (call.results[0], left, right, *(() if bias is None else (bias,)))]
    scalar = element_type_of(call.results[0])
    if call.overload == CONVOLUTION:
        if not isinstance(scalar, convolutions):
            return None
    elif not isinstance(scalar, BFloat16Type | Float16Type) and not (isinstance(scalar, Float32Type) and tf32):
        no_match(call, f"is not taken for a product: its type is {scalar}, and f32 may not be rounded to TF32")
        return None
    for one in every:
        if not is_tensor_type(one) or one.element_type != scalar or len(static(sizes_of(one))) < len(sizes_of(one)):
            return None
        if math.prod(static(sizes_of(one))) == 0:
            return None
    # A contraction has factors of two axes each; nests of a processor read whatever there is.
    contracts = traits_of_device(device_of(tensor_type_of(left))).contractions
    if contracts and any(_is_expanded(value, whole=call.overload == CONVOLUTION) for value in (left, right)):
        no_match(call, "is not taken for a product: a factor is the same along an axis")
        return None
    windows = windows_of(call) if call.overload == CONVOLUTION else None
    if isinstance(windows, str):
        no_match(call, f"is not taken for a product: {windows}")
        return None
    consumer, is_kept = consumer_of(call, positions, taken)
    made = [nest for factor in (left, right) if (nest := producer_of(factor)) is not None and nest not in taken]
    if contracts and not all(map(varies_along_all, made)):
        no_match(call, "is not computed with what gives a factor that is the same along an axis")
        made = [nest for nest in made if varies_along_all(nest)]
    if windows is not None:
        if consumer is not None and (reason := _no_consumer(call, consumer, windows)) is not None:
            no_match(call, f"is not computed with the nest that reads it: {reason}")
            consumer, is_kept = None, False
        if (consumer is None or is_kept) and strides_of(tensor_type_of(call.results[0]))[1] != 1:
            no_match(call, "is not taken for a product: channels of its result do not lie side by side")
            return None
        made = [nest for nest in made if nest.results[0] in (left, right) and reads_in_order(nest, windows)]
    producers: dict[SSAValue, loops.NestOp] = {nest.results[0]: nest for nest in made}
    product = Product(call, consumer, is_kept, producers, windows=windows)
    if min(product.sizes) < fewest:
        return None
    if consumer is None:
        return product
    beside = _beside(product, consumer, positions, taken, tf32, convolutions)
    return Product(call, consumer, is_kept, producers, beside, windows) if beside else product


def _no_consumer(call: loops.ExternOp, consumer: loops.NestOp, windows: Windows) -> str | None:
    """Why a nest with a row for each window does not do what a consumer does."""
    own = next(load for load in loads_of(consumer) if load.source is call.results[0])
    weights = weights_of(consumer.induction_variables, consumer.sizes, own)
    if weights is None:
        return "it reads a part"
    vector = VECTOR // getattr(element_type_of(call.results[0]), "bitwidth", 32)
    if lies_across(windows, call.results[0], consumer, windows.indices(weights, static(consumer.sizes)), vector):
        return "it stores, or reads, along something else than channels and whole vectors of places"
    return None


def _is_expanded(factor: SSAValue, *, whole: bool) -> bool:
    """Whether a matrix, or each of a batch of them, lies expanded: its elements along an axis are one in memory; of the
    `whole` tensor, along any axis.
    """
    kind = tensor_type_of(factor)
    axes = list(zip(sizes_of(kind), strides_of(kind), strict=True))
    return any(size != 1 and stride == 0 for size, stride in (axes if whole else axes[-2:]))


def _beside(
    product: Product,
    consumer: loops.NestOp,
    positions: dict[Operation, int],
    taken: set[loops.NestOp],
    tf32: bool,
    convolutions: tuple[type[Attribute], ...],
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
        other = product_of(call, positions, taken | {consumer}, tf32, convolutions=convolutions)
        if other is not None and other.sizes == product.sizes and (other.windows is None) == (product.windows is None):
            found.append(other)
    return tuple(found)


def number_of(call: CallLike, name: str) -> float:
    """`alpha` or `beta` of a product to which something is added; 1 of any other."""
    value = call.argument(name) if "add" in call.overload else 1
    assert isinstance(value, int | float)
    return float(value)


def unknown_factors(call: CallLike) -> str | None:
    """Why nobody but the library knows what becomes of the sum of a product, or of what is added to it."""
    alpha, beta = call.argument("alpha"), call.argument("beta")
    if not isinstance(alpha, int | float) or not isinstance(beta, int | float):
        return "only the call knows by what the sum, or what is added, is multiplied"
    if alpha == 0:
        return "it takes the sum 0 times, and libraries differ in what that is of infinities and NaN"
    return None


def is_one(call: CallLike, name: str) -> bool:
    """Whether a factor of a call is 1."""
    value = call.argument(name)
    return isinstance(value, int | float) and value == 1


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
        nest = loops.NestOp.build(product.domain, [result_type])
    else:
        kept = [result_type] if product.is_kept else []
        whole = product.domain if _is_part(product) or product.windows is not None else consumer.sizes
        nest = loops.NestOp.build(whole, [*(result.type for result in consumer.results), *kept])
    nest.location = product.call.location
    if product.windows is not None:
        for variable, name in zip(nest.induction_variables, ("row", "channel"), strict=True):
            variable.name_hint = name
    place = InsertPoint.at_end(nest.body)
    if consumer is None:
        variables = nest.induction_variables
        dims: list[sym.IndexExpr] = [sym.dim(axis) for axis in range(len(variables))]
        if product.windows is not None:
            dims = product.windows.element(*dims)
        _, rounded = sum_at(product, dims, variables, nest.sizes, place, producers, group)
        insert(loops.StoreOp.build(rounded, nest.handles[0], dims, variables), product.call, place)
        return nest
    substitution = Substitution(nest.induction_variables)
    for axis, variable in enumerate(consumer.induction_variables):
        substitution.set_index(variable, sym.dim(axis))
        if product.windows is None:
            nest.induction_variables[axis].name_hint = variable.name_hint
    if product.windows is not None:
        own = next(load for load in loads_of(consumer) if load.source is product.result)
        weights = weights_of(consumer.induction_variables, consumer.sizes, own)
        assert weights is not None
        indices = product.windows.indices(weights, static(consumer.sizes))
        for variable, index in zip(consumer.induction_variables, indices, strict=True):
            substitution.set_index(variable, index)
    for old, new in zip(consumer.handles, nest.handles, strict=False):
        substitution.values[old] = new
        new.name_hint = old.name_hint
    there = None if product.windows is not None else _inside(nest, consumer.sizes, product.call, place)
    exact: dict[SSAValue, SSAValue] = {}
    members = {one.result: one for one in together}
    sums: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
    for op in consumer.body.ops:
        if isinstance(op, loops.LoadOp) and (member := members.get(op.source)) is not None:
            if op.source not in sums:
                dims = substitution.expressions(op.map.results, op.indices)
                dims = [sym.simplify(one, nest.sizes) for one in dims]
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


def _within(
    windows: Windows,
    index: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    sizes: Sequence[sym.IndexExpr],
    product: Product,
    place: InsertPoint,
) -> SSAValue | None:
    """Appends whether an element of a window is one of its image, and not of the margin; None where all are."""
    found: SSAValue | None = None
    for one, size, before, beyond in windows.limits(index):
        kind = type_of_positions(size + max(windows.margins))
        position = insert(loops.IndexOp.build(sym.simplify(one, sizes), axes, kind), product.call, place)
        for name, limit in (*((("ge", 0),) if before else ()), *((("lt", size),) if beyond else ())):
            number = insert(elem.constant(limit, kind), product.call, place)
            assert position is not None and number is not None
            test = insert(elem.make(name, position, number), product.call, place)
            both = None if found is None or test is None else elem.make("and", found, test)
            found = test if both is None else insert(both, product.call, place)
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
    points = product.sizes[2]
    reduction = loops.ReduceOp.build("sum", [points // group, group] if group else [points], f32)
    axes = [*around, *reduction.induction_variables]
    reduction.induction_variables[-1].name_hint = "k"
    sizes = (*ranges, *reduction.sizes)
    k: sym.IndexExpr = sym.dim(len(axes) - 1)
    if group:
        k = sym.dim(len(axes) - 2) * group + k
    inside = InsertPoint.at_end(reduction.body)
    place_of_left = product.left_at(dims, k)
    there = None if product.windows is None else _within(product.windows, place_of_left, axes, sizes, product, inside)
    left = load_in_f32(product.left, place_of_left, axes, sizes, product.call, inside, producers, there)
    right = load_in_f32(product.right, product.right_at(dims, k), axes, sizes, product.call, inside, producers)
    multiplied = insert(elem.make("mul", left, right), product.call, inside)
    assert multiplied is not None
    insert(loops.YieldOp.build(multiplied), product.call, inside)
    total = insert(reduction, product.call, place)
    assert total is not None
    total = with_bias(product, total, dims, around, ranges, place)
    scalar = element_type_of(product.result)
    if scalar == f32:
        return total, total
    rounded = insert(elem.ConvertOp.build(total, scalar), product.call, place)
    assert rounded is not None
    return total, rounded


def with_bias(
    product: Product,
    total: SSAValue,
    dims: Sequence[sym.IndexExpr],
    around: Sequence[SSAValue],
    ranges: Sequence[sym.IndexExpr],
    place: InsertPoint,
) -> SSAValue:
    """Inserts alpha · total + beta · bias for the element `dims` of a result; in f32, and not rounded to another type."""
    call = product.call
    found = scaled(total, product.alpha, call, place)
    if (bias := product.bias) is not None:
        sizes = sizes_of(tensor_type_of(bias))
        own = [0 if size == 1 else dim for size, dim in zip(sizes, dims[len(dims) - len(sizes) :], strict=True)]
        added = load_in_f32(bias, own, around, ranges, call, place)
        whole = insert(elem.make("add", found, scaled(added, product.beta, call, place)), call, place)
        assert whole is not None
        return whole
    return found


def scaled(value: SSAValue, factor: float, like: Operation, place: InsertPoint) -> SSAValue:
    """Inserts the product of a value and a number, which is rounded to the value's type as libraries do; no op for 1."""
    if factor == 1.0:
        return value
    number = insert(elem.constant(factor, value.type), like, place)
    assert number is not None
    found = insert(elem.make("mul", value, number), like, place)
    assert found is not None
    return found


def load_in_f32(
    tensor: SSAValue,
    dims: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    sizes: Sequence[sym.IndexExpr],
    like: Operation,
    place: InsertPoint,
    producers: Mapping[SSAValue, loops.NestOp] = MappingProxyType({}),
    there: SSAValue | None = None,
) -> SSAValue:
    """Appends a load of an element in f32, not through views; or what a producer does to give it. It is 0, and nothing
    is read, where `there` is false.
    """
    source, indices = through_views(tensor, dims)
    indices = tuple(sym.simplify(index, sizes) for index in indices)
    zero = None if there is None else insert(elem.constant(0, element_type_of(source)), like, place)
    if source in producers:
        value = computed(producers[source], indices, axes, place, there)
        if there is not None and zero is not None:  # 0 is what the producer's result is there, not what it reads
            chosen = elem.SelectOp.create(operands=(there, value, zero), result_types=(value.type,))
            value = insert(chosen, like, place)
            assert value is not None
    else:
        loaded = insert(loops.LoadOp.build(source, indices, axes, there, zero), like, place)
        assert loaded is not None
        value = loaded
    if value.type != f32:
        value = insert(elem.ConvertOp.build(value, f32), like, place)
        assert value is not None
    return value


def computed(
    producer: loops.NestOp,
    indices: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    place: InsertPoint,
    there: SSAValue | None = None,
) -> SSAValue:
    """Appends a producer's body at one point; gives what it stores there. Where `there` is false the point is beyond
    the places of an image: what varies along these is not read, and what is given has no meaning.
    """
    substitution = Substitution(axes)
    for variable, index in zip(producer.induction_variables, indices, strict=True):
        substitution.set_index(variable, index)
    masked: dict[SSAValue, SSAValue] = {}
    if there is not None:
        masked.update((variable, there) for variable in producer.induction_variables[2:])
    return cloned_value(producer.body.ops, substitution, place, masked)


def cloned_value(
    ops: Iterable[Operation],
    substitution: Substitution,
    place: InsertPoint,
    masked: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
) -> SSAValue:
    """Clones what leads to a store to a place; gives what would be stored, the last of several. Loads whose place
    depends on an index in `masked` read only where its value there is true.
    """
    stored: SSAValue | None = None
    for op in ops:
        if isinstance(op, loops.StoreOp):
            stored = substitution.value(op.value)
            continue
        copy = clone_op(op, substitution)
        Rewriter.insert_op(copy, place)
        there = next((masked[index] for index in getattr(op, "indices", ()) if index in masked), None)
        if there is not None and isinstance(copy, loops.LoadOp):
            substitution.values[op.results[0]] = load_only_where(there, copy)
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
    "number_of",
    "producer_of",
    "product_of",
    "products_of",
    "reads_each_once",
    "remove_product",
    "replace",
    "scaled",
    "static",
    "stores_in_order",
    "sum_at",
    "types_of_convolutions",
    "unknown_factors",
    "with_bias",
]
