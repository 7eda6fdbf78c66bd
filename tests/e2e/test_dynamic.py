"""Symbolic sizes: one program for many sizes, odd ones and 1 included; sizes that depend on data are never wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn, rand, randn
from torch.nn import functional as F

import cuesta
from tests.support.differential import check_call, compiled_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


def check_sizes(
    function: Callable[..., Any], inputs_of: Callable[[int], tuple[Any, ...]], sizes: tuple[int, ...] = (4, 7, 33)
) -> None:
    """One program for all sizes but 1, each as eager. (A graph that ran in eager would warn: an error in tests.)"""
    compiled = compiled_of(function, dynamic=True)
    graphs: set[int] = set()
    for size in sizes:
        check_call(compiled, function, *inputs_of(size), unit_strides=False)
        if size > 1:
            graphs.add(len([record for record in cuesta.records if record.kind != "backward"]))
    assert len(graphs) <= (2 if 1 in sizes else 1), "another size was compiled again"


def test_perceptron() -> None:
    check_sizes(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)), lambda n: (randn(n, 6),), (4, 7, 1, 33))


def test_reductions_and_softmax() -> None:
    def function(x: Tensor) -> tuple:
        softmaxes = (F.softmax(x, -1), F.log_softmax(x, 0))
        return *softmaxes, x.sum(), x.mean(1), x.max(0), x.var(1), x.argmax(), x.logsumexp(0), x.any(1), x.norm()

    check_sizes(function, lambda n: (randn(n, n + 3),), (4, 7, 1, 65, 130))


def test_whole_reductions() -> None:
    """Sizes below, at and beyond the parts into which they are cut, and no multiples of them."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.sum(), (x * x).mean(), x.amax(), x.min(), (x > 3).any(), (x < 9).all(), (x > 0).sum()

    check_sizes(function, lambda n: (randn(n),), (5, 4096, 10007, 8191))
    check_sizes(function, lambda n: (randn(n, 700),), (3, 5, 64, 131))
    check_sizes(function, lambda n: (randn(n, n + 3),), (7, 8, 67))


def test_slices_whose_symbolic_start_has_either_sign() -> None:
    """`x[-n:]` with a symbolic n begins at n from the end, but for n = 0 at the start, where it is all of x."""
    compiled = compiled_of(function := lambda x, n: x[:, slice(-n, None)] * 2, dynamic=True)
    for n, size in ((0, 5), (0, 8), (3, 8), (2, 9), (-2, 7)):
        x = randn(4, size)
        assert torch.equal(compiled(x, n), function(x, n))


def test_layer_norm() -> None:
    check_sizes(lambda x: F.layer_norm(x, (x.shape[-1],)), lambda n: (randn(n, 2 * n + 1),), (5, 9, 1, 40))


def test_attention() -> None:
    model = nn.MultiheadAttention(8, 2, batch_first=True)

    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = model

        def forward(self, x: Tensor) -> Tensor:
            return self.attention(x, x, x, need_weights=False)[0]

    check_sizes(SelfAttention(), lambda n: (randn(2, n, 8, requires_grad=True),), (5, 9, 16))


def test_scaled_dot_product_attention() -> None:
    def function(q: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        causal = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return causal, F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    check_sizes(function, lambda n: (randn(2, 2, n, 8, requires_grad=True), randn(n, n)), (5, 9, 1, 16))


def test_joining_and_padding() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        joined = (torch.cat([x, y]), torch.cat([x, x * 2, y + 1]), torch.stack([x, x], 1))
        return *joined, F.pad(x, (1, 2)), x.repeat(2, 1), F.pad(x, (0, 0, 1, x.shape[0]))

    check_sizes(function, lambda n: (randn(n, 3), randn(2 * n + 1, 3)), (4, 7, 1, 10))


def test_reshapes() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        views = (
            x.view(x.shape[0] * x.shape[1], -1) * 2,
            x.reshape(-1),
            x.flatten(1).t() + 1,
            x.unflatten(2, (2, 3)) + 1,
        )
        copies = (x.transpose(1, 2).reshape(x.shape[0], -1), x.permute(2, 0, 1).contiguous(), x.expand(2, *x.shape) * 1)
        return *views, *copies, x[:, x.shape[1] // 2 :], x.split(x.shape[0] - 1)[0].sin(), x.chunk(2, 0)[0] * 2

    check_sizes(function, lambda n: (randn(n, n + 1, 6),), (4, 7, 9))


def test_arithmetic_on_sizes() -> None:
    def function(x: Tensor) -> tuple[Any, ...]:
        rows, columns = x.shape
        numbers = (rows * 2 + 1, columns // 2, x.numel(), rows / 2, rows % 3, max(rows, columns))
        scaled = (x.sum() / rows, x * columns, x * (1 / rows), x.double() * (rows / 3), x.bfloat16() * (2.5 / columns))
        made = (torch.arange(rows), torch.zeros(rows + 1, 3), torch.full((2,), columns), torch.ones(rows, rows).tril())
        return *numbers, *scaled, *made, x + torch.arange(columns), x[:, : columns // 2]

    check_sizes(function, lambda n: (randn(n, n + 3),), (4, 7, 12))


def test_indexing() -> None:
    def function(x: Tensor, i: Tensor) -> tuple:
        read = (x[i], F.embedding(i, x), x.gather(0, i[:, None].expand(-1, x.shape[1])), x.index_select(0, i))
        return *read, x.cumsum(0), x.sort(0), x.topk(2, 0), x.flip(0), x.roll(1, 0), x[-1]

    check_sizes(function, lambda n: (randn(n, 3), torch.randint(0, n, (n + 1,))), (4, 7, 12))


def test_layouts() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        turned = (x + 1, x.t() * 2, x.sum(0), x.contiguous(), torch.cat([x, x]), x.t().reshape(-1))
        return *turned, y + 1, y[1:] * 2, y[::2].sum(0), y[:-1].t().contiguous(), y.narrow(0, 1, 2)

    check_sizes(function, lambda n: (randn(n + 2, n).t(), randn(n + 2, n + 4)[1:, 2:]), (4, 7, 5))


@pytest.mark.parametrize("channels_last", [False, True])
def test_convolution_and_batch_norm(channels_last: bool) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    model.to(memory_format=memory_format).train(not channels_last)  # pyright: ignore[reportCallIssue]  # torch's stubs
    check_sizes(model, lambda n: (randn(n, 3, n + 3, 8).to(memory_format=memory_format),), (4, 7, 5))


def test_training() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    check_sizes(model, lambda n: (randn(n, 6, requires_grad=True),), (4, 7, 33))
    check_sizes(F.cross_entropy, lambda n: (randn(n, 9, requires_grad=True), torch.arange(n) % 9))


def test_numbers_that_vary() -> None:
    compiled = compiled_of(function := lambda x, scale, count: (x * scale, x + count, x.repeat(count)), dynamic=True)
    for count in (4, 7, 5):
        check_call(compiled, function, randn(3), count * 0.5, count)


def test_a_loop_over_a_size() -> None:
    def function(x: Tensor) -> Tensor:
        for step in range(x.shape[0] % 3):
            x = x + step
        return x

    compiled = compiled_of(function, dynamic=True)
    for size in (4, 7, 5, 9):
        check_call(compiled, function, randn(size, 5))


def test_mark_dynamic() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        return F.relu(x @ weight).sum(1)

    compiled, weight = compiled_of(function), randn(5, 6)
    for size in (3, 8, 2, 100):
        x = randn(size, 5)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x, weight), function(x, weight))
    assert len(cuesta.records) == 1


def test_sizes_become_symbolic_by_themselves() -> None:
    compiled = compiled_of(function := lambda x: F.gelu(x).mean(-1))
    for size in (4, 5, 6, 1, 0, 8):
        check_call(compiled, function, randn(size, 6))
    assert len(cuesta.records) == 4  # 4, any, 1 and 0


def test_a_returned_view_whose_strides_nobody_can_simplify() -> None:
    """The strides say `(a * b) floordiv c`, which is a whole number only because of a guard."""
    compiled = compiled_of(function := lambda x: torch.linalg.tensorinv(x, ind=2), dynamic=True)
    for sizes in ((2, 6, 4, 3), (4, 6, 8, 3), (3, 4, 2, 6)):
        x = randn(*sizes)
        actual, expected = compiled(x), function(x)
        assert actual.stride() == expected.stride()
        assert torch.equal(actual, expected)


@pytest.fixture
def _capture_data_dependent_sizes() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield


@pytest.mark.usefixtures("_capture_data_dependent_sizes")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x.nonzero() + 1,
        lambda x, n: x[x > 0.5] * 2,
        lambda x, n: torch.masked_select(x, x > 0.5).sum(),
        lambda x, n: torch.zeros(n.item() + 1) + 1,
        lambda x, n: x * n.item(),
    ],
)
def test_sizes_that_depend_on_data(function: Callable[..., Any]) -> None:
    compiled = compiled_of(function)
    for n in (3, 6):
        check_call(compiled, function, rand(4, 5), torch.tensor(n))
    assert any(record.kernels for record in cuesta.records)


def test_a_size_that_only_a_guard_holds_to_one_is_broadcast() -> None:
    """(s0 - 1) // 3 + 1 of 2 rows is 1, and was 1 when the graph was captured; of 4 rows it is 2, and another graph."""
    torch._dynamo.reset()
    compiled = compiled_of(function := lambda x: torch.minimum(x.unfold(1, 1, 3), x) * 2, dynamic=True)
    for size in (2, 3, 2):
        check_call(compiled, function, torch.randn(size, size, 1), unit_strides=False)


# -- sizes that no input tells alone -----------------------------------------------------------------------------------


def graph_of_a_sum(function: Callable[..., Any], *others: Tensor) -> Any:
    """The graph of a function of a tensor with s0 + s1 elements, which no input tells alone, as in the backward pass of
    a tensor subclass: torch 2.11 gives the sizes of a subclass and of its parts symbols of their own.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    mode = FakeTensorMode(shape_env=ShapeEnv())
    dynamic: Any = StatelessSymbolicContext([DimDynamic.DYNAMIC])
    parts = [mode.from_tensor(randn(n), symbolic_context=dynamic) for n in (5, 7)]
    with mode:
        whole = torch.cat(parts)
    return make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(whole, *others)


def compiled_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    from cuesta.backend import Compilers
    from cuesta.options import Options

    boxed = Compilers(Options.parse()).of("inference")(graph_of_a_sum(function), [])
    return lambda x: boxed([x])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 2 + x.sum(),),
        lambda x: (torch.cat([x, x.new_ones(x.shape[0] // 2)])[3:].cumsum(0),),
        lambda x: (x.unsqueeze(0).expand(3, -1).reshape(-1)[: x.shape[0] * 2] * x.shape[0],),
        lambda x: ((x * 2)[x > 0].exp(), x.sin() + 1),
        lambda x: (x.sum() / (x.shape[0] ** 0.5),),
    ],
    ids=["arithmetic", "sizes", "views", "pieces", "a float"],
)
def test_a_sum_of_sizes_is_told(function: Callable[..., Any]) -> None:
    compiled = compiled_graph(function)
    for size in (12, 9, 33):
        x = randn(size)
        torch.testing.assert_close(compiled(x), function(x))
    assert not any(record.in_eager for record in cuesta.records)


def test_a_graph_with_sizes_that_nothing_tells_runs_in_eager() -> None:
    """Of a tensor with s0 + s1 elements nobody knows what s0 is."""
    from cuesta.backend import Compilers
    from cuesta.options import Options

    gm = graph_of_a_sum(lambda x: (x * 2,))
    (product,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    value = product.meta["val"]
    part = next(iter(sorted(value.shape[0].node.expr.free_symbols, key=str)))
    number = value.shape[0].node.shape_env.create_symintnode(part, hint=5)
    product.meta["val"] = value.new_empty(number)
    with pytest.warns(UserWarning, match="runs a graph in eager: .* which the sizes of no inputs tell"):
        boxed = Compilers(Options.parse()).of("inference")(gm, [])
    x = randn(12)
    torch.testing.assert_close(tuple(boxed([x])), (x * 2,))
