from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Builtin, StringAttr
from xdsl.parser import Parser

from cuesta.dialects import aten, sym
from cuesta.dialects.aten import ATEN, CallLike, CallOp, LiteralOp
from cuesta.dialects.core.entry import entry_block, entry_function, written_arguments
from cuesta.dialects.core.locations import print_text, source_lines
from cuesta.dialects.func import FUNC
from cuesta.dialects.layout import device_of, sizes_of, strides_of, tensor_type_of
from cuesta.lowering.capture.fx_to_aten import ImportedGraph, UnsupportedGraphError, import_graph


def check(graph: ImportedGraph) -> ImportedGraph:
    """Verifies the program, and that its text reads back as the same program."""
    graph.module.verify()
    text = print_text(graph.module)
    context = Context()
    for dialect in (Builtin, FUNC, sym.SYM, ATEN):
        context.load_dialect(dialect)
    assert print_text(Parser(context, text).parse_module()) == text
    return graph


def trace(function: Callable[..., Any], *inputs: Any, symbolic: bool = False) -> ImportedGraph:
    mode = "symbolic" if symbolic else "fake"
    return check(import_graph(make_fx(function, tracing_mode=mode)(*inputs)))


def compiled(function: Callable[..., Any], *inputs: Any, backward: bool = False, **options: Any) -> list[ImportedGraph]:
    """The graphs that a backend behind torch.compile and AOTAutograd gets."""
    graphs: list[ImportedGraph] = []

    def compiler(gm: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(check(import_graph(gm)))
        return make_boxed_func(gm.forward)

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    result = torch.compile(function, backend=backend, fullgraph=True, **options)(*inputs)
    if backward:
        first = result[0] if isinstance(result, tuple) else result
        first.sum().backward()
    return graphs


def calls(graph: ImportedGraph) -> list[CallLike]:
    return [op for op in graph.module.walk() if isinstance(op, CallLike)]


def call_of(graph: ImportedGraph, overload: str) -> CallLike:
    (found,) = [op for op in calls(graph) if op.overload == overload]
    return found


def returned(graph: ImportedGraph) -> Any:
    (function,) = graph.module.body.ops
    return function.regions[0].block.last_op


@pytest.mark.slow
def test_forward_and_backward():
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    forward, backward = compiled(model, torch.randn(2, 8), backward=True)
    assert [call.overload for call in calls(forward)][:2] == ["aten.t.default", "aten.addmm.default"]
    assert "aten.threshold_backward.default" in [call.overload for call in calls(backward)]
    assert forward.inputs == ("tensor",) * 5
    assert forward.constants == ()


def test_types_say_strides_dtype_and_device():
    def function(x: torch.Tensor) -> Any:
        return x.t(), x.to(torch.bfloat16), (x > 0), x.to(memory_format=torch.contiguous_format).to(torch.complex64)

    graph = trace(function, torch.randn(4, 6))
    types = [str(operand.type) for operand in returned(graph).operands]
    assert types == [
        "tensor<6x4xf32, #aten.layout<strides = [1, 6]>>",
        "tensor<4x6xbf16>",
        "tensor<4x6xi1>",
        "tensor<4x6xcomplex<f32>>",
    ]
    meta = trace(lambda x: x + 1, torch.randn(2, device="meta"))
    assert device_of(returned(meta).operands[0].type) == "meta"


@pytest.mark.parametrize(
    ("make", "strides"),
    [
        (lambda: torch.tensor(3.0), ()),
        (lambda: torch.empty(0, 3), (3, 1)),
        (lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), (60, 1, 15, 3)),
        (lambda: torch.randn(4).expand(3, 4), (0, 1)),
        (lambda: torch.randn(8, 8)[::2, ::3], (16, 3)),
    ],
)
def test_layouts_of_inputs(make: Callable[[], torch.Tensor], strides: tuple[int, ...]):
    x = make()
    graph = trace(lambda x: x.clone(), x)
    (function,) = graph.module.body.ops
    (argument,) = function.regions[0].block.args
    argument_type = tensor_type_of(argument)
    assert sizes_of(argument_type) == tuple(x.shape)
    assert strides_of(argument_type) == strides


def test_optional_tensors_in_lists():
    graph = trace(lambda x, i: x[:, i], torch.randn(3, 4), torch.tensor([1, 2]))
    index = call_of(graph, "aten.index.Tensor")
    assert index.tensors("indices") == (None, index.operands[1])


def test_constant_arguments():
    def function(x: torch.Tensor) -> Any:
        y = torch.full((2,), math.inf, dtype=torch.float64, device="cpu")
        z = torch.ops.aten.nan_to_num.default(x, math.nan, -0.0, -math.inf)
        w = torch.ops.aten.gelu.default(x, approximate="tanh")
        c = x.clone(memory_format=torch.contiguous_format)
        return y, z, w, c, x * 2j

    graph = trace(function, torch.randn(4))
    full = call_of(graph, "aten.full.default")
    assert full.argument("fill_value") == math.inf
    assert full.dtype() == "float64"
    assert full.argument("device") == aten.Device("cpu")
    text = print_text(graph.module)
    assert ", nan, -0.0, -inf) : " in text
    assert call_of(graph, "aten.gelu.default").string("approximate") == "tanh"
    assert "memory_format = torch.contiguous_format" in text
    assert "complex(0.0, 2.0)" in text and "tensor<4xcomplex<f32>>" in text


def test_lists_of_results_are_flattened():
    def function(x: torch.Tensor) -> Any:
        a, b, c = torch.ops.aten.split.Tensor(x, 2)
        found = torch.ops.aten._amp_foreach_non_finite_check_and_unscale.default([a, b], a.new_zeros(()), a[0])
        values, indices = torch.ops.aten.topk.default(x, 2)
        return a, c, found[0][1], indices, values

    graph = trace(function, torch.randn(6))
    split = call_of(graph, "aten.split.Tensor")
    several = call_of(graph, "aten._amp_foreach_non_finite_check_and_unscale.default")
    topk = call_of(graph, "aten.topk.default")
    assert (len(split.results), len(several.results)) == (3, 3)
    assert several.tensors("self") == (split.results[0], split.results[1])
    expected = [split.results[0], split.results[2], several.results[1], topk.results[1], topk.results[0]]
    assert list(returned(graph).operands) == expected


def test_operators_of_lists_are_those_of_each_tensor():
    """Also where an argument is given by name; each call is where the model's is, with the type of its own result."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.ops.aten._foreach_add.List([x, y], [y, y], alpha=2)
        b = torch.ops.aten._foreach_lerp.ScalarList(a, [x, x], weight=[0.25, 0.75])
        return torch.ops.aten._foreach_norm.Scalar(b, dtype=torch.float64)

    graph = trace(function, torch.randn(3), torch.randn(2, 1))
    assert [call.overload for call in calls(graph)] == [
        *("aten.add.Tensor",) * 2,
        *("aten.lerp.Scalar",) * 2,
        *("aten.linalg_vector_norm.default",) * 2,
    ]
    first, second, third, fourth, *norms = calls(graph)
    assert (second.tensor("other"), second.argument("alpha")) == (entry_block(graph.module).args[1], 2)
    assert (third.tensor("self"), fourth.tensor("self")) == (first.results[0], second.results[0])
    assert (third.argument("weight"), fourth.argument("weight")) == (0.25, 0.75)
    assert [str(call.results[0].type) for call in (first, second, *norms)] == [
        "tensor<2x3xf32>",
        "tensor<2x1xf32>",
        "tensor<f64>",
        "tensor<f64>",
    ]
    assert list(returned(graph).operands) == [call.results[0] for call in norms]


def test_undefined_results_are_literals():
    x = torch.randn(1, 3, 8, 8)
    _, backward = compiled(torch.nn.Conv2d(3, 4, 3), x, backward=True)
    convolution = call_of(backward, "aten.convolution_backward.default")
    assert [str(result.type)[:6] for result in convolution.results] == ["!aten.", "tensor", "tensor"]
    assert backward.outputs == ("tensor", "tensor", "literal")


def test_outputs_of_every_kind():
    def function(x: torch.Tensor) -> Any:
        y = x + 1
        return y, x, y, None, 3, 2.5, None, True

    gm = make_fx(function, tracing_mode="fake")(torch.randn(4))
    # make_fx drops what is no tensor; AOTAutograd keeps it.
    (output,) = [node for node in gm.graph.nodes if node.op == "output"]
    tensors = [argument for argument in output.args[0] if isinstance(argument, torch.fx.Node)]
    output.args = ([*tensors[:3], None, 3, 2.5, None, True],)
    graph = check(import_graph(gm))
    assert graph.outputs == ("tensor",) * 3 + ("literal",) * 5
    operands = returned(graph).operands
    assert operands[0] is operands[2] and operands[3] is operands[6]
    assert [op.value for op in graph.module.walk() if isinstance(op, LiteralOp)] == [None, 3, 2.5, True]


def test_constants_become_trailing_arguments():
    table = torch.arange(4)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + table + torch.tensor(2)

    gm = make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(torch.randn(4))
    graph = check(import_graph(gm))
    assert len(graph.constants) == 2 and graph.inputs == ("tensor",)
    assert any(tensor is table for _, tensor in graph.constants)
    (entry,) = graph.module.body.ops
    assert entry.attributes["aten.constants"] == ArrayAttr([StringAttr(name) for name, _ in graph.constants])
    assert len(entry.regions[0].block.args) == 3


def test_unknown_overloads_are_calls():
    with torch.library._scoped_library("cuesta_test", "FRAGMENT") as library:
        library.define("twice(Tensor x, str mode, *, Tensor? other=None) -> (Tensor, Tensor)")
        library.impl("twice", lambda x, mode, other=None: (x + x, x.clone()), "CompositeExplicitAutograd")
        graph = trace(lambda x: torch.ops.cuesta_test.twice(x, "fast", other=x)[1], torch.randn(3))
    call = call_of(graph, "cuesta_test::twice.default")
    assert isinstance(call, CallOp)
    x = call.operands[0].name_hint
    assert f'aten.call "cuesta_test::twice.default"(%{x}, "fast", other = %{x}) : ' in print_text(graph.module)
    assert len(call.results) == 2 and returned(graph).operands[0] is call.results[1]


def test_prims_are_calls_with_a_schema():
    graph = trace(lambda x: torch.ops.prims.convert_element_type.default(x, torch.float16), torch.randn(3))
    call = call_of(graph, "prims::convert_element_type.default")
    assert call.dtype() == "float16" and call.tensor("a") is call.operands[0]


@pytest.mark.slow
def test_symbolic_sizes_through_torch_compile():
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.cat([x, y]).reshape(-1, 2)
        return z, x.shape[0], x.shape[0] * 2 + 1, x.new_zeros(x.shape[0] // 3 + 1)

    (graph,) = compiled(function, torch.randn(6, 4), torch.randn(5, 4), dynamic=True)
    (entry,) = graph.module.body.ops
    symbols = entry.attributes["sym.symbols"]
    assert isinstance(symbols, sym.SymbolsAttr)
    assert len(symbols.names) == 3 and symbols.names == tuple(sorted(symbols.names))
    assert symbols.ranges.keys() == set(symbols.names)
    assert all(low is not None and low >= 2 and high is None for low, high in symbols.ranges.values())
    assert graph.inputs.count("integer") == 3 and graph.inputs.count("tensor") == 2
    assert "integer" in graph.outputs
    zeros = call_of(graph, "aten.new_zeros.default")
    (size,) = sizes_of(tensor_type_of(zeros.results[0]))
    assert isinstance(size, sym.Expr) and sym.evaluate(size, [], dict.fromkeys(symbols.names, 7)) == 3
    assert zeros.indices("size") == (size,)
    # Arithmetic on sizes leaves no ops behind.
    assert all(isinstance(op, aten.AtenOp) for op in calls(graph))
    assert graph.untold == frozenset()


def test_sizes_that_depend_on_data():
    gm = make_fx(lambda x: x.nonzero() * 2, tracing_mode="symbolic", _allow_non_fake_inputs=True)(torch.randn(4))
    graph = check(import_graph(gm))
    assert graph.untold == {"u0"}
    assert sym.symbol("u0") in sizes_of(returned(graph).operands[0].type)


def test_higher_order_operators_are_refused():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    gm = make_fx(function, tracing_mode="fake")(torch.randn(3))
    with pytest.raises(UnsupportedGraphError, match="cond: a higher-order operator"):
        import_graph(gm)


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13),
    reason="AOTAutograd drops the check, for every backend (`aot_eager`, too)",
)
def test_calls_with_effects_are_calls():
    """The check after a factorisation is an effect, which AOTAutograd ties to a token."""
    (graph,) = compiled(torch.linalg.cholesky, torch.eye(3))
    factorise = call_of(graph, "aten.linalg_cholesky_ex.default")
    checked = call_of(graph, "aten._linalg_check_errors.default")
    assert tuple(checked.operands) == (factorise.results[1],)
    assert checked.argument("api_name") == "linalg.cholesky"
    token = entry_block(graph.module).args[0]
    assert tuple(returned(graph).operands) == (token, factorise.results[0])


def test_sparse_tensors_are_refused():
    with pytest.raises(UnsupportedGraphError, match=r"tensors with layout torch\.sparse_coo are left to eager"):
        trace(lambda x: x.to_sparse(), torch.eye(3))


def test_missing_metadata_and_foreign_calls_are_refused():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.randn(3)
    y = graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.output((y,))
    gm = torch.fx.GraphModule({}, graph)
    with pytest.raises(UnsupportedGraphError, match=r"aten\.relu\.default: has no fake-tensor metadata"):
        import_graph(gm)
    y.target = operator.neg
    y.meta["val"] = torch.randn(3)
    with pytest.raises(UnsupportedGraphError, match="is not an ATen overload"):
        import_graph(gm)


class Doubler(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)  # location: linear
        return y.tanh()  # location: tanh


def line_of(mark: str) -> int:
    with open(__file__) as source:
        return next(number for number, text in enumerate(source, 1) if text.rstrip().endswith(f"# location: {mark}"))


def test_ops_know_the_models_line():
    forward, backward = compiled(Doubler(), torch.randn(2, 3), backward=True)
    assert list(source_lines(call_of(forward, "aten.tanh.default").location)) == [(__file__, line_of("tanh"))]
    # The linear layer's own frame is inside torch: the line that calls it is the model's.
    assert list(source_lines(call_of(forward, "aten.addmm.default").location)) == [(__file__, line_of("linear"))]
    tanh_backward = call_of(backward, "aten.tanh_backward.default")
    assert list(source_lines(tanh_backward.location)) == [(__file__, line_of("tanh"))]


def test_refusals_name_the_models_line():
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=1.3)  # location: float

    expected = rf"test_fx_to_aten.py:{line_of('float')}  aten.*: TruncToInt of a symbolic float"
    with pytest.raises(BackendCompilerFailed, match=expected):
        compiled(function, torch.ones(1, 2, 5, 8), dynamic=True)


@pytest.mark.slow
def test_cost_is_linear_and_small():
    import time

    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(300):
            x = torch.relu(x * 2 + 1)
        return x

    gm = make_fx(function, tracing_mode="fake")(torch.randn(8))
    import_graph(gm)
    best = min(_timed(import_graph, gm, time.perf_counter) for _ in range(5))
    assert best / len(gm.graph.nodes) < 200e-6  # 25 µs on a quiet machine


def _timed(function: Callable[..., Any], argument: Any, clock: Callable[[], float]) -> float:
    start = clock()
    function(argument)
    return clock() - start


def writing(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    total, negated = x + y, -y
    kept = torch.ops.aten.copy_.default(y, total)
    torch.ops.aten.copy_.default(x, negated)
    return kept.exp(), kept


def test_copies_into_inputs_are_results_for_them():
    module = import_graph(make_fx(writing, tracing_mode="fake")(torch.ones(3), torch.ones(3))).module
    main = entry_function(module)
    assert written_arguments(main) == (1, 0)
    add, neg, exp, end = main.regions[0].block.ops
    x, y = main.regions[0].block.args
    assert [op.name for op in (add, neg, exp)] == ["aten.add.Tensor", "aten.neg.default", "aten.exp.default"]
    assert exp.operands[0] is add.results[0], "what reads the copy reads the value"
    assert list(end.operands) == [exp.results[0], y, add.results[0], neg.results[0]]
    assert x not in end.operands


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: torch.ops.aten.copy_.default(x + 1, y), "writes to what is not an input"),
        (lambda x, y: torch.ops.aten.copy_.default(x, y.double()), "writes a tensor of another type or size"),
        (lambda x, y: torch.ops.aten.copy_.default(x, y[:1]), "writes a tensor of another type or size"),
        (
            lambda x, y: torch.ops.aten.copy_.default(torch.ops.aten.copy_.default(x, y), y),
            "writes to what is not an input",
        ),
    ],
)
def test_other_writes_are_refused(function: Callable[..., Any], message: str):
    with pytest.raises(UnsupportedGraphError, match=message):
        import_graph(make_fx(function, tracing_mode="fake")(torch.ones(3), torch.ones(3)))
