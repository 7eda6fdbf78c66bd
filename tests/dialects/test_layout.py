from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, f32, i64
from xdsl.ir import Dialect
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from cuesta.dialects import layout, sym
from cuesta.dialects.sym import MapAttr, dim, symbol

d0, d1, s0, s1 = dim(0), dim(1), symbol("s0"), symbol("s1")


def parse(text: str) -> TensorType:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Dialect("aten", [], [layout.LayoutAttr]))
    result = Parser(context, text).parse_type()
    assert isinstance(result, TensorType)
    return result


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (layout.tensor_type((4, 8), f32), "tensor<4x8xf32>"),
        (layout.tensor_type((), i64), "tensor<i64>"),
        (layout.tensor_type((4, 8), f32, (8, 1)), "tensor<4x8xf32>"),
        (layout.tensor_type((4, 8), f32, (1, 4)), "tensor<4x8xf32, #aten.layout<strides = [1, 4]>>"),
        (layout.tensor_type((0, 3), f32, (3, 1)), "tensor<0x3xf32>"),
        (layout.tensor_type((2, 0), f32, (1, 1)), "tensor<2x0xf32>"),
        (layout.tensor_type((1, 3), f32, (1, 1)), "tensor<1x3xf32, #aten.layout<strides = [1, 1]>>"),
        (layout.tensor_type((4,), f32, None, "cuda:0"), 'tensor<4xf32, #aten.layout<device = "cuda:0">>'),
        (layout.tensor_type((s0, 8), f32, (8, 1)), "tensor<?x8xf32, #aten.layout<sizes = [s0, 8]>>"),
        (
            layout.tensor_type((s0, 256), f32, (1, s0), "cuda:0"),
            'tensor<?x256xf32, #aten.layout<sizes = [s0, 256], strides = [1, s0], device = "cuda:0">>',
        ),
    ],
)
def test_types_say_what_is_worth_saying_and_parse_back(t: TensorType, text: str):
    assert str(t) == text
    assert parse(text) == t


def test_equal_types_are_one_object():
    assert layout.tensor_type((4, 8), f32, (8, 1)) is layout.tensor_type((4, 8), f32)
    assert layout.tensor_type([s0], f32) is layout.tensor_type((s0,), f32)


def test_strides_must_fit():
    with pytest.raises(ValueError, match="2 sizes but 1 strides"):
        layout.tensor_type((4, 8), f32, (1,))


def test_unknown_fields_are_refused():
    with pytest.raises(ParseError, match="'stride' is not one of"):
        parse("tensor<4xf32, #aten.layout<stride = [1]>>")


def test_dynamic_sizes_must_be_named():
    with pytest.raises(ValueError, match="dynamic"):
        layout.sizes_of(parse("tensor<?xf32>"))


def test_accessors():
    t = layout.tensor_type((s0, 256), f32, (1, s0), "cuda:0")
    assert layout.sizes_of(t) == (s0, 256) and layout.strides_of(t) == (1, s0) and layout.device_of(t) == "cuda:0"
    plain = layout.tensor_type((2, 3), f32)
    assert layout.strides_of(plain) == (3, 1) and layout.device_of(plain) == "cpu"
    assert layout.strides_of(layout.tensor_type((s0, s1, 4), f32)) == (s1 * 4, 4, 1)


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 0, 3), (1, 1), (4, 1, 5)])
def test_contiguous_strides_are_those_of_torch(shape: tuple[int, ...]):
    torch = pytest.importorskip("torch")
    assert layout.contiguous_strides(shape) == torch.empty(shape).stride()


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((4, 8), None, True),
        ((4, 8), (1, 4), False),
        ((1, 3), (1, 1), True),
        ((3, 1), (1, 7), True),
        ((0, 3), (1, 9), True),
        ((s0, 4), (4, 1), True),
        ((s0, 4), (1, s0), False),
        ((4, 8), (16, 1), False),
    ],
)
def test_is_contiguous(sizes: tuple[sym.IndexExpr, ...], strides: tuple[sym.IndexExpr, ...] | None, expected: bool):
    assert layout.is_contiguous(layout.tensor_type(sizes, f32, strides)) is expected


def test_counts():
    assert layout.element_count(layout.tensor_type((), f32)) == 1
    assert layout.element_count(layout.tensor_type((s0, 4), f32)) == s0 * 4
    assert layout.storage_size(layout.tensor_type((4, 8), f32, (16, 1))) == 56
    assert layout.storage_size(layout.tensor_type((4, 0), f32)) == 0
    assert layout.storage_size(layout.tensor_type((3, 4), f32, (0, 1))) == 4
    assert layout.storage_size(layout.tensor_type((s0, 4), f32)) == s0 * 4


SOURCE = layout.tensor_type((8, 20), f32)


@pytest.mark.parametrize(
    ("results", "sizes", "expected"),
    [
        ((d0, d1), (8, 20), ((20, 1), 0)),
        ((d1, d0 * 2 + 1), (9, 8), ((2, 20), 1)),
        ((3, d0), (20,), ((1,), 60)),
        ((d0, 0), (8, 5), ((20, 0), 0)),
        ((d0 // 20, d0 % 20), (160,), ((1,), 0)),
        ((d0, d1 * 5 + dim(2)), (8, 4, 5), ((20, 5, 1), 0)),
        ((d0, d1), (1, 20), ((0, 1), 0)),
    ],
)
def test_strided_views(results: tuple[sym.IndexExpr, ...], sizes: tuple[int, ...], expected: object):
    assert layout.strided_view(MapAttr.get(len(sizes), results), SOURCE, sizes) == expected


@pytest.mark.parametrize(
    ("results", "sizes"),
    [
        ((d0 // 2, d0 % 2), (16,)),  # rows are cut: not linear
        ((-d0 + 7, d1), (8, 20)),  # a flip has a negative stride
        ((d0 * d1, 0), (2, 3)),
        ((d0 % 3, d1), (8, 20)),
    ],
)
def test_views_that_strides_cannot_say(results: tuple[sym.IndexExpr, ...], sizes: tuple[int, ...]):
    assert layout.strided_view(MapAttr.get(len(sizes), results), SOURCE, sizes) is None


def test_a_reshape_of_a_transposed_tensor_is_no_view():
    source = layout.tensor_type((8, 20), f32, (1, 8))
    linear = MapAttr.get(1, sym.delinearize(d0, (8, 20)))
    assert layout.strided_view(linear, source, (160,)) is None


def test_symbolic_strided_view():
    source = layout.tensor_type((s0, 4, s1), f32)
    merge = MapAttr.get(2, (d0 // 4, d0 % 4, d1))
    assert layout.strided_view(merge, source, (s0 * 4, s1)) == ((s1, 1), 0)


def test_a_reshape_of_strides_that_are_symbols_is_a_view():
    """The sizes of what is read are positive, too: the divisions of a reshape need it."""
    step, s2 = symbol("s9"), symbol("s2")
    source = layout.tensor_type((s0, s1, s2), f32, (s1 * s2 * step, s2 * step, step))
    flat = MapAttr.get(1, sym.delinearize(d0, (s0, s1, s2)))
    assert layout.strided_view(flat, source, (s0 * s1 * s2,)) == ((step,), 0)
    gaps = layout.tensor_type((s0, s1, s2), f32, (s1 * s2 * 2 * step, s2 * step, step))
    assert layout.strided_view(flat, gaps, (s0 * s1 * s2,)) is None
