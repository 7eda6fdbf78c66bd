from __future__ import annotations

import pytest
import torch
from xdsl.utils.exceptions import VerifyException

from cuesta.targets.reference import InterpreterError, run
from cuesta.targets.reference import loops as reference_loops
from tests.support.tensors import run_tensors

SOFTMAX = """
func.func @main(%x : tensor<6x10xf32>) -> tensor<6x10xf32> {
  %y = loops.nest (%i : 6) outs(%o : tensor<6x10xf32>) {
    %m = loops.reduce maximum (%j : 10) {
      %a = loops.load %x[%i, %j] : tensor<6x10xf32>
      loops.yield %a : f32
    } : f32
    %d = loops.reduce sum (%k : 10) {
      %b = loops.load %x[%i, %k] : tensor<6x10xf32>
      %c = elem.sub %b, %m : f32
      %e = elem.exp %c : f32
      loops.yield %e : f32
    } : f32
    loops.for (%l : 10) {
      %f = loops.load %x[%i, %l] : tensor<6x10xf32>
      %g = elem.sub %f, %m : f32
      %h = elem.exp %g : f32
      %r = elem.div %h, %d : f32
      loops.store %r, %o[%i, %l] : tensor<6x10xf32>
    }
  }
  func.return %y : tensor<6x10xf32>
}
"""


def test_softmax(parse):
    x = torch.randn(6, 10)
    (y,) = run_tensors(parse(SOFTMAX), [x])
    torch.testing.assert_close(y, x.softmax(-1))


def test_softmax_in_chunks_is_the_same(parse, monkeypatch):
    x = torch.randn(6, 10)
    (whole,) = run_tensors(parse(SOFTMAX), [x])
    monkeypatch.setattr(reference_loops, "POINTS_PER_CHUNK", 20)
    (pieces,) = run_tensors(parse(SOFTMAX), [x])
    assert torch.equal(whole, pieces)


def test_precise_computes_in_float64(parse):
    x = torch.randn(6, 10)
    (y,) = run_tensors(parse(SOFTMAX), [x], precise=True)
    assert y.dtype is torch.float64
    torch.testing.assert_close(y, x.double().softmax(-1))


def test_precise_does_not_round_at_converts(nest):
    module = nest(
        "%x : tensor<3xbf16>",
        "tensor<3xbf16>",
        """
  %y = loops.nest (%i : 3) outs(%o : tensor<3xbf16>) {
    %a = loops.load %x[%i] : tensor<3xbf16>
    %b = elem.convert %a : bf16 to f32
    %c = elem.exp %b : f32
    %d = elem.convert %c : f32 to bf16
    loops.store %d, %o[%i] : tensor<3xbf16>
  }""",
    )
    x = torch.randn(3).bfloat16()
    assert torch.equal(run_tensors(module, [x])[0], x.float().exp().bfloat16())
    torch.testing.assert_close(run_tensors(module, [x], precise=True)[0], x.double().exp(), rtol=1e-15, atol=0)


REDUCE = """
  %y = loops.nest (%i : {rows}) outs(%o : tensor<{rows}x{type}>) {{
    %r = loops.reduce {kind} (%j : {a}, %k : {b}) {{
      %v = loops.load %x[%i, %j, %k] : tensor<{rows}x{a}x{b}x{type}>
      loops.yield %v : {type}
    }} : {type}
    loops.store %r, %o[%i] : tensor<{rows}x{type}>
  }}"""


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        ("sum", "f32", lambda x: x.sum((1, 2))),
        ("prod", "f32", lambda x: x.flatten(1).prod(1)),
        ("maximum", "f32", lambda x: x.amax((1, 2))),
        ("minimum", "f32", lambda x: x.amin((1, 2))),
        ("sum", "i64", lambda x: x.sum((1, 2))),
        ("maximum", "i32", lambda x: x.amax((1, 2))),
        ("any", "i1", lambda x: x.flatten(1).any(1)),
        ("all", "i1", lambda x: x.flatten(1).all(1)),
        ("maximum", "i1", lambda x: x.flatten(1).any(1)),
    ],
)
def test_reductions(nest, kind, dtype, expected):
    module = nest(
        f"%x : tensor<3x4x5x{dtype}>",
        f"tensor<3x{dtype}>",
        REDUCE.format(rows=3, a=4, b=5, type=dtype, kind=kind),
    )
    x = torch.randn(3, 4, 5)
    x = {"f32": x, "i64": (x * 10).long(), "i32": (x * 10).int(), "i1": x > 1}[dtype]
    (y,) = run_tensors(module, [x])
    torch.testing.assert_close(y, expected(x))


def test_maximum_propagates_nan(nest):
    module = nest(
        "%x : tensor<1x1x3xf32>", "tensor<1xf32>", REDUCE.format(rows=1, a=1, b=3, type="f32", kind="maximum")
    )
    assert run_tensors(module, [torch.tensor([[[1.0, float("nan"), 2.0]]])])[0].isnan().all()


@pytest.mark.parametrize(
    ("kind", "dtype", "identity"),
    [
        ("sum", "f32", 0.0),
        ("prod", "f32", 1.0),
        ("maximum", "f32", float("-inf")),
        ("minimum", "f32", float("inf")),
        ("maximum", "i8", -128),
        ("any", "i1", False),
        ("all", "i1", True),
    ],
)
def test_reduction_over_nothing_gives_the_identity(nest, kind, dtype, identity):
    module = nest(
        f"%x : tensor<2x0x5x{dtype}>", f"tensor<2x{dtype}>", REDUCE.format(rows=2, a=0, b=5, type=dtype, kind=kind)
    )
    x = torch.empty(2, 0, 5, dtype={"f32": torch.float32, "i8": torch.int8, "i1": torch.bool}[dtype])
    assert run_tensors(module, [x])[0].tolist() == [identity] * 2


ARG = """
  %y, %z = loops.nest (%i : {rows}) outs(%o : tensor<{rows}xf32>, %p : tensor<{rows}xi64>) {{
    %r, %n = loops.reduce {kind} (%j : {a}, %k : {b}) {{
      %v = loops.load %x[%i, %j, %k] : tensor<{rows}x{a}x{b}xf32>
      loops.yield %v : f32
    }} : f32, i64
    loops.store %r, %o[%i] : tensor<{rows}xf32>
    loops.store %n, %p[%i] : tensor<{rows}xi64>
  }}
  func.return %y, %z : tensor<{rows}xf32>, tensor<{rows}xi64>
"""


def arg_module(parse, kind, rows, a, b):
    body = ARG.format(kind=kind, rows=rows, a=a, b=b)
    signature = f"(%x : tensor<{rows}x{a}x{b}xf32>) -> (tensor<{rows}xf32>, tensor<{rows}xi64>)"
    return parse(f"func.func @main{signature} {{{body}}}")


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_argmax_takes_the_first_and_nan_first_of_all(parse, kind):
    nan = float("nan")
    x = torch.tensor([[[1.0, 3.0], [3.0, 1.0]], [[1.0, 7.0], [nan, nan]], [[-float("inf")] * 2] * 2])
    if kind == "argmin":
        x = -x
    values, indices = run_tensors(arg_module(parse, kind, 3, 2, 2), [x])
    assert indices.tolist() == [1, 2, 0]
    torch.testing.assert_close(values, x.flatten(1).gather(1, indices[:, None])[:, 0], equal_nan=True)


def test_of_several_nan_the_last_where_the_kind_says_so(parse):
    nan = float("nan")
    x = torch.tensor([[[1.0, 3.0], [3.0, 1.0]], [[nan, 7.0], [nan, 9.0]], [[-float("inf")] * 2] * 2, [[nan] * 2] * 2])
    values, indices = run_tensors(arg_module(parse, "argmax_last_nan", 4, 2, 2), [x])
    assert indices.tolist() == [1, 2, 0, 3]
    torch.testing.assert_close(values, x.flatten(1).gather(1, indices[:, None])[:, 0], equal_nan=True)


def test_welford(parse):
    module = parse(
        """
func.func @main(%x : tensor<4x50xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %z = loops.nest (%i : 4) outs(%o : tensor<4xf32>, %p : tensor<4xf32>) {
    %m, %s = loops.reduce welford (%j : 50) {
      %v = loops.load %x[%i, %j] : tensor<4x50xf32>
      loops.yield %v : f32
    } : f32, f32
    loops.store %m, %o[%i] : tensor<4xf32>
    loops.store %s, %p[%i] : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}"""
    )
    x = torch.randn(4, 50) + 100
    mean, squares = run_tensors(module, [x])
    torch.testing.assert_close(mean, x.double().mean(1).float())
    torch.testing.assert_close(squares, (x.double().var(1) * 49).float())


def test_masked_load_reads_nothing_out_of_range(nest):
    module = nest(
        "%x : tensor<3xf32>",
        "tensor<5xf32>",
        """
  %y = loops.nest (%i : 5) outs(%o : tensor<5xf32>) {
    %n = loops.index [%i - 1] : i64
    %zero = elem.constant 0 : i64
    %three = elem.constant 3 : i64
    %a = elem.ge %n, %zero : i64
    %b = elem.lt %n, %three : i64
    %c = elem.and %a, %b : i1
    %other = elem.constant 7.0 : f32
    %v = loops.load %x[%i - 1] if %c else %other : tensor<3xf32>
    loops.store %v, %o[%i] : tensor<5xf32>
  }""",
    )
    assert run_tensors(module, [torch.tensor([1.0, 2.0, 3.0])])[0].tolist() == [7.0, 1.0, 2.0, 3.0, 7.0]


GATHER = """
  %y = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {{
    %n = loops.load %n[%i] : tensor<3xi64>
    %b = loops.bound %n, 4{wrap} : i64
    %v = loops.load %x[%b] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<3xf32>
  }}"""


@pytest.mark.parametrize(("wrap", "indices"), [("", [3, 0, 3]), (" wrap", [-1, -4, 3])])
def test_gather(nest, wrap, indices):
    module = nest(
        "%x : tensor<4xf32>, %n : tensor<3xi64>",
        "tensor<3xf32>",
        GATHER.replace("%n = ", "%k = ").replace("bound %n", "bound %k").format(wrap=wrap),
    )
    x = torch.randn(4)
    assert torch.equal(run_tensors(module, [x, torch.tensor(indices)])[0], x[indices])


@pytest.mark.parametrize(("wrap", "index"), [("", 7), ("", -1), (" wrap", -5)])
def test_bound_raises_index_error(nest, wrap, index):
    module = nest(
        "%x : tensor<4xf32>, %n : tensor<3xi64>",
        "tensor<3xf32>",
        GATHER.replace("%n = ", "%k = ").replace("bound %n", "bound %k").format(wrap=wrap),
    )
    with pytest.raises(IndexError, match=f"index {index} is out of bounds for dimension with size 4"):
        run(module, [torch.randn(4), torch.tensor([0, index, 1])])


def test_symbolic_sizes(nest):
    type_ = "tensor<?x?xf32, #aten.layout<sizes = [s0, s1 * 2]>>"
    module = nest(
        f"%x : {type_}",
        "tensor<?xf32, #aten.layout<sizes = [s0 * s1 * 2]>>",
        f"""
  %y = loops.nest (%i : s0 * s1 * 2) outs(%o : tensor<?xf32, #aten.layout<sizes = [s0 * s1 * 2]>>) {{
    %v = loops.load %x[%i floordiv (s1 * 2), %i mod (s1 * 2)] : {type_}
    loops.store %v, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0 * s1 * 2]>>
  }}""",
        symbols="s0 in [2, 100], s1 in [0, inf]",
    )
    x = torch.randn(3, 8)
    assert torch.equal(run_tensors(module, [x])[0], x.flatten())
    assert run_tensors(module, [torch.empty(3, 0)])[0].shape == (0,)
    with pytest.raises(InterpreterError, match=r"s0 is 1, outside of its range \[2, 100\]"):
        run(module, [torch.randn(1, 8)])
    with pytest.raises(InterpreterError, match="no value"):
        run(module, [torch.randn(3, 7)])


def test_results_have_the_declared_strides(nest):
    type_ = "tensor<2x3xf32, #aten.layout<strides = [1, 2]>>"
    module = nest(
        f"%x : {type_}",
        type_,
        f"""
  %y = loops.nest (%i : 2, %j : 3) outs(%o : {type_}) {{
    %v = loops.load %x[%i, %j] : {type_}
    %w = elem.neg %v : f32
    loops.store %w, %o[%i, %j] : {type_}
  }}""",
    )
    x = torch.randn(3, 2).t()
    (y,) = run_tensors(module, [x])
    assert torch.equal(y, -x)
    assert y.stride() == (1, 2)
    with pytest.raises(InterpreterError, match="strides"):
        run(module, [x.contiguous()])


def test_views(nest):
    module = nest(
        "%x : tensor<4x8xf32>",
        "tensor<8x3x4xf32, #aten.layout<strides = [1, 0, 8]>>",
        """
  %y = loops.view %x by (d0, d1, d2) -> (d2, d0)
    : tensor<4x8xf32> to tensor<8x3x4xf32, #aten.layout<strides = [1, 0, 8]>>
""",
    )
    x = torch.randn(4, 8)
    (y,) = run_tensors(module, [x])
    assert torch.equal(y, x.t().unsqueeze(1).expand(8, 3, 4))
    assert y.stride() == (1, 0, 8)


def test_view_with_impossible_strides_is_refused(nest):
    module = nest(
        "%x : tensor<4xf32>",
        "tensor<4xf32, #aten.layout<strides = [0]>>",
        "%y = loops.view %x by (d0) -> (d0) : tensor<4xf32> to tensor<4xf32, #aten.layout<strides = [0]>>",
    )
    with pytest.raises(InterpreterError, match="differ share memory"):
        run(module, [torch.arange(4.0)])


def test_externs(nest):
    module = nest(
        "%x : tensor<4x8xf32>, %w : tensor<8x2xf32>",
        "tensor<4x2xf32>",
        '%y = loops.extern pure "aten.mm.default"(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>',
    )
    x, w = torch.randn(4, 8), torch.randn(8, 2)
    assert torch.equal(run_tensors(module, [x, w])[0], x @ w)


def test_a_point_reads_back_what_it_stored(nest):
    module = nest(
        "%x : tensor<3x4xf32>",
        "tensor<3x4xf32>",
        """
  %y = loops.nest (%i : 3) outs(%o : tensor<3x4xf32>) {
    loops.for (%j : 4) {
      %v = loops.load %x[%i, %j] : tensor<3x4xf32>
      loops.store %v, %o[%i, %j] : tensor<3x4xf32>
    }
    %s = loops.reduce sum (%k : 4) {
      %w = loops.load %o[%i, 3 - %k] : tensor<3x4xf32>
      loops.yield %w : f32
    } : f32
  }""",
    )
    x = torch.randn(3, 4)
    assert torch.equal(run_tensors(module, [x])[0], x)


def test_rank_0_and_zero_sizes(nest):
    module = nest(
        "%x : tensor<f32>",
        "tensor<f32>",
        """
  %y = loops.nest () outs(%o : tensor<f32>) {
    %v = loops.load %x[] : tensor<f32>
    loops.store %v, %o[] : tensor<f32>
  }""",
    )
    assert run_tensors(module, [torch.tensor(3.0)])[0].item() == 3.0
    module = nest(
        "%x : tensor<0x4xf32>",
        "tensor<0x4xf32>",
        """
  %y = loops.nest (%i : 0, %j : 4) outs(%o : tensor<0x4xf32>) {
    %v = loops.load %x[%i, %j] : tensor<0x4xf32>
    loops.store %v, %o[%i, %j] : tensor<0x4xf32>
  }""",
    )
    assert run_tensors(module, [torch.empty(0, 4)])[0].shape == (0, 4)


# -- what is refused --------------------------------------------------------------------------------------------------


def simple(nest, body, size="4"):
    return nest(
        "%x : tensor<4xf32>, %n : tensor<4xi64>",
        "tensor<4xf32>",
        f"%y = loops.nest (%i : {size}) outs(%o : tensor<4xf32>) {{{body}}}",
    )


INPUTS = [torch.arange(4.0), torch.tensor([0, 1, 2, 2])]


LOAD = "%v = loops.load %x[%i] : tensor<4xf32>\n"
STORE = "loops.store %v, %o[%i] : tensor<4xf32>\n"


@pytest.mark.parametrize(
    ("body", "size", "message"),
    [
        (LOAD.replace("%i", "%i + 1") + STORE, "4", r"loops.load: index 4 .* for axis 0 of size 4, at point \(3\)"),
        (LOAD.replace("%i", "%i - 1") + STORE, "4", "loops.load: index -1 is out of range"),
        (LOAD + STORE.replace("%i", "%i + 1"), "4", "loops.store: index 4 is out of range"),
        (LOAD + STORE.replace("%i", "%i floordiv 2"), "4", "two points of the domain store the element at offset 0"),
        (LOAD + STORE + STORE, "4", "offset 0 was already stored, by another store"),
        (LOAD + STORE, "3", r"out 0: the element at offset 3 is never stored \(1 of 4 are not\)"),
        (LOAD.replace("%x", "%o") + STORE, "4", "which nothing has stored yet"),
        (LOAD + STORE + "%w = loops.load %o[3 - %i] : tensor<4xf32>", "4", "which another point of the domain stored"),
        ("%k = loops.load %n[%i] : tensor<4xi64> %z = elem.trunc_div %k, %k : i64", "4", "divides an integer by zero"),
        ("%k = loops.index [%i + s9] : i64", "4", "the symbol s9, which has no value"),
    ],
)
def test_refused(nest, body, size, message):
    with pytest.raises(InterpreterError, match=message):
        run(simple(nest, body, size), INPUTS)


def test_second_store_is_refused_across_chunks(nest, monkeypatch):
    monkeypatch.setattr(reference_loops, "POINTS_PER_CHUNK", 1)
    body = "%v = loops.load %x[%i] : tensor<4xf32> loops.store %v, %o[%i floordiv 2] : tensor<4xf32>"
    with pytest.raises(InterpreterError, match="offset 0 was already stored, by another point"):
        run(simple(nest, body), INPUTS)
    body = """
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.store %v, %o[%i] : tensor<4xf32>
    %w = loops.load %o[max(%i - 1, 0)] : tensor<4xf32>"""
    with pytest.raises(InterpreterError, match="which another point of the domain stored"):
        run(simple(nest, body), INPUTS)


def test_points_of_an_inner_domain_are_independent(nest):
    module = nest(
        "%x : tensor<2x4xf32>",
        "tensor<2x4xf32>",
        """
  %y = loops.nest (%i : 2) outs(%o : tensor<2x4xf32>) {
    loops.for (%j : 4) {
      %v = loops.load %x[%i, %j] : tensor<2x4xf32>
      loops.store %v, %o[%i, %j] : tensor<2x4xf32>
      %w = loops.load %o[%i, max(%j - 1, 0)] : tensor<2x4xf32>
    }
  }""",
    )
    with pytest.raises(InterpreterError, match="which another point of the domain stored"):
        run(module, [torch.randn(2, 4)])


def test_a_store_that_ignores_an_axis_is_refused(nest):
    module = nest(
        "%x : tensor<4xf32>",
        "tensor<4xf32>",
        """
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %v = loops.load %x[%i] : tensor<4xf32>
    loops.for (%j : 2) {
      loops.store %v, %o[%i] : tensor<4xf32>
    }
  }""",
    )
    with pytest.raises(InterpreterError, match="two points of the domain store"):
        run(module, [torch.randn(4)])


def test_masked_store(nest):
    def module(first: str, second: str):
        return nest(
            "%x : tensor<4xf32>, %m : tensor<4xi1>",
            "tensor<4xf32>",
            f"""
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {{
    %c = loops.load %m[%i] : tensor<4xi1>
    %d = elem.not %c : i1
    %v = loops.load %x[%i] : tensor<4xf32>
    %w = elem.neg %v : f32
    loops.store %v, %o[%i] if {first} : tensor<4xf32>
    loops.store %w, %o[%i] if {second} : tensor<4xf32>
  }}""",
        )

    x, m = torch.randn(4), torch.tensor([True, False, True, False])
    assert torch.equal(run_tensors(module("%c", "%d"), [x, m])[0], torch.where(m, x, -x))
    with pytest.raises(InterpreterError, match="offset 0 was already stored, by another store"):
        run(module("%c", "%c"), [x, m])


def test_errors_name_the_line_of_the_model(parse):
    from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

    from cuesta.dialects import loops

    module = parse(SOFTMAX.replace("%x[%i, %j]", "%x[%i, %j + 1]"))
    load = next(op for op in module.walk() if isinstance(op, loops.LoadOp))
    load.location = FileLineColLoc(StringAttr("model.py"), IntAttr(42), IntAttr(7))
    with pytest.raises(InterpreterError, match=r"model.py:42:7  loops.load: index 10"):
        run(module, [torch.randn(6, 10)])


def test_inputs_are_checked(parse):
    module = parse(SOFTMAX)
    for inputs, message in [
        ([], "takes 1 inputs"),
        ([3], "3 is given"),
        ([torch.randn(6, 10).double()], "dtype torch.float64"),
        ([torch.randn(6, 11)], r"the size of axis 1 is 11, but its type says 10"),
        ([torch.randn(6)], "has 1 axes"),
    ]:
        with pytest.raises(InterpreterError, match=message):
            run(module, inputs)


def test_malformed_module_is_not_run(parse):
    from cuesta.dialects import loops

    module = parse(SOFTMAX)
    reduce = next(op for op in module.walk() if isinstance(op, loops.ReduceOp))
    terminator = reduce.body.last_op
    assert terminator is not None
    terminator.detach()
    with pytest.raises(VerifyException):
        run(module, [torch.randn(6, 10)])


def test_a_reduction_without_axes_has_one_point(nest):
    module = nest(
        "%x : tensor<3xf32>",
        "tensor<3xf32>",
        """
  %y = loops.nest (%i : 3) outs(%o : tensor<3xf32>) {
    %s = loops.reduce sum () {
      %v = loops.load %x[%i] : tensor<3xf32>
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i] : tensor<3xf32>
  }""",
    )
    x = torch.randn(3)
    assert torch.equal(run_tensors(module, [x])[0], x)
