"""Products by words: factors whose elements are put together two or four at a time, as `elem.dot` multiplies them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import element_type_of, sizes_of, tensor_type, tensor_type_of
from cuesta.dialects.loops.surgery import Substitution, clone_op, remove, through_views
from cuesta.dialects.word_types import words_type
from cuesta.transforms.accuracy.elide_roundings import asks_which
from cuesta.transforms.products.products import Product, insert, is_widening, with_bias

_SIGNS = 0x80808080 - (1 << 32)
"""The highest bit of each byte of a word: what is 128 more has it turned. Four bytes of 128 without a sign, too.

Source: a definition.
"""


@struct
class Words:
    """How the elements of factors are put together in words, and whether that is worth it."""

    parts: str
    """As `elem.dot` calls them."""
    element: Attribute
    rate: float
    """How many times as fast as the library that PyTorch calls our kernels are."""

    @property
    def count(self) -> int:
        """The elements of a word."""
        return elem.PARTS[self.parts][0]


def has_words(kind: TensorType, axis: int) -> bool:
    """Whether the elements of a tensor along an axis, counted from the last, are words as they lie."""
    return not isinstance(words_type(kind, axis + len(sizes_of(kind))), str)


def word_nest(product: Product, words: Words, lanes: int, known: dict[object, SSAValue]) -> loops.NestOp:
    """The nest that computes a product in blocks, and what its consumer does with it; it stands nowhere yet. Before the
    call are what it reads: `known` has those that are there already.

    Shapes: its domain is that of the consumer, or of the result, the last axis in strips of `lanes`.
    """
    consumer, result = product.consumer, tensor_type_of(product.result)
    strips = _strips(product, words, lanes, known)
    rows = _rows(product, words, known)
    less = _sums_of_rows(product, *rows, known) if words.parts == "i8" else None
    *outer, columns = sizes_of(result) if consumer is None else consumer.sizes
    assert isinstance(columns, int)
    if consumer is None:
        kinds: list[Attribute] = [result]
    else:
        kinds = [*(one.type for one in consumer.results), *([result] if product.is_kept else [])]
    nest = loops.NestOp.build([*outer, columns // lanes, lanes], kinds)
    nest.location = product.call.location
    place = InsertPoint.at_end(nest.body)
    dims = [sym.dim(axis) for axis in range(len(nest.sizes))]
    points = [*dims[:-2], dims[-2] * lanes + dims[-1]]
    sums = _Sums(product, words, nest, strips, *rows, less)
    if consumer is None:
        _, rounded = sums.at(points)
        insert(loops.StoreOp.build(rounded, nest.handles[0], points, nest.induction_variables), product.call, place)
        return nest
    substitution = Substitution(nest.induction_variables)
    for variable, point in zip(consumer.induction_variables, points, strict=True):
        substitution.set_index(variable, point)
    for old, new in zip(consumer.handles, nest.handles, strict=False):
        substitution.values[old] = new
        new.name_hint = old.name_hint
    found: tuple[SSAValue, SSAValue] | None = None
    for op in consumer.body.ops:
        if isinstance(op, loops.LoadOp) and op.source is product.result:
            if found is None:
                index = [sym.simplify(e, nest.sizes) for e in substitution.expressions(op.map.results, op.indices)]
                found = sums.at(index)
                if product.is_kept:
                    store = loops.StoreOp.build(found[1], nest.handles[-1], index, nest.induction_variables)
                    insert(store, product.call, place)
            substitution.values[op.result] = found[1]
        else:
            Rewriter.insert_op(clone_op(op, substitution), place)
    if found is not None and found[0] is not found[1] and not asks_which(nest):
        _go_on_with(*found)
    return nest


def _go_on_with(total: SSAValue, rounded: SSAValue) -> None:
    """What follows takes a sum before it is rounded."""
    for use in list(rounded.uses):
        if is_widening(use.operation) and use.operation.result.type == total.type:
            replace_all_uses(use.operation.result, total)
            remove(use.operation)
    if not rounded.uses and isinstance(rounded.owner, Operation):
        remove(rounded.owner)


@struct
class _Sums:
    """How the sum for an element of a product is computed in a nest."""

    product: Product
    words: Words
    nest: loops.NestOp
    strips: SSAValue
    rows: SSAValue
    turned: bool
    less: SSAValue | None

    def at(self, index: Sequence[sym.IndexExpr]) -> tuple[SSAValue, SSAValue]:
        """Inserts the sum for an element of the result at the end of the nest; gives it whole, and rounded."""
        product, nest, call = self.product, self.nest, self.product.call
        place, kind = InsertPoint.at_end(nest.body), elem.PARTS[self.words.parts][1]
        reduction = loops.ReduceOp.build("sum", [product.sizes[2] // self.words.count], kind)
        reduction.induction_variables[0].name_hint = "k"
        inside = InsertPoint.at_end(reduction.body)
        around = nest.induction_variables
        axes = [*around, *reduction.induction_variables]
        strip, column, k = (sym.dim(len(axes) - back) for back in (3, 2, 1))
        batch, row = index[:-2], index[-2]
        place_of_left = [*batch, *_in_order(row, k, self.turned)]
        left = insert(loops.LoadOp.build(self.rows, place_of_left, axes), call, inside)
        right = insert(loops.LoadOp.build(self.strips, [*batch, strip, k, column], axes), call, inside)
        assert left is not None and right is not None
        several = insert(elem.DotOp.build(self.words.parts, right, left), call, inside)
        assert several is not None
        insert(loops.YieldOp.build(several), call, inside)
        total = insert(reduction, call, place)
        assert total is not None
        if self.less is not None:
            less = insert(loops.LoadOp.build(self.less, [*batch, row], around), call, place)
            assert less is not None
            total = insert(elem.make("sub", total, less), call, place)
            assert total is not None
        total = with_bias(product, total, index, around, nest.sizes, place)
        scalar = element_type_of(product.result)
        rounded = total if scalar == kind else insert(elem.ConvertOp.build(total, scalar), call, place)
        assert rounded is not None
        return total, rounded


def _strips(product: Product, words: Words, lanes: int, known: dict[object, SSAValue]) -> SSAValue:
    """The words of the factor of columns as strips of `lanes` columns, one after the other; of bytes, of what is 128
    more, without a sign.

    Shapes: [*batch, columns / lanes, points / count, lanes].
    """
    *batch, points, columns = sizes_of(tensor_type_of(product.right))
    assert isinstance(points, int) and isinstance(columns, int)
    key = ("strips", lanes, words.parts, *_read_at(product.right))
    if key not in known:
        nest = _nest_of([*batch, columns // lanes, points // words.count, lanes], product)
        *outer, strip, k, column = (sym.dim(axis) for axis in range(len(nest.sizes)))
        column = strip * lanes + column
        if has_words(tensor_type_of(product.right), -2):
            seen = _seen(product.right, -2, product, known)
            place = InsertPoint.at_end(nest.body)
            word = insert(loops.LoadOp.build(seen, [*outer, k, column], nest.induction_variables), product.call, place)
            assert word is not None
        else:
            parts = [[*outer, k * words.count + part, column] for part in range(words.count)]
            word = _put_together(product.right, parts, nest, product)
        if words.parts == "i8":
            signs = insert(elem.constant(_SIGNS, i32), product.call, InsertPoint.at_end(nest.body))
            assert signs is not None
            turned = insert(elem.make("xor", word, signs), product.call, InsertPoint.at_end(nest.body))
            assert turned is not None
            word = turned
        known[key] = _stored(word, nest, product)
    return known[key]


def _in_order(row: sym.IndexExpr, k: sym.IndexExpr, turned: bool) -> tuple[sym.IndexExpr, sym.IndexExpr]:
    """The place of a word of the factor of rows."""
    return (k, row) if turned else (row, k)


def _rows(product: Product, words: Words, known: dict[object, SSAValue]) -> tuple[SSAValue, bool]:
    """The words of the factor of rows: as it lies; or a copy, which a nest makes with its rows side by side, and that
    it is turned.

    Shapes: [*batch, rows, points / count], turned [*batch, points / count, rows].
    """
    left = product.left
    if has_words(tensor_type_of(left), -1):
        return _seen(left, -1, product, known), False
    *batch, rows, points = sizes_of(tensor_type_of(left))
    assert isinstance(points, int)
    key = ("rows", words.parts, *_read_at(left))
    if key not in known:
        nest = _nest_of([*batch, points // words.count, rows], product)
        *outer, k, row = (sym.dim(axis) for axis in range(len(nest.sizes)))
        parts = [[*outer, row, k * words.count + part] for part in range(words.count)]
        known[key] = _stored(_put_together(left, parts, nest, product), nest, product)
    return known[key], True


def _sums_of_rows(product: Product, rows: SSAValue, turned: bool, known: dict[object, SSAValue]) -> SSAValue:
    """128 times the sum of each row of the factor of rows, which is given in words of bytes."""
    *outer, points = sizes_of(tensor_type_of(rows))
    if turned:
        outer[-1], points = points, outer[-1]
    if (key := ("sums", rows)) not in known:
        nest = _nest_of(outer, product)
        reduction = loops.ReduceOp.build("sum", [points], i32)
        inside = InsertPoint.at_end(reduction.body)
        axes = [*nest.induction_variables, *reduction.induction_variables]
        *batch, row, k = (sym.dim(axis) for axis in range(len(axes)))
        place = [*batch, *_in_order(row, k, turned)]
        word = insert(loops.LoadOp.build(rows, place, axes), product.call, inside)
        many = insert(elem.constant(_SIGNS, i32), product.call, inside)
        assert word is not None and many is not None
        several = insert(elem.DotOp.build("i8", many, word), product.call, inside)
        assert several is not None
        insert(loops.YieldOp.build(several), product.call, inside)
        total = insert(reduction, product.call, InsertPoint.at_end(nest.body))
        assert total is not None
        known[key] = _stored(total, nest, product)
    return known[key]


def _put_together(
    tensor: SSAValue, places: Sequence[Sequence[sym.IndexExpr]], nest: loops.NestOp, product: Product
) -> SSAValue:
    """Inserts, at the end of a nest, the word whose parts are the elements of a tensor at these places."""
    place, found = InsertPoint.at_end(nest.body), None
    bits = 32 // len(places)
    without_sign = IntegerType(bits, Signedness.UNSIGNED)
    for part, index in enumerate(places):
        source, index = through_views(tensor, index)
        index = [sym.simplify(e, nest.sizes) for e in index]
        value = insert(loops.LoadOp.build(source, index, nest.induction_variables), product.call, place)
        assert value is not None
        value = insert(elem.BitcastOp.build(value, without_sign), product.call, place)
        assert value is not None
        value = insert(elem.ConvertOp.build(value, i32), product.call, place)
        assert value is not None
        if part:
            by = insert(elem.constant(bits * part, i32), product.call, place)
            assert by is not None
            value = insert(elem.make("shl", value, by), product.call, place)
            assert value is not None
        found = value if found is None else insert(elem.make("or", found, value), product.call, place)
    assert found is not None
    return found


def _seen(tensor: SSAValue, axis: int, product: Product, known: dict[object, SSAValue]) -> SSAValue:
    """The words of a tensor as it lies."""
    axis += len(sizes_of(tensor_type_of(tensor)))
    if (key := ("words", axis, tensor)) not in known:
        op = loops.WordsOp.build(tensor, axis)
        op.location = product.call.location
        Rewriter.insert_op(op, InsertPoint.before(product.call))
        known[key] = op.result
    return known[key]


def _read_at(tensor: SSAValue) -> tuple[object, ...]:
    """What tells the elements of one tensor from those of another, however they are viewed."""
    source, index = through_views(tensor, [sym.dim(axis) for axis in range(len(sizes_of(tensor_type_of(tensor))))])
    return source, tuple(index), sizes_of(tensor_type_of(tensor))


def _nest_of(sizes: Sequence[sym.IndexExpr], product: Product) -> loops.NestOp:
    """A nest that gives a tensor of words of these sizes, an element at each point."""
    nest = loops.NestOp.build(sizes, [tensor_type(sizes, i32, device=product.device)])
    nest.location = product.call.location
    return nest


def _stored(word: SSAValue, nest: loops.NestOp, product: Product) -> SSAValue:
    """Ends a nest of `_nest_of`, and puts it before the call; gives its result."""
    dims = [sym.dim(axis) for axis in range(len(nest.sizes))]
    store = loops.StoreOp.build(word, nest.handles[0], dims, nest.induction_variables)
    insert(store, product.call, InsertPoint.at_end(nest.body))
    Rewriter.insert_op(nest, InsertPoint.before(product.call))
    return nest.results[0]


__all__ = ["Words", "has_words", "word_nest"]
