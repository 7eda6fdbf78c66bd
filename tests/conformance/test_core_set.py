"""The measure of what is generated of the core set: what it counts, and that it sees what is left."""

from __future__ import annotations

import pytest
import torch

from cuesta.options import Options
from tests.conformance import core_set

aten = torch.ops.aten


def test_every_core_overload_has_a_kind() -> None:
    named = [name for names in core_set.KINDS.values() for name in names.split()]
    assert len(named) == len(set(named))
    overloads = core_set.core_overloads()
    kinds = {core_set.kind_of(overload) for overload in overloads}
    assert len(overloads) > 180 and {"pointwise", "reduction", *core_set.KINDS} == kinds
    assert kinds - set(core_set.OURS) == {
        "product", "convolution", "sort", "transform", "to the host", core_set.NO_CALLS
    }  # fmt: skip
    ours = {str(overload) for kind in core_set.OURS for overload in core_set.kinds()[kind]}
    assert core_set.ON_PURPOSE.keys() <= ours


def test_what_is_called_by_hand_is_in_the_core_set() -> None:
    core = set(map(str, core_set.core_overloads()))
    assert {f"aten.{name}" for name, _, _ in core_set.calls_by_hand()} <= core


X = torch.rand(3, 4)


@pytest.mark.parametrize(
    ("overload", "arguments", "left"),
    [
        (aten.exp.default, (X,), {}),
        (aten.native_layer_norm.default, (X, [4], X[0], X[1], 1e-5), {}),
        (aten.view.default, (X, [2, 6]), {}),
        (aten.upsample_nearest2d.vec, (X[None, None], None, [2.0, 2.0]), {}),
        (aten._fft_r2c.default, (X, [1], 0, True), {"aten._fft_r2c.default": 1}),
    ],
    ids=lambda value: str(value) if isinstance(value, torch._ops.OpOverload) else "",
)
def test_what_is_left_of_a_call(
    overload: torch._ops.OpOverload, arguments: tuple[object, ...], left: dict[str, int]
) -> None:
    found = core_set.left_of(overload, (arguments, {}), Options.parse())
    assert found == dict.fromkeys(core_set.TARGETS, left)


def test_targets_count_apart() -> None:
    """Random numbers are eager's on the CPU, and our own on a GPU."""
    call = ((X, 0.5, True), {})
    assert core_set.left_of(aten.native_dropout.default, call, Options.parse()) == {
        "cpu": {"aten.bernoulli.p": 1},
        "cuda": {},
    }
    calls: core_set.Calls = {aten.native_dropout.default: {}}
    core_set.add_call(calls, aten.native_dropout.default, torch.float32, *call)
    found = core_set.measure(calls, Options.parse())
    assert core_set.not_generated(found, "cpu") == [*calls] and not core_set.not_generated(found, "cuda")


def test_one_call_that_is_left_is_enough() -> None:
    """An overload counts as generated only if every call of it is; complex numbers count apart."""
    scan = aten.cumsum.default
    calls: core_set.Calls = {scan: {}, aten._fft_r2c.default: {}, aten.mm.default: {}}
    core_set.add_call(calls, scan, torch.float32, (X, 0), {})
    core_set.add_call(calls, scan, torch.float32, (X, 0), {})
    core_set.add_call(calls, scan, torch.float32, (X.to(torch.complex64), 0), {})
    core_set.add_call(calls, aten._fft_r2c.default, torch.float32, (X, [1], 0, True), {})
    found = core_set.measure(calls, Options.parse())
    counted = [(one.calls, one.generated["cpu"], one.complex_calls) for one in found.values()]
    assert counted == [(1, 1, 1), (1, 0, 0), (0, 0, 0)]
    assert core_set.not_generated(found, "cpu") == [aten._fft_r2c.default, aten.mm.default]
    assert core_set.fractions(found, "cpu")[:2] == [
        "cpu: of the kinds of ours 1 of 1, 100.0%; 1 of 1 calls; of complex numbers 1 of 1 calls",
        "cpu: of all 1 of 3, 33.3%",
    ]


def test_some_operators_are_measured_alone() -> None:
    overloads = core_set.core_overloads(["scatter", "exp"])
    assert list(map(str, overloads)) == ["aten.exp.default", "aten.scatter.src", "aten.scatter.value"]


def test_what_was_never_called_is_not_generated() -> None:
    assert core_set.not_generated({aten.exp.default: core_set.Found()}, "cpu") == [aten.exp.default]


def test_random_numbers_of_our_own_are_generated() -> None:
    options = Options.parse(options={"random": "philox"})
    for call in (((X, 0.5, True), {}), (([3, 4],), {})):
        overload = aten.native_dropout.default if len(call[0]) == 3 else aten.rand.default
        assert not core_set.left_of(overload, call, options)["cpu"]
        assert core_set.left_of(overload, call, Options.parse())["cpu"]
