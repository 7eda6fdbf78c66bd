"""Library products of matrices, and the nests that compute the same together with what is done to the result.

    %m = loops.extern "aten.mm.default"(%a, %b)
    %y = loops.nest (%i : 512, %j : 256) { … f(load %m[%i, %j]) … }
    →
    %y = loops.nest (%i : 512, %j : 256) { %s = sum (%k : 1024) of %a[%i, %k] · %b[%k, %j]; … f(%s) … }

Nothing is decided here. A target computes such a nest well only with the choices of a contraction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeGuard, cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.layout import (
    device_of,
    element_type_of,
    is_tensor,
    is_tensor_type,
    sizes_of,
    strides_of,
    tensor_type_of,
)
from cuesta.dialects.loops.surgery import loads_of, through_views
from cuesta.dialects.loops.writing import type_of_positions
from cuesta.transforms.products.gradients import gradient_of
from cuesta.transforms.products.narrow_factors import (
    NARROWED,
    as_factor,
    bias_of,
    factor_type,
    may_be_factor,
    scales_of,
)
from cuesta.transforms.products.neighbours import (
    consumer_of,
    mixes_axes,
    producer_of,
    reads_each_once,
    static,
    stores_in_order,
    varies_along_all,
    weights_of,
)
from cuesta.transforms.products.pieces import WHOLE, Cut, computed, cut_of, pieces_of
from cuesta.transforms.products.window_sums import Limit, WindowSums
from cuesta.transforms.products.windows import (
    CONVOLUTION,
    GRADIENTS,
    VECTOR,
    Windows,
    lies_across,
    reads_in_order,
    windows_of,
)

_FACTORS = {
    "aten.mm.default": ("self", "mat2"),
    "aten.bmm.default": ("self", "mat2"),
    "aten.addmm.default": ("mat1", "mat2"),
    "aten.baddbmm.default": ("batch1", "batch2"),
    "aten._int_mm.default": ("self", "mat2"),
    **dict.fromkeys(NARROWED, ("self", "mat2")),
}
"""The names of the factors in the calls that are products."""


@struct
class Convolutions:
    """Which convolutions are taken for products."""

    types: tuple[type[Attribute], ...] = ()
    """The types of their elements: none, where it is no question of convolutions."""
    unmeasured: bool = True
    """Whether also those that no estimate of what they take was fitted to: with groups, transposed, gradients."""
    single: bool = False
    """Whether also those of one row, one column or one point."""


def convolutions_taken(tf32: bool, *, unmeasured: bool = True, single: bool = False) -> Convolutions:
    """Those of 16 bits, and of f32 if it may be rounded to TF32."""
    types = (BFloat16Type, Float16Type, *((Float32Type,) if tf32 else ()))
    return Convolutions(types, unmeasured, single)


NO_CONVOLUTIONS = Convolutions()
AS_THEY_ARE = "f32"
"""The precision with which nests of a processor take factors of f32, which have no matrix units in their way."""


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
    windows: Windows | WindowSums | None = None
    """Of a convolution, how it is a product: its factors are no matrices, and its result is none."""
    narrow: Attribute | None = None
    """The type of its factors, or that they are exact in, where that is not the type of its result."""
    precision: str = ""
    """How matrix units take its factors, which are of f32; empty for others."""

    @property
    def _names(self) -> tuple[str, str]:
        return _FACTORS[self.call.overload] if self.windows is None else self.windows.factors

    @property
    def left(self) -> SSAValue:
        """The factor of rows."""
        return self.call.tensor(self._names[0])

    @property
    def right(self) -> SSAValue:
        """The factor of columns."""
        return self.call.tensor(self._names[1])

    @property
    def bias(self) -> SSAValue | None:
        """What is added, `beta` times; nothing where that is 0, whatever it holds."""
        if self.call.overload == CONVOLUTION:
            return self.call.optional_tensor("bias")
        return bias_of(self.call) if self.beta else None

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
        return result_of(self.call)

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
            return math.prod(self.windows.batch)
        return math.prod(static(sizes_of(tensor_type_of(self.result))[:-2]))

    @property
    def domain(self) -> tuple[int, ...]:
        """The sizes of a nest that computes it: of a convolution, its batch, its rows and its columns."""
        return static(sizes_of(tensor_type_of(self.result))) if self.windows is None else self.windows.domain

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
        return getattr(self.narrow or element_type_of(self.result), "bitwidth", 32)


def result_of(call: loops.ExternOp) -> SSAValue:
    """What a product gives: of gradients, the one that there is."""
    if call.overload == GRADIENTS:
        return next(result for result in call.results if is_tensor(result))
    return call.results[0]


def products_of(
    block: Block,
    *,
    precision: str,
    untouched: Collection[loops.NestOp] = (),
    convolutions: Convolutions = NO_CONVOLUTIONS,
) -> list[Product]:
    """The library products of @main that a nest could compute, in order. Factors of f32 are taken with a `precision`
    (`kernel.contract`); where that is empty, products of f32 are none. Nests in `untouched` take none in. So, too, the
    `convolutions` that are products.
    """
    found: list[Product] = []
    positions: dict[Operation, int] = {op: position for position, op in enumerate(block.ops)}
    taken = set(untouched)
    for op in block.ops:
        if isinstance(op, loops.ExternOp) and (op.overload in _FACTORS or op.overload in (CONVOLUTION, GRADIENTS)):
            product = product_of(op, positions, taken, precision, convolutions=convolutions)
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
    precision: str,
    *,
    fewest: int = 2,
    convolutions: Convolutions = NO_CONVOLUTIONS,
) -> Product | None:
    """What a call multiplies, if it is a product that a nest could compute, with at least `fewest` rows, columns and
    points: a vector is no matrix. One of the `convolutions` is one, too.
    """
    windows: Windows | WindowSums | str | None = None
    if is_convolution := call.overload in (CONVOLUTION, GRADIENTS):
        which = gradient_of(call) if call.overload == GRADIENTS else 0
        if not convolutions.types or which is None or not all(map(is_tensor, (*call.operands, call.results[which]))):
            return None
        if not call.results[which].uses:
            return None
        if not isinstance(scalar := element_type_of(call.results[which]), convolutions.types):
            no_match(call, f"is not taken for a product: its type is {scalar}, and f32 may not be rounded to TF32")
            return None
        windows = windows_of(call, which)
        if isinstance(windows, str):
            no_match(call, f"is not taken for a product: {windows}")
            return None
        if windows.unmeasured and not convolutions.unmeasured:
            return None
        names = windows.factors
    else:
        which, names = 0, _FACTORS.get(call.overload)
        if names is None or not call.results[0].uses:
            return None
    left, right = call.tensor(names[0]), call.tensor(names[1])
    bias, scalar = bias_of(call), element_type_of(call.results[which])
    # A contraction has factors of two axes each; nests of a processor read whatever there is.
    contracts = traits_of_device(device_of(tensor_type_of(left))).contractions
    narrow = factor_type(call, left, right, rounded=precision == "tf32") if contracts and not is_convolution else None
    if call.overload in NARROWED and narrow is None:
        return None
    if "add" in call.overload and (reason := unknown_factors(call)) is not None:
        no_match(call, f"is not taken for a product: {reason}")
        return None
    every = [value.type for value in (call.results[which], left, right, *(() if bias is None else (bias,)))]
    if not is_convolution and narrow is None and not may_be_factor(scalar, precision):
        no_match(call, f"is not taken for a product: its type is {scalar}")
        return None
    for one in every:
        if not is_tensor_type(one) or len(static(sizes_of(one))) < len(sizes_of(one)):
            return None
        if one.element_type != scalar and call.overload not in NARROWED:
            return None
        if math.prod(static(sizes_of(one))) == 0:
            return None
    if contracts and any(_is_expanded(value, whole=is_convolution) for value in (left, right)):
        no_match(call, "is not taken for a product: a factor is the same along an axis")
        return None
    consumer, is_kept = consumer_of(call.results[which], positions, taken)
    if contracts and not is_convolution and consumer is not None and mixes_axes(consumer, call.results[which]):
        no_match(call, "is not computed with the nest that reads it: an axis of that is of several of its own")
        consumer, is_kept = None, False
    found = [producer_of(factor, contracts=contracts) for factor in (left, right)]
    made = [nest for nest in found if nest is not None and nest not in taken]
    if contracts and not all(map(varies_along_all, made)):
        no_match(call, "is not computed with what gives a factor that is the same along an axis")
        made = [nest for nest in made if varies_along_all(nest)]
    if windows is not None and windows.unmeasured:
        made = [nest for nest in made if nest.results[0] in (left, right)]
    elif isinstance(windows, Windows):
        if consumer is not None and (reason := _no_consumer(call, consumer, windows)) is not None:
            no_match(call, f"is not computed with the nest that reads it: {reason}")
            consumer, is_kept = None, False
        if (consumer is None or is_kept) and strides_of(tensor_type_of(call.results[0]))[1] != 1:
            no_match(call, "is not taken for a product: channels of its result do not lie side by side")
            return None
        made = [nest for nest in made if nest.results[0] in (left, right) and reads_in_order(nest, windows)]
    producers: dict[SSAValue, loops.NestOp] = {nest.results[0]: nest for nest in made}
    if not contracts or not isinstance(narrow or scalar, Float32Type):
        precision = ""
    elif is_convolution:
        precision = "tf32"
    product = Product(call, consumer, is_kept, producers, windows=windows, narrow=narrow, precision=precision)
    if min(product.sizes) < (1 if convolutions.single and windows is not None else fewest):
        no_match(call, f"is not taken for a product: it has fewer than {fewest} rows, columns or points")
        return None
    if consumer is None:
        return product
    beside = _beside(product, consumer, positions, taken, precision, convolutions)
    return Product(call, consumer, is_kept, producers, beside, windows, narrow, precision) if beside else product


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
    precision: str,
    convolutions: Convolutions,
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
        other = product_of(call, positions, taken | {consumer}, precision, convolutions=convolutions)
        if other is None or other.sizes != product.sizes or other.domain != product.domain:
            continue
        if other.narrow == product.narrow:
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


def is_there(
    limits: Sequence[Limit],
    axes: Sequence[SSAValue],
    sizes: Sequence[sym.IndexExpr],
    like: Operation,
    place: InsertPoint,
) -> SSAValue | None:
    """Inserts whether expressions over index values are within their limits; None where there are none."""
    found: SSAValue | None = None
    for one, size, before, beyond in limits:
        kind = type_of_positions(2 * size)
        position = insert(loops.IndexOp.build(sym.simplify(one, sizes), axes, kind), like, place)
        for name, limit in (*((("ge", 0),) if before else ()), *((("lt", size),) if beyond else ())):
            number = insert(elem.constant(limit, kind), like, place)
            assert position is not None and number is not None
            test = insert(elem.make(name, position, number), like, place)
            both = None if found is None or test is None else elem.make("and", found, test)
            found = test if both is None else insert(both, like, place)
    return found


def _both(one: SSAValue | None, other: SSAValue | None, like: Operation, place: InsertPoint) -> SSAValue | None:
    """Inserts whether both of two conditions hold, of which None always does."""
    if one is None or other is None:
        return one or other
    return insert(elem.make("and", one, other), like, place)


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
    cut = cut_at(product, dims, ranges, producers)
    points, total, like = product.sizes[2] // cut.count, None, product.call
    for part in range(cut.count):
        reduction = loops.ReduceOp.build("sum", [points // group, group] if group else [points], f32)
        axes = [*around, *reduction.induction_variables]
        reduction.induction_variables[-1].name_hint = "k"
        sizes = (*ranges, *reduction.sizes)
        k: sym.IndexExpr = sym.dim(len(axes) - 1)
        if group:
            k = sym.dim(len(axes) - 2) * group + k
        k = sym.simplify(cut.point(k, part), sizes)
        inside = InsertPoint.at_end(reduction.body)
        limits: Sequence[Sequence[Limit]] = ((), (), ()) if product.windows is None else product.windows.limits(dims, k)
        both, of_left, of_right = (is_there(one, axes, sizes, like, inside) for one in limits)
        of_left, of_right = (_both(both, one, like, inside) for one in (of_left, of_right))
        index = product.left_at(dims, k)
        left = load_in_f32(product.left, index, axes, sizes, like, inside, producers, of_left, place)
        index = product.right_at(dims, k)
        right = load_in_f32(product.right, index, axes, sizes, like, inside, producers, of_right, place)
        if product.narrow is not None:
            left, right = (as_factor(factor, product.narrow, like, inside) for factor in (left, right))
        multiplied = insert(elem.make("mul", left, right), like, inside)
        insert(loops.YieldOp.build(cast("SSAValue", multiplied)), like, inside)
        one = insert(reduction, like, place)
        total = one if total is None or one is None else insert(elem.make("add", total, one), like, place)
    assert total is not None
    for scale in scales_of(product.call):
        own_sizes = sizes_of(tensor_type_of(scale))
        own = [0 if size == 1 else dim for size, dim in zip(own_sizes, dims[len(dims) - len(own_sizes) :], strict=True)]
        multiplier = load_in_f32(scale, own, around, ranges, like, place)
        total = insert(elem.make("mul", total, multiplier), like, place)
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
    """Inserts alpha · total + beta · bias for the element `dims` of a result, in f32: it is not rounded."""
    call = product.call
    found = scaled(total, product.alpha, call, place)
    if (bias := product.bias) is not None:
        sizes = sizes_of(tensor_type_of(bias))
        last = dims[1:2] if product.windows is not None else dims[len(dims) - len(sizes) :]
        own = [0 if size == 1 else dim for size, dim in zip(sizes, last, strict=True)]
        added = load_in_f32(bias, own, around, ranges, call, place)
        whole = insert(elem.make("add", found, scaled(added, product.beta, call, place)), call, place)
        assert whole is not None
        return whole
    return found


def scaled(value: SSAValue, factor: float, like: Operation, place: InsertPoint) -> SSAValue:
    """Inserts the product of a value and a number, which is rounded to the value's type; no op for 1."""
    if factor == 1.0:
        return value
    number = insert(elem.constant(factor, value.type), like, place)
    assert number is not None
    found = insert(elem.make("mul", value, number), like, place)
    assert found is not None
    return found


def cut_at(
    product: Product,
    dims: Sequence[sym.IndexExpr],
    ranges: Sequence[sym.IndexExpr],
    producers: Mapping[SSAValue, loops.NestOp],
) -> Cut:
    """How a product's points are cut, for an element of index `dims`, so that a factor of which several elements are
    computed at a point is one of them in each part.
    """
    k = len(ranges)
    sizes = (*ranges, product.sizes[2])
    indices = (product.left_at(dims, sym.dim(k)), product.right_at(dims, sym.dim(k)))
    for factor, index in zip((product.left, product.right), indices, strict=True):
        source, place = through_views(factor, index)
        if source in producers and (pieces := pieces_of(producers[source])) is not None:
            found = cut_of(pieces, sizes_of(tensor_type_of(source)), place, k, sizes)
            if found is not None:
                return found
    return WHOLE


def load_in_f32(
    tensor: SSAValue,
    dims: Sequence[sym.IndexExpr],
    axes: Sequence[SSAValue],
    sizes: Sequence[sym.IndexExpr],
    like: Operation,
    place: InsertPoint,
    producers: Mapping[SSAValue, loops.NestOp] = MappingProxyType({}),
    there: SSAValue | None = None,
    before: InsertPoint | None = None,
) -> SSAValue:
    """Appends a load of an element in f32, not through views; or what a producer does to give it. It is 0, and nothing
    is read, where `there` is false. Indices that no axis of the place's own is in are read `before`.
    """
    source, indices = through_views(tensor, dims)
    indices = tuple(sym.simplify(index, sizes) for index in indices)
    zero = None if there is None else insert(elem.constant(0, element_type_of(source)), like, place)
    if source in producers:
        value = computed(producers[source], indices, axes, place, there, sizes=sizes, before=before)
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


__all__ = [
    "AS_THEY_ARE",
    "Convolutions",
    "Product",
    "convolutions_taken",
    "insert",
    "is_one",
    "is_there",
    "is_widening",
    "load_in_f32",
    "number_of",
    "producer_of",
    "product_of",
    "products_of",
    "reads_each_once",
    "result_of",
    "scaled",
    "static",
    "stores_in_order",
    "sum_at",
    "unknown_factors",
    "with_bias",
]
