"""What users get wrong, and what only they have: wrong indices and options, operators nobody knows, threads."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, randn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional as F

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.options import OptionError
from tests.support.differential import check, check_call, compiled_of


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()


# -- errors at run time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [
        (lambda x, i: F.embedding(i, x) + 1, [0, 4], [[5], [-1], [0, 99]]),
        (lambda x, i: x[i] * 2, [-5, 4], [[5, 0], [-6, 0]]),
        (lambda x, i: x.index_select(0, i) * 2, [0, 4], [[5]]),
        (lambda x, i: x.gather(0, i[:, None]) * 2, [0, 4], [[5], [-1]]),
        (lambda x, i: x[i].sum(), [3] * 90_000, [[3] * 80_000 + [7] + [3] * 9_999]),
    ],
)
def test_an_index_out_of_range(function: Callable[..., Any], good: list[int], bad: list[list[int]]) -> None:
    compiled = compiled_of(function, dynamic=False)
    x = torch.arange(15.0).view(5, 3)
    for indices in bad:
        with pytest.raises(IndexError, match=r"out of bounds for dimension with size 5 \(.*test_bad_input.py:\d+"):
            compiled(x, torch.tensor(indices))
        check_call(compiled, function, x, torch.tensor(good))  # and the next call works again


@pytest.mark.parametrize("size", [4, 5000])
def test_threads_have_an_index_error_each_of_their_own(size: int) -> None:
    """Of threads that call one function at once, those with a bad index get their own error and no other does."""
    threads, calls = 8, 600 if size > 1000 else 2500
    x = torch.arange(8.0)
    good, changed = torch.arange(size) % 8, torch.zeros(size)
    expected, wrong = x[good] * 2, list[str]()

    def function(x: Tensor, changed: Tensor, i: Tensor) -> Tensor:
        changed.add_(1)
        return x[i] * 2

    compiled = compiled_of(function, dynamic=False)
    compiled(x, torch.zeros(size), good)

    def call(number: int) -> None:
        mine, indices, own = 100 + number, good.clone(), changed.clone()
        if is_bad := number % 2 == 1:
            indices[size // 2] = mine
        for _ in range(calls):
            try:
                if not torch.equal(compiled(x, own, indices), expected):
                    wrong.append(f"thread {number} got another result")
                said = ""
            except IndexError as error:
                said = str(error)
            if said.startswith(f"index {mine} is out of bounds") != is_bad or bool(said) != is_bad:
                wrong.append(f"thread {number} got {said or 'no error'}")
        if not torch.equal(own, changed + (0 if is_bad else calls)):
            wrong.append(f"thread {number} finds its argument changed")

    running = [threading.Thread(target=call, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not wrong, f"{len(wrong)} of {threads * calls} calls: {wrong[:3]}"


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: torch.fmod(a, b) + 1,
        lambda a, b: a // 0 + b,
        lambda a, b: a % 0 + b,
    ],
)
def test_integer_division_by_zero(function: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled_of(function)(torch.tensor([1, 2]), torch.tensor([3, 0]))


def test_put_outside() -> None:
    def function(x: Tensor, i: Tensor) -> Tensor:
        return x.put(i, torch.ones(1)) * 2

    compiled = compiled_of(function)
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension with size 3"):
        compiled(randn(3), torch.tensor([7]))
    check_call(compiled, function, randn(3), torch.tensor([1]))


def test_an_error_of_a_library_call_is_that_of_eager() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(x) * 2

    compiled = compiled_of(function)
    with pytest.raises(RuntimeError, match="the input is not positive-definite"):
        compiled(-torch.eye(3))
    check_call(compiled, function, torch.eye(3) * 4)


# -- options and devices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "kind", "message"),
    [
        ({"options": {"nope": 1}}, OptionError, "unknown option 'nope'"),
        ({"options": 3}, OptionError, "options must be a dictionary"),
        ({"mode": "warp"}, OptionError, "valid modes: default"),
        ({"options": {"verify": "maybe"}}, OptionError, "must be one of"),
        ({"options": {"pipeline": "no-such-pass"}}, CuestaError, "the passes are: .*aten-to-loops"),
    ],
)
def test_wrong_options(chosen: dict, kind: type[Exception], message: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=message) as caught:
        torch.compile(torch.sin, backend="cuesta", **chosen)(torch.ones(2))
    assert isinstance(caught.value.inner_exception, kind)


def test_dump(tmp_path: Path) -> None:
    compiled_of(lambda x: (x + 1).sum(), options={"dump": str(tmp_path / "new")})(randn(4))
    names = {path.name for path in (tmp_path / "new" / "000_inference").iterdir()}
    assert {"00_aten.mlir", "wrapper.py", "kernels.ll"} <= names
    torch._dynamo.reset()
    (tmp_path / "file").touch()
    with pytest.raises(BackendCompilerFailed, match="option 'dump': no folder can be made in") as caught:
        compiled_of(lambda x: (x + 1).sum(), options={"dump": str(tmp_path / "file" / "x")})(randn(4))
    assert isinstance(caught.value.inner_exception, OptionError)


def test_a_device_without_a_target_runs_in_eager() -> None:
    with pytest.warns(UserWarning, match="no target for the device meta"):
        assert compiled_of(lambda x: x + 1)(torch.randn(3, device="meta")).device.type == "meta"
    torch._dynamo.reset()

    def half(x: Tensor) -> tuple[Tensor, Tensor]:
        return x + 1, torch.zeros(3, device="meta") + 1

    with pytest.warns(UserWarning, match="no target for the device meta"):
        assert compiled_of(half)(torch.ones(2))[0].tolist() == [2, 2]


def test_sparse_tensors_are_left_to_eager() -> None:
    sparse, x = torch.eye(3).to_sparse(), randn(3, 3)
    compiled = torch.compile(lambda s, x: torch.sparse.mm(s, x) + 1, backend="cuesta")
    torch.testing.assert_close(compiled(sparse, x), x + 1)


# -- operators nobody knows --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ops() -> Iterator[Any]:
    """Operators of a library of our own, as a user's would be."""

    @torch.library.custom_op("hostile::pair", mutates_args=())
    def pair(x: Tensor, factor: int, name: str = "a") -> tuple[Tensor, Tensor]:
        return x * factor, x.t().clone(memory_format=torch.contiguous_format)

    @pair.register_fake
    def _(x: Tensor, factor: int, name: str = "a") -> tuple[Tensor, Tensor]:
        return torch.empty_like(x), x.new_empty(x.shape[1], x.shape[0])

    @torch.library.custom_op("hostile::product", mutates_args=())
    def product(x: Tensor, y: Tensor | None, others: list[Tensor], factor: float | None, steps: list[int]) -> Tensor:
        result = x.clone() if y is None else x + y
        for other in others:
            result = result * other
        return result * (factor or 1) + sum(steps)

    @product.register_fake
    def _(x: Tensor, y: Tensor | None, others: list[Tensor], factor: float | None, steps: list[int]) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("hostile::listed", mutates_args=())
    def listed(x: Tensor, number: int) -> list[Tensor]:
        return [x + k for k in range(number)]

    @listed.register_fake
    def _(x: Tensor, number: int) -> list[Tensor]:
        return [torch.empty_like(x) for _ in range(number)]

    @torch.library.custom_op("hostile::turned", mutates_args=())
    def turned(x: Tensor) -> Tensor:
        return (x * 2).t().contiguous().t()  # other strides than the fake function says

    @turned.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("hostile::shrunk", mutates_args=())
    def shrunk(x: Tensor) -> Tensor:
        return x[1:] * 2  # another size than the fake function says

    @shrunk.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("hostile::triple", mutates_args=())
    def triple(x: Tensor) -> Tensor:
        return x * 3

    triple.register_fake(lambda x: torch.empty_like(x))
    triple.register_autograd(lambda context, gradient: gradient * 3)
    library = torch.library.Library("hostile", "FRAGMENT")
    library.define("maybe(Tensor x, bool both) -> (Tensor, Tensor?)")
    library.impl("maybe", lambda x, both: (x + 1, x * 2 if both else None), "CompositeExplicitAutograd")
    yield torch.ops.hostile
    library._destroy()


def test_unknown_operators(ops: Any) -> None:
    def function(x: Tensor, y: Tensor) -> tuple:
        a, b = ops.pair(x + 1, 3)
        products = (ops.product(x, None, [y, x], None, []), ops.product(x, y, [], 2.5, [1, 2]))
        lists = (*ops.listed(x + 1, 3), ops.listed(x, 1)[0] * 2, ops.listed(x, 2)[1] * 2)
        return a * 2, b + 1, ops.pair(x, 2, "b")[1], *products, *lists, ops.maybe(x, True), ops.maybe(x, False)[0] * 2

    check(function, randn(3, 4), randn(3, 4), truth=False)


def test_an_unknown_operator_that_is_differentiable(ops: Any) -> None:
    check(lambda x: ops.triple(x.sin()).cos(), randn(3, 4, requires_grad=True), truth=False)


def test_an_operator_that_lies_about_strides(ops: Any) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return ops.turned(x).sum(0), ops.turned(x + 1) @ x.t(), F.softmax(ops.turned(x), -1).sum(1), ops.turned(x) + 1

    x = randn(5, 7)
    for actual, expected in zip(compiled_of(function)(x), function(x), strict=True):
        torch.testing.assert_close(actual, expected)


def test_an_operator_that_lies_about_sizes(ops: Any) -> None:
    with pytest.raises(RuntimeError, match=r"hostile::shrunk.default gave .*\(4,\).* promised .*\(5,\)"):
        compiled_of(lambda x: ops.shrunk(x) + 1)(randn(5))


def test_an_unknown_operator_on_symbolic_sizes(ops: Any) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = ops.pair(x + 1, x.shape[0])
        return a * 2, b + 1

    compiled = compiled_of(function, dynamic=True)
    for size in (3, 5, 9):
        check_call(compiled, function, randn(size, 4))
    assert len(cuesta.records) == 1


# -- the life of a program ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_recompilation() -> None:
    def function(x: Tensor, doubled: bool) -> Tensor:
        return x * 2 if doubled else x.sum()

    compiled = torch.compile(function, backend="cuesta")
    for size in [(3,), (4, 4), (5, 5), ()]:
        for doubled in (True, False):
            check_call(compiled, function, torch.ones(size), doubled)
            check_call(compiled, function, torch.ones(size, dtype=torch.int64), doubled)


def test_graph_breaks_and_values_read_in_python() -> None:
    def function(x: Tensor) -> Any:
        if x.sum() > 0:
            return x[x > 0].sum() * 2
        return x.sum().item() + 1

    compiled = torch.compile(function, backend="cuesta")
    for size in (4, 7, 5):
        check_call(compiled, function, randn(size, 5))


@pytest.mark.slow
def test_a_module_that_changes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = torch.compile(model, backend="cuesta")
    x = randn(6, 4)
    compiled(x)
    assert model[1].num_batches_tracked == 1
    model.eval()

    def same() -> None:
        torch.testing.assert_close(compiled(x), model(x))

    same()
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})
    same()
    model[0].weight.data = randn(4, 4)
    same()
    model[0].weight = nn.Parameter(randn(4, 4))
    same()
    model.double()
    x = x.double()
    same()


def _run_in_threads(work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  # reported by the thread that waits
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.slow
def test_threads_that_share_a_compiled_module() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    compiled = compiled_of(model)

    def work(number: int) -> None:
        for size in (3, number + 4, 5):
            x = randn(size, 8)
            y = compiled(x)
            torch.testing.assert_close(y, model(x))
            y.sum().backward()

    _run_in_threads(work)


@pytest.mark.slow
def test_threads_that_compile_at_once() -> None:
    def work(number: int) -> None:
        def function(x: Tensor) -> Tensor:
            return (x * number + 1).softmax(-1)

        compiled = torch.compile(function, backend="cuesta")
        for size in (3, 20_000):
            x = randn(size, 8)
            for _ in range(5):
                torch.testing.assert_close(compiled(x), function(x))

    _run_in_threads(work)


@pytest.mark.slow
def test_results_do_not_keep_memory() -> None:
    import gc
    import weakref

    compiled = compiled_of(lambda x: (x.exp() * 2).sin())
    x = randn(100, requires_grad=True)
    results = [compiled(x) for _ in range(3)]
    alive = [weakref.ref(result) for result in results]
    del results
    gc.collect()
    assert not any(reference() is not None for reference in alive)


def test_nothing_warns_when_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(lambda x: F.gelu(x).sum(-1), randn(5, 6))
