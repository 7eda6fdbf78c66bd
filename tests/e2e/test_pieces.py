"""Graphs of which eager has to run a part: branches, loops, recomputation, sizes that only the data knows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, randn
from torch import _higher_order_ops as higher_order
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from xdsl.dialects.builtin import ModuleOp

import cuesta
from cuesta.dialects.host import is_in_pieces
from tests.support.differential import check, check_call, compiled_of
from tests.support.levels import Captured, capture, captured_graphs, check_levels
from tests.support.reload import check_dump

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()
    with (
        torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("error", "cuesta runs a graph in eager")
        yield


def pieces_of(graph: Captured) -> list[str]:
    """The names of the pieces of a program, and of what operators in it call."""
    assert is_in_pieces(graph.module)
    named = [piece.sym_name for piece in graph.module.body.ops if isinstance(piece, ModuleOp)]
    return [name.data for name in named if name is not None]


def fallbacks() -> dict[str, int]:
    return dict(cuesta.statistics().fallbacks)


# -- sizes that only the data knows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (lambda x: (x.relu().nonzero() * 2 + 1, x.sigmoid()), "nonzero"),
        pytest.param(lambda x: (x * 2).masked_select(x > 0).exp().tanh(), "masked_select", marks=pytest.mark.slow),
        (lambda x: (x * 2)[x > 0].exp().sum() + x.sum(), "index"),
        pytest.param(lambda x: (x > 0).long().sum(1).unique() * 2, "_unique2", marks=pytest.mark.slow),
    ],
)
def test_what_comes_after_is_compiled(function: Callable[..., Any], operator: str) -> None:
    compiled = compiled_of(function)
    with captured_graphs() as graphs:
        check_call(compiled, function, randn(8, 5))
    check_call(compiled, function, torch.ones(8, 5))
    none = -torch.ones(8, 5)  # strides of what has no elements are nobody's business
    torch.testing.assert_close(compiled(none), function(none))
    assert [name for name in fallbacks() if operator not in name] == []
    (record,) = cuesta.records
    assert record.kernels >= 2 and pieces_of(*graphs) == ["piece_0", "piece_1"], "a piece before and a piece after"


def test_gradients_through_a_mask() -> None:
    check(lambda x: (x * 2).masked_select(x > 0).exp().tanh(), randn(8, 5, requires_grad=True))
    backward = cuesta.records[-1]
    assert backward.kind == "backward" and backward.kernels


def test_a_number_read_from_a_tensor() -> None:
    def function(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        n = i.max().item()
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return (x * 2)[:n].exp().sum(0), torch.arange(n) * x.shape[0]

    compiled = compiled_of(function, dynamic=True)
    for size, n in ((8, 3), (8, 0), (9, 9)):
        check_call(compiled, function, randn(size, 5), torch.tensor(n))
    assert fallbacks() == {"aten._local_scalar_dense.default": 1} and len(cuesta.records) == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.where(x > 0)[0].select(0, 2) + 1,
        lambda x: (x > 0).nonzero().T.select(-1, -3) * 2,
        lambda x: torch.select_scatter((found := torch.where(x > 0)[0]), found.sum(), 0, 2) + 1,
        lambda x: torch.select_scatter((found := torch.where(x > 0)[0]), found.sum(), 0, -3),
    ],
    ids=["read", "read from the end", "inserted", "inserted from the end"],
)
def test_a_place_of_which_only_the_data_knows_whether_it_is_there(function: Callable[..., Any]) -> None:
    """Eager looks: what is generated would read and write beside the memory."""
    compiled = compiled_of(function)
    for x in (torch.tensor([1.0, -1, 2, 3]), torch.ones(9)):
        check_call(compiled, function, x)
    for x in (torch.tensor([1.0, -1, 2, -3]), -torch.ones(4)):
        for call in (function, compiled):
            with pytest.raises(IndexError, match=r"select\(\): index -?\d out of range for tensor of size"):
                call(x)


def test_values_of_which_only_the_data_knows_whether_they_fit() -> None:
    """Eager looks: what is generated would leave some out, or read beside the memory."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.new_zeros(5).index_put((torch.where(x > 0)[0],), x[:3]) + 1

    compiled = compiled_of(function)
    check_call(compiled, function, torch.tensor([1.0, -1, 2, -3, 4]))
    for x in (torch.tensor([-1.0, 1, 1, -1, -1]), torch.ones(5)):
        for call in (function, compiled):
            with pytest.raises(RuntimeError, match="shape mismatch"):
                call(x)


def test_where_a_part_begins_as_only_the_data_knows() -> None:
    """torch 2.11 asks it of every slice of what has such a size, and checks that it is no negative number."""

    def function(x: Tensor) -> tuple[Any, ...]:
        row = (x * 2)[int(x.argmax().item()) // 5]
        found = (x > 0).nonzero()[:, 0]
        return row * 2, row.storage_offset() + 1, found[1:3], found[1:3].storage_offset()

    compiled, x = compiled_of(function), randn(8, 5)
    x[3, 2], x[0, 0] = 9, 1
    with captured_graphs() as graphs:
        for values in (x, -x, x.flip(0).contiguous()):
            check_call(compiled, function, values)
    assert any("storage_offset :" in str(graph.module) for graph in graphs)


def test_a_check_that_fails_is_an_error() -> None:
    def function(x: Tensor, i: Tensor) -> Tensor:
        n = i.max().item()
        torch._check(n <= 4)
        return x * n

    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 <= 4"):
        compiled_of(function)(randn(3), torch.tensor(5))


@pytest.mark.slow
def test_a_float_read_from_a_tensor() -> None:
    check(lambda x: x * x.abs().max().item() + 1, randn(8, 5), truth=False)


def test_independent_parts_share_a_piece() -> None:
    """What does not need the mask's result is compiled together, before and after it in the text."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        chosen = x[x > 0]
        unrelated = (y * 2).sin()
        return chosen + 1, unrelated.cos(), (y[y > 0] * 3).sum()

    with captured_graphs() as graphs:
        check(function, randn(8, 5), randn(8, 5), truth=False)
    assert pieces_of(*graphs) == ["piece_0", "piece_1"]


def test_writes_to_inputs_come_last() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2)
        found = x.nonzero()
        x.add_(1)
        return found + 1, x * 3

    check(function, randn(8, 5).relu(), truth=False)


# -- higher-order operators --------------------------------------------------------------------------------------------


def test_cond() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: (x * 2).tanh().sin(), lambda x: (x - 1).cos(), [x.relu()]) + 1

    compiled = compiled_of(function)
    with captured_graphs() as graphs:
        for x in (torch.ones(8, 5), -torch.ones(8, 5)):
            check_call(compiled, function, x)
    assert fallbacks() == {"higher_order.cond": 1}
    assert pieces_of(*graphs) == ["piece_0", "true_graph_0", "false_graph_0", "piece_1"]
    check_call(compiled, function, randn(8, 5, requires_grad=True))


@pytest.mark.slow
def test_an_index_that_a_loop_computes() -> None:
    """Without gradients, too: the graph breaks there."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        count, looped = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5), (torch.tensor(0), x))
        written = x * 1
        written[count % 4] = 4
        return looped, x[count - 1], written

    torch._dynamo.reset()
    x = torch.arange(5.0)
    with torch._dynamo.config.patch(capture_scalar_outputs=False):
        results = torch.compile(function, backend="cuesta")(x)
    for ours, theirs in zip(results, function(x), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow
def test_while_loop() -> None:
    def function(x: Tensor) -> Tensor:
        start = (torch.tensor(0), x + 1)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, (x * 1.1).sin()), start)[1] * 2

    check(function, randn(8, 5), truth=False)
    assert fallbacks() == {"higher_order.while_loop": 1}


@pytest.mark.slow
def test_a_region_compiled_once() -> None:
    @torch.compiler.nested_compile_region
    def block(x: Tensor) -> Tensor:
        return (x * 2).sin().tanh()

    def function(x: Tensor) -> Any:
        y: Any = block(block(x))
        return y + 1

    with captured_graphs() as graphs:
        check(function, randn(8, 5), truth=False)
    assert fallbacks() == {"higher_order.invoke_subgraph": 2}
    assert len(pieces_of(*graphs)) == 2, "the block, and what comes after it"


class Checkpointed(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.first, self.second, self.p = nn.Linear(16, 16), nn.Linear(16, 16), p

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.block, self.first, x, use_reentrant=False)
        return checkpoint(self.block, self.second, x, use_reentrant=False).sum()

    def block(self, layer: nn.Module, x: Tensor) -> Tensor:
        return F.dropout(F.gelu(layer(x)), self.p, training=True)


@pytest.mark.parametrize("p", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
def test_activation_checkpoints(p: float) -> None:
    """Dropout is drawn a second time in the backward pass, from the state of the generator that it had."""
    check(Checkpointed(p), randn(8, 16, requires_grad=True), truth=False, seed=3)
    drawn = {"higher_order.run_and_save_rng_state", "higher_order.run_with_rng_state"}
    assert set(fallbacks()) == (drawn if p else set())


def test_an_operator_that_writes_to_its_input() -> None:
    @torch.library.custom_op("pieces::add_to", mutates_args={"x"})
    def add_to(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = x + 1
        add_to(z, y * 2)
        add_to(x, y)
        return z * 2, x

    check(function, randn(3, 4), randn(3, 4), truth=False)
    assert fallbacks() == {"higher_order.auto_functionalized_v2": 2}


# -- what eager gives is what the pieces were compiled for -------------------------------------------------------------


def test_strides_are_what_was_promised() -> None:
    @torch.library.custom_op("pieces::turned", mutates_args=())
    def turned(x: Tensor, mask: Tensor) -> Tensor:
        return x[mask].t().contiguous().t()

    @turned.register_fake
    def _(x: Tensor, mask: Tensor) -> Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])

    x = randn(8, 5)
    mask = x[:, 0] > 0
    expected = turned(x, mask) * 2
    torch.testing.assert_close(compiled_of(lambda x, mask: turned(x, mask) * 2)(x, mask), expected)


def test_sizes_are_what_was_promised() -> None:
    @torch.library.custom_op("pieces::shrunk", mutates_args=())
    def shrunk(x: Tensor, mask: Tensor) -> Tensor:
        return x[mask][:, 1:]

    @shrunk.register_fake
    def _(x: Tensor, mask: Tensor) -> Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])

    x = randn(8, 5)
    with pytest.raises(RuntimeError, match=r"pieces.shrunk.default gave .*, 4\).* promised .*, 5\)"):
        compiled_of(lambda x, mask: shrunk(x, mask) * 2)(x, x[:, 0] > 0)


@pytest.mark.slow
def test_inputs_go_as_soon_as_they_are_used() -> None:
    import gc
    import weakref

    alive: list[bool] = []

    @torch.library.custom_op("pieces::look", mutates_args=())
    def look(x: Tensor, mask: Tensor) -> Tensor:
        alive.append(reference() is not None)
        return x[mask]

    @look.register_fake
    def _(x: Tensor, mask: Tensor) -> Tensor:
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    from torch.fx.experimental.proxy_tensor import make_fx

    from cuesta.backend import Compilers
    from cuesta.options import Options

    gm = make_fx(lambda x: look(x * 2, x > 0) + 1, tracing_mode="symbolic", _allow_non_fake_inputs=True)(randn(6))
    boxed = Compilers(Options.parse()).of("inference")(gm, [])
    sizes = [6] * sum(isinstance(node.meta["val"], torch.SymInt) for node in gm.graph.nodes if node.op == "placeholder")
    x = randn(6)
    reference = weakref.ref(x)
    arguments = [*sizes, x]
    del x
    gc.collect()
    boxed(arguments)
    assert alive == [False]


def test_the_text_of_a_wrapper(tmp_path: Path) -> None:
    compiled_of(lambda x: (x * 2)[x > 0] + 1, options={"dump": str(tmp_path)})(randn(4))
    (path,) = tmp_path.glob("*/wrapper.py")
    text = path.read_text()
    assert [line for line in text.splitlines() if line.startswith("def ")] == [
        "def piece_0(args):",
        "def piece_1(args):",
        "def call(args):",
    ]
    assert text[text.index("def call") :].splitlines()[:6] == [
        "def call(args):",
        "    if profiler._is_profiler_enabled: return profiled(args)",
        "    arg0_1, = args",
        "    args.clear()",
        "    inputs = [arg0_1]",
        "    del arg0_1",
    ]
    assert "(u0,), torch.float32, 'cpu', 'aten.index.Tensor')" in text


# -- one program -------------------------------------------------------------------------------------------------------


def masked(x: Tensor) -> tuple[Tensor, Tensor]:
    chosen = (x * 2)[x > 0]
    return chosen.exp() + 1, x.sum(-1).exp() + 1


def branching(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.tanh().nonzero() * 2, lambda x: x.nonzero() + 1, [x.relu()]) + 1


class Biased(nn.Module):
    """A branch that reads a tensor that the graph holds."""

    def forward(self, x: Tensor) -> Tensor:
        bias = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
        return torch.cond(x.sum() > 0, lambda x: (x + bias).sin(), lambda x: (x - bias).cos(), [x.relu()]) + 1


@pytest.mark.slow
@pytest.mark.parametrize("function", [masked, Biased()])
def test_every_stage(function: Callable[..., Any]) -> None:
    """What the interpreter makes of the program stays as it is at every stage, and its text is the program."""
    with torch.no_grad():
        for graph in capture(function, randn(8, 5)):
            check_levels(graph)


@pytest.mark.slow
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.thorough)])
def test_every_dumped_text_goes_on(every: int, tmp_path: Path) -> None:
    x = randn(8, 5)
    compiled_of(masked, options={"dump": str(tmp_path)})(x)
    assert check_dump(tmp_path, every) > 15
    (folder,) = tmp_path.iterdir()
    for file in (folder / "00_aten.mlir", max(folder.glob("*.mlir"))):
        results = cuesta.load(file)(x)
        torch.testing.assert_close(results, masked(x))
        assert 'host.eager "aten.index.Tensor"' in file.read_text()


# -- loops over slices -------------------------------------------------------------------------------------------------


def _step(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    new = torch.tanh(carry * 0.5 + x)
    return new, new * 2 + carry


def _scanned(start: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    last, all_of_them = scan(_step, start * 1, x, dim=0)
    return all_of_them.sum(0) + last


def _mapped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    over_slices: Any = higher_order.map
    return over_slices(lambda row: torch.softmax(row * weight, -1) + 1, x).sum(0)


@pytest.mark.parametrize("layout", ["rows", "turned"])
@pytest.mark.parametrize("name", ["scan", "map"])
@pytest.mark.covering
def test_loops_over_slices_have_compiled_bodies(name: str, layout: str) -> None:
    x = torch.randn(6, 3, 5) if layout == "rows" else torch.randn(6, 5, 3).mT
    function, inputs = (_scanned, (torch.randn(3, 5), x)) if name == "scan" else (_mapped, (x, torch.randn(5)))
    torch.testing.assert_close(compiled_of(function)(*inputs), function(*inputs))
    assert fallbacks() == {"higher_order.scan" if name == "scan" else "higher_order.map_impl": 1}
    # What the slices do not lie as, eager runs: the body is no kernel then.
    around = {"scan": 2, "map": 1}[name]
    assert cuesta.records[-1].kernels == around + (layout == "rows")
    torch._dynamo.reset()
    torch.testing.assert_close(compiled_of(function, dynamic=True)(*inputs), function(*inputs))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.every(2)
def test_a_scan_trains(reverse: bool) -> None:
    def function(start: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            new = torch.tanh(carry @ weight + row)
            return new, new * 2 + carry

        last, all_of_them = scan(step, start * 1, x, dim=0, reverse=reverse)
        return all_of_them.sum(0) + last

    inputs = [randn(size, requires_grad=True) for size in ((3, 5), (6, 3, 5), (5, 5))]
    tangents = randn(3, 5)
    expected = torch.autograd.grad(function(*inputs), inputs, tangents)
    for dynamic in (False, True):
        torch._dynamo.reset()
        actual = torch.autograd.grad(compiled_of(function, dynamic=dynamic)(*inputs), inputs, tangents)
        torch.testing.assert_close(actual, expected)
    assert set(fallbacks()) == {"higher_order.scan"} and all(record.kernels for record in cuesta.records)


def test_a_map_trains() -> None:
    inputs = torch.randn(6, 3, 5, requires_grad=True), torch.randn(5, requires_grad=True)
    tangents = torch.randn(3, 5)
    expected = torch.autograd.grad(_mapped(*inputs), inputs, tangents)
    actual = torch.autograd.grad(compiled_of(_mapped)(*inputs), inputs, tangents)
    torch.testing.assert_close(actual, expected)


# -- associative scans -------------------------------------------------------------------------------------------------


def _joined(factor: Tensor, term: Tensor, next_factor: Tensor, next_term: Tensor) -> list[Tensor]:
    """x -> factor * x + term, one after the other."""
    return [factor * next_factor, term * next_factor + next_term]


def _recurrence(factors: Tensor, terms: Tensor) -> Tensor:
    return associative_scan_op(_joined, [factors, terms * 1], ())[1]


@pytest.mark.parametrize("length", [1, 2, 7, 16])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.covering
def test_an_associative_scan_is_written_out(length: int, reverse: bool) -> None:
    def function(factors: Tensor, terms: Tensor) -> Tensor:
        given = [one.flip(0) if reverse else one for one in (factors, terms)]
        return _recurrence(*given)

    factors, terms = inputs = torch.rand(length, 3), randn(length, 3)
    steps = [terms[-1 if reverse else 0]]
    for place in range(1, length):
        here = -1 - place if reverse else place
        steps.append(steps[-1] * factors[here] + terms[here])
    torch.testing.assert_close(compiled_of(function)(*inputs), torch.stack(steps))
    assert not fallbacks() and cuesta.records[-1].kernels


def test_an_associative_scan_trains() -> None:
    inputs = torch.rand(9, 3, requires_grad=True), randn(9, 3, requires_grad=True)
    result, expected = compiled_of(_recurrence)(*inputs), _recurrence(*inputs)
    tangents = torch.randn_like(expected)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(*(torch.autograd.grad(one, inputs, tangents) for one in (result, expected)))
    assert not fallbacks() and all(record.kernels for record in cuesta.records)


def test_an_associative_scan_of_a_length_that_is_a_symbol() -> None:
    """How it is written out depends on the length: one graph for all of them is eager's."""
    compiled = compiled_of(lambda x: associative_scan_op(_sum, [x * 2], ())[0] + 1)
    for length in (5, 6, 7, 9):
        torch.testing.assert_close(compiled(x := randn(length)), (x * 2).cumsum(0) + 1)
    assert fallbacks() == {"higher_order.associative_scan": 1} and len(cuesta.records) == 2


def _sum(a: Tensor, b: Tensor) -> list[Tensor]:
    return [a + b]


# -- where a tensor says where to begin --------------------------------------------------------------------------------

NARROWED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "function": lambda x, start: torch.narrow(x * 2, 1, start=start, length=3).sigmoid() + 1,
    "method": lambda x, start: (x * 2).narrow(0, start, 3).sigmoid().sum() + x.sin().sum(),
    "of an input": lambda x, start: x.narrow(-2, start, 3) * 2,
    "turned": lambda x, start: x.t().narrow(0, start, 3) * 2,
}


@pytest.mark.parametrize("name", NARROWED)
def test_a_narrow_from_a_tensor_on_is_compiled(name: str) -> None:
    function = NARROWED[name]
    compiled = compiled_of(function)
    x = randn(11, 10, requires_grad=True)
    for start in (2, 5, 0, 7, -4):
        results = [one(x, torch.tensor(start)) for one in (compiled, function)]
        torch.testing.assert_close(*results)
        assert results[0].stride() == results[1].stride()
        torch.testing.assert_close(*(torch.autograd.grad(one.sin().sum(), x) for one in results))
    assert not fallbacks() and cuesta.records and all(record.kernels for record in cuesta.records)


@pytest.mark.parametrize("start", [-12, -2, 9, 12])
def test_a_narrow_from_beyond_the_end_is_an_error(start: int) -> None:
    """In a function that was compiled before for a start of the same sign."""
    begin = torch.tensor(-5 if start < 0 else 5)
    compiled = compiled_of(NARROWED["of an input"])
    compiled(x := randn(11, 10), begin)
    begin.fill_(start)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(x, begin)


def test_what_a_narrow_from_a_tensor_on_sees_stays_a_view() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compiled_of(lambda x, start: x.narrow(0, start, 3), fullgraph=False)
        seen = compiled(x := torch.zeros(5), torch.tensor(1))
    x += 1
    assert seen.tolist() == [1, 1, 1]
