"""Random numbers at the level `loops`: whose they are, how they are distributed, and that no two draws are one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.lowering.aten.aten_to_loops import AtenToLoopsPass
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.targets import reference

N = 20_000


def lowered(function: Callable[..., Any], *inputs: Any, **options: Any) -> ModuleOp:
    module = import_graph(make_fx(function, tracing_mode="fake")(*inputs)).module
    AtenToLoopsPass(**options).apply(Context(), module)
    module.verify()
    return module


def calls(module: ModuleOp) -> list[str]:
    return [op.overload for op in entry_block(module).ops if isinstance(op, loops.ExternOp)]


def draws(function: Callable[..., Any], *inputs: torch.Tensor, seed: int = 0) -> list[torch.Tensor]:
    """What a function gives with Philox, which has one call only: that which draws the key."""
    module = lowered(function, *inputs, random="philox")
    assert calls(module) == ["aten.randint.low"]
    torch.manual_seed(seed)
    results = reference.run(module, list(inputs))
    assert all(isinstance(result, torch.Tensor) for result in results)
    return results  # type: ignore[return-value]


def assert_distributed(x: torch.Tensor, cumulative: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Kolmogorov and Smirnov: the greatest distance of the distribution functions, beyond which one in 10,000 is."""
    ordered = x.flatten().double().sort().values
    steps = torch.arange(len(ordered) + 1, dtype=torch.float64) / len(ordered)
    expected = cumulative(ordered)
    distance = torch.maximum((steps[1:] - expected).max(), (expected - steps[:-1]).max())
    assert float(distance) < 2.23 / len(ordered) ** 0.5


def normal(x: torch.Tensor) -> torch.Tensor:
    return torch.special.ndtr(x)


def test_uniform() -> None:
    first, second, wide, shifted = draws(
        lambda: (
            torch.rand(N),
            torch.rand(N // 10, 10),
            torch.rand(N, dtype=torch.float64),
            torch.ops.aten.uniform(torch.empty(N), -3.0, 5.0),
        )
    )
    for x in (first, second, wide):
        assert_distributed(x, lambda x: x)
        assert x.min() >= 0 and x.max() < 1
        assert len(x.unique()) > 0.99 * N
    assert_distributed(shifted, lambda x: (x + 3) / 8)
    assert shifted.min() >= -3 and shifted.max() < 5
    # Different draws, and different parts of one, have nothing to do with one another.
    table = torch.stack([first.double(), second.flatten().double(), wide, first.double().roll(N // 4)])
    assert (torch.corrcoef(table) - torch.eye(4)).abs().max() < 4 / N**0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_uniform_numbers_stay_below_one(dtype: torch.dtype) -> None:
    (x, y) = draws(lambda: (torch.rand(N, dtype=dtype), torch.ops.aten.uniform(torch.empty(N, dtype=dtype), 1.0, 2.0)))
    assert x.dtype is dtype and x.min() >= 0 and x.max() < 1 and abs(x.double().mean() - 0.5) < 0.01
    assert y.min() >= 1 and y.max() < 2


def test_normal() -> None:
    mean = torch.arange(5.0)[:, None].expand(5, 1000).contiguous()
    x, wide, moved, of_means = draws(
        lambda mean: (
            torch.randn(N),
            torch.randn(N, dtype=torch.float64),
            torch.ops.aten.normal_functional(torch.empty(N, dtype=torch.bfloat16), 3.0, 0.5),
            torch.normal(mean, 2.0),
        ),
        mean,
    )
    assert_distributed(x, normal)
    assert_distributed(wide, normal)
    assert_distributed((of_means - mean) / 2, normal)
    assert moved.dtype is torch.bfloat16
    assert abs(moved.double().mean() - 3) < 0.02 and abs(moved.double().std() - 0.5) < 0.02
    assert x.abs().max() > 3.5
    pairs = x.double().view(4, N // 4)  # the four numbers of a call
    assert (torch.corrcoef(pairs) - torch.eye(4)).abs().max() < 0.06
    assert (torch.corrcoef(pairs**2) - torch.eye(4)).abs().max() < 0.06


def test_exponential() -> None:
    (x,) = draws(lambda: torch.ops.aten.exponential(torch.empty(N), 2.0))
    assert_distributed(x, lambda x: 1 - torch.exp(-2 * x))
    assert x.min() > 0


def test_bernoulli() -> None:
    p = torch.tensor([0.0, 1.0, 0.25]).repeat(1000)
    x, mask, of_each = draws(
        lambda p: (
            torch.ops.aten.bernoulli.p(torch.empty(N), 0.3),
            torch.ops.aten.bernoulli.p(torch.empty(N, dtype=torch.bool), 1.0),
            torch.bernoulli(p),
        ),
        p,
    )
    assert set(x.tolist()) == {0.0, 1.0} and abs(x.mean() - 0.3) < 0.013
    assert mask.all()
    none, every, quarter = of_each.view(1000, 3).T
    assert not none.any() and every.all() and abs(quarter.mean() - 0.25) < 0.055


def test_integers() -> None:
    small, wide, bytes_, narrow = draws(
        lambda: (
            torch.randint(-3, 7, (N,)),
            torch.randint(0, 1 << 40, (N,)),
            torch.randint(0, 256, (N,), dtype=torch.uint8),
            torch.randint_like(torch.empty(N), 2, 4),
        )
    )
    assert (torch.bincount(small + 3, minlength=10) - N / 10).abs().max() < 4 * (N * 0.09) ** 0.5
    assert small.min() == -3 and small.max() == 6
    assert_distributed(wide.double() / (1 << 40), lambda x: x)
    assert len(bytes_.unique()) == 256
    assert set(narrow.tolist()) == {2.0, 3.0}


@pytest.mark.parametrize("sizes", [(), (1,), (0,), (3, 0), (255,), (256,), (257,), (3, 5, 7)], ids=str)
def test_any_number_of_them(sizes: tuple[int, ...]) -> None:
    for result in draws(lambda: (torch.rand(sizes), torch.randn(sizes, dtype=torch.float64))):
        assert result.shape == sizes and bool((result.abs() < 10).all())


def test_a_seed_repeats_and_another_does_not() -> None:
    def function() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(100), torch.rand(100)

    first, second = draws(function)
    again, _ = draws(function)
    other, _ = draws(function, seed=1)
    assert torch.equal(first, again)
    assert not (first == second).any() and not (first == other).any()
    # The generator has moved on: what comes next is new.
    module = lowered(function, random="philox")
    torch.manual_seed(0)
    reference.run(module, [])
    later, _ = reference.run(module, [])
    assert not (first == later).any()  # type: ignore[operator]


def test_on_the_cpu_the_stream_is_eagers_unless_another_is_asked_for() -> None:
    def function() -> torch.Tensor:
        return torch.rand(3) + torch.randn(3)

    assert (
        calls(lowered(function))
        == calls(lowered(function, random="eager"))
        == ["aten.rand.default", "aten.randn.default"]
    )
    with pytest.raises(PassFailedException, match="no random numbers of 'none'; there are device, eager, philox"):
        lowered(function, random="none")


def test_what_has_no_rule_stays_a_call() -> None:
    module = lowered(lambda: (torch.randperm(129), torch.rand(3)), random="philox")
    assert calls(module) == ["aten.randperm.default", "aten.randint.low"]
    module = lowered(lambda: torch.randperm(9, dtype=torch.bfloat16), random="philox")
    assert calls(module) == ["aten.randperm.default"]
    module = lowered(lambda: torch.ops.aten.exponential(torch.empty(3, dtype=torch.float64)), random="philox")
    assert calls(module) == ["aten.exponential.default"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 3, 100])
def test_permutations(count: int, dtype: torch.dtype) -> None:
    module = lowered(lambda: (torch.randperm(count, dtype=dtype), torch.randperm(count, dtype=dtype)), random="philox")
    assert set(calls(module)) <= {"aten.randint.low"}
    first, second = reference.run(module, [])
    for one in (first, second):
        assert isinstance(one, torch.Tensor) and one.dtype is dtype
        assert torch.equal(one.sort()[0], torch.arange(count, dtype=dtype))
    assert count < 100 or not torch.equal(first, second)  # type: ignore[arg-type]


def test_all_permutations_are_equally_likely() -> None:
    """Of three, each of the six forty times of 240, give or take four deviations."""
    module = lowered(lambda: tuple(torch.randperm(3) for _ in range(240)), random="philox")
    torch.manual_seed(5)
    found = Counter(tuple(one.tolist()) for one in reference.run(module, []))  # type: ignore[union-attr]
    assert len(found) == 6 and all(abs(count - 40) < 4 * (240 * 5 / 36) ** 0.5 for count in found.values())
