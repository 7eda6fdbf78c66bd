"""Short calls: which graphs get one, that it does what AOTAutograd's wrapper does, and what keeps a graph from it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.two_tensor import TwoTensor

from cuesta import aot_autograd, short_calls
from cuesta.short_calls import Shortening, is_read

Made = list[Any]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """What is called for each graph that is compiled, in order."""
    torch._dynamo.reset()
    found: Made = []
    shortened = Shortening.shortened

    def kept(self: Shortening, whole: Callable[..., Any]) -> Callable[..., Any]:
        found.append(shortened(self, whole))
        return found[-1]

    monkeypatch.setattr(Shortening, "shortened", kept)
    return found


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return torch.compile(function, backend="cuesta", options={"cache": False}, **options)


def is_short(call: Any) -> bool:
    """Whether calls go to our function, past AOTAutograd's wrapper, from now on."""
    return isinstance(call, FunctionType) and "boxed" in call.__code__.co_names


def test_the_installed_version_is_one_that_has_been_read() -> None:
    assert is_read(torch.__version__), "read AOTAutograd's wrapper again, as short_calls.py says"


@pytest.mark.parametrize(
    ("version", "read"),
    [("2.11.0", True), ("2.13.0+cpu", True), ("2.14.1", True), ("2.10.2", False), ("2.15.0", False), ("3.0.0", False),
     ("2.14.0a0+git123", False), ("2.14.0.dev20261101", False), ("2.14.0rc1", False)],
)  # fmt: skip
def test_releases_that_have_been_read(version: str, read: bool) -> None:
    assert is_read(version) == read


def test_calls_are_short_from_the_second_on(made: Made) -> None:
    function, x = compiled(lambda x: torch.sin(x) * 2), torch.randn(5)
    function(x)
    (call,) = made
    assert is_short(call)
    assert torch.allclose(function(x + 1), torch.sin(x + 1) * 2)


def test_a_call_that_fails_decides_nothing(made: Made) -> None:
    function, x = compiled(lambda x, i: x[i] * 2), torch.randn(5)
    for _ in range(2):
        with pytest.raises(IndexError):
            function(x, torch.tensor([9]))
        assert not is_short(made[0]) and torch.is_grad_enabled()
    assert torch.equal(function(x, torch.tensor([3])), x[[3]] * 2)
    assert is_short(made[0])
    for _ in range(2):
        with pytest.raises(IndexError):
            function(x, torch.tensor([9]))
        assert torch.is_grad_enabled()


def test_the_results_that_are_inputs(made: Made) -> None:
    def update(c: Tensor, p: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        c.index_copy_(0, p, x)
        return x + 1, c, p

    function = compiled(update)
    c, x = torch.zeros(4, 3), torch.randn(1, 3)
    for place in (1, 3):
        p = torch.tensor([place])
        more, same, where = function(c, p, x)
        assert same is c and where is p and torch.equal(c[place], x[0]) and torch.equal(more, x + 1)
    assert is_short(made[0])


def test_changes_are_counted_as_in_eager(made: Made) -> None:
    function = compiled(lambda c, x: c.copy_(x))
    for number in range(3):
        c, weight = torch.ones(3), torch.ones(3, requires_grad=True)
        loss, before = (c * weight).sum(), c._version
        with torch.no_grad():
            function(c, torch.randn(3))
        assert c._version == before + 1, number
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    assert is_short(made[0])


def test_gradients_are_off_while_it_runs_and_as_before_after_it(made: Made) -> None:
    weight, seen = torch.randn(3, 3, requires_grad=True), list[tuple[bool, bool]]()

    @torch.library.custom_op("short_calls::look", mutates_args=())
    def look(x: Tensor) -> Tensor:
        seen.append((torch.is_grad_enabled(), torch._C._is_any_autocast_enabled()))
        return x.clone()

    look.register_fake(lambda x: torch.empty_like(x))
    function = compiled(lambda x, weight: look(x) @ weight.detach())
    x = torch.randn(2, 3)
    for _ in range(3):
        result = function(x, weight)
        assert torch.is_grad_enabled() and not result.requires_grad and result.grad_fn is None
    with torch.inference_mode():
        assert function(x, weight).is_inference()
    assert made and all(is_short(call) for call in made)
    assert seen and not any(grad or autocast for grad, autocast in seen)


def test_autocast_is_off_while_it_runs_and_on_after_it(made: Made) -> None:
    function = compiled(lambda x, y: x @ y)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for _ in range(3):
            assert torch.equal(function(x, y), x @ y)
            assert torch.is_autocast_enabled("cpu")
    assert is_short(made[0])
    with torch.no_grad():
        assert function(x, y).dtype == torch.float32  # another graph: Dynamo's guards see to it


def test_a_profiler_sees_what_it_saw(made: Made) -> None:
    function, x = compiled(lambda x: torch.sin(x) * 2), torch.randn(5)
    for _ in range(2):
        function(x)
    assert is_short(made[0])
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        function(x)
    names = [event.name for event in seen.events() or ()]
    assert "AOTDispatcher Runtime Wrapper Prologue" in names and "cuesta: graph" in names
    assert is_short(made[0])


def test_a_first_call_that_a_profiler_sees_decides_nothing(made: Made) -> None:
    function, x = compiled(lambda x: torch.sin(x) * 2), torch.randn(5)
    with profile(activities=[ProfilerActivity.CPU]):
        function(x)
    assert not is_short(made[0])
    function(x)
    assert is_short(made[0])


def test_first_calls_in_many_threads(made: Made) -> None:
    function = compiled(lambda x: torch.sin(x) * 2)
    inputs = [torch.randn(7, 7) for _ in range(8)]
    with profile(activities=[ProfilerActivity.CPU]):  # compiled, and nothing decided
        function(inputs[0])
    found: dict[int, list[Tensor]] = {}

    def work(number: int) -> None:
        found[number] = [function(inputs[number]) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, x in enumerate(inputs):
        assert len(found[number]) == 20
        for result in found[number]:
            torch.testing.assert_close(result, torch.sin(x) * 2)
    assert is_short(made[-1])


def doubled(x: Tensor) -> Tensor:
    return x * 2


ASK_FOR_MORE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a view of an input": (lambda x: (x[1:], x + 1), (torch.randn(4),)),
    "a token, of what may raise": (lambda x: torch.linalg.inv(x), (torch.eye(3) * 2,)),
    "a tensor subclass": (doubled, (TwoTensor(torch.randn(3), torch.randn(3)),)),
    "a gradient": (doubled, (torch.randn(3, requires_grad=True),)),
}


@pytest.mark.parametrize("what", ASK_FOR_MORE)
def test_what_asks_for_more_goes_the_whole_way(what: str, made: Made) -> None:
    if what.startswith("a token") and short_calls.version_of(torch.__version__) == "2.11":
        pytest.skip("what may raise has no effect yet")
    function, inputs = ASK_FOR_MORE[what]
    call = compiled(function)
    for _ in range(3):
        given = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        again = [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]
        for got, wanted in zip(_flat(call(*given)), _flat(function(*again)), strict=True):
            torch.testing.assert_close(got, wanted)
        assert [one.shape for one in given] == [one.shape for one in again]
    assert made and not any(is_short(one) for one in made)


def _flat(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def test_sizes_that_change_are_marked_on_results(made: Made) -> None:
    """AOTAutograd tells Dynamo of them, for the next graph."""
    function, marked = compiled(doubled, dynamic=True), list[dict[str, Any]]()
    for size in (3, 4, 5):
        result = function(torch.ones(size))
        assert torch.equal(result, torch.full((size,), 2.0))
        marked.append(result.__dict__)
    (call,) = made
    assert is_short(call)
    assert marked[0] and {0} in marked[0].values() and marked[1] == marked[0] == marked[2]


def test_assertions_of_aot_autograd_stay(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._functorch.config as config

    with config.patch(debug_assert=True):
        function, x = compiled(doubled), torch.randn(3)
        for _ in range(3):
            assert torch.equal(function(x), x * 2)
    # With no assertion to make, there is no other function between; where there is one, no call is short.
    assert len(made) == 1


def test_a_version_that_nobody_has_read_goes_the_whole_way(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_calls, "READ", {})
    function, x = compiled(doubled), torch.randn(3)
    for _ in range(3):
        assert torch.equal(function(x), x * 2)
    assert len(made) == 1 and not is_short(made[0])


def other(change: str, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """A wrapper as one of another version might be, which says that it wraps the same."""

    def one(*args: Any) -> Any:
        if change == "arguments":
            return wrapper(*(arg.detach() for arg in args))
        if change == "gradients":
            inner: Any = wrapper
            for _ in range(short_calls.READ[short_calls.version_of(torch.__version__)]):
                inner = inner.__wrapped__
            with torch.enable_grad():
                return inner(list(args))
        results = wrapper(*args)
        return [result.clone() for result in results] if change == "results" else (*results, results[0])

    one.__wrapped__ = wrapper.__wrapped__  # type: ignore[attr-defined]
    return one


@pytest.mark.parametrize("change", ["arguments", "results", "gradients", "more"])
def test_a_wrapper_that_does_something_else_is_found_out(
    change: str, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    import functorch.compile

    captured = functorch.compile.aot_module_simplified
    changed = lambda *args, **named: other(change, captured(*args, **named))  # noqa: E731
    monkeypatch.setattr(functorch.compile, "aot_module_simplified", changed)
    function, x = compiled(doubled), torch.randn(3)
    for _ in range(3):
        assert torch.equal(function(x), x * 2)
    (call,) = made
    assert isinstance(call, FunctionType) and not is_short(call) and call.__code__.co_name == "call_whole"


def test_another_function_between_is_found_out(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    import functools

    import functorch.compile

    captured = functorch.compile.aot_module_simplified

    def changed(*args: Any, **named: Any) -> Callable[..., Any]:
        wrapper = captured(*args, **named)
        return functools.wraps(wrapper)(lambda *given: wrapper(*given))

    monkeypatch.setattr(functorch.compile, "aot_module_simplified", changed)
    function, x = compiled(doubled), torch.randn(3)
    for _ in range(3):
        assert torch.equal(function(x), x * 2)
    assert len(made) == 1 and not is_short(made[0])
    assert aot_autograd.captured  # the module that asks for the wrapper
