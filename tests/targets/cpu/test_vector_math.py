"""Every function against float64: dense sweeps, a sample of all bit patterns, and the edges."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from cuesta.dialects import elem
from cuesta.targets.cpu import vector_math
from cuesta.targets.cpu.features import describe, host_features
from cuesta.targets.cpu.x86_instructions import has_look_up
from tests.targets.cpu.kernels import DTYPES, load_math_functions

Apply = Callable[..., torch.Tensor]

ONE_ARGUMENT = sorted(vector_math.FUNCTIONS - vector_math.TWO_ARGUMENTS - {"cbrt", "tgamma"})
INTERVALS = {
    "acos": (-1, 1), "acosh": (1, 20), "asin": (-1, 1), "atanh": (-1, 1), "cosh": (-90, 90), "erf": (-4.5, 4.5),
    "exp": (-104, 89), "exp2": (-151, 129), "expm1": (-20, 89), "lgamma": (0.1, 30), "log": (0.5, 2), "log10": (0.5, 2),
    "log1p": (-1, 3), "log2": (0.5, 2), "rsqrt": (0, 4), "sigmoid": (-104, 104), "sinh": (-90, 90), "sqrt": (0, 4),
    "tanh": (-10, 10),
}  # fmt: skip
EDGES = (
    0.0, 1e-45, 1e-40, 1.1754942e-38, 1.1754944e-38, 1e-20, 0.25, 0.5, 0.70710677, 0.70710683, 1.0, 1.5707964,
    3.1415927, 3.92, 9.01, 17.0, 65536.0, 65540.0, 1e10, 1e18, 2e18, 87.33655, 88.722835, 88.72284, 89.41, 89.42,
    103.97208, 103.98, 126.0, 127.99999, 128.0, 149.0, 150.0, 2.0**126, 3.2e38, 3.4028235e38, math.inf,
)  # fmt: skip


def reference(name: str) -> Callable[..., torch.Tensor]:
    return getattr(torch, name)


def ulp_errors(got: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """The distance in units in the last place of f32; where the truth overflows, infinity is the right answer."""
    got = got.double()
    _, exponent = torch.frexp(truth)  # truth = m · 2^exponent, ½ ≤ m < 1
    unit = torch.ldexp(torch.ones_like(truth), (exponent - 24).clamp_min(-149))
    errors = (got - truth).abs() / unit
    largest = torch.finfo(torch.float32).max
    overflow = truth.abs() > largest * (1 + 2.0**-25)
    errors = torch.where(overflow, torch.where(got.abs() >= largest, 0.0, math.inf), errors)
    return torch.where(got == truth, 0.0, errors)


def all_patterns(step: int = 16411) -> torch.Tensor:
    patterns = torch.arange(-(2**31), 2**31, step).to(torch.int32).view(torch.float32)
    return patterns[: patterns.numel() // 16 * 16].contiguous()


def edges() -> torch.Tensor:
    values = [sign * value for value in EDGES for sign in (1, -1)] + [math.nan]
    values += [1.0] * (-len(values) % 16)
    return torch.tensor(values, dtype=torch.float32)


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.slow), host_features().f32_lanes])
def apply_f32(request: pytest.FixtureRequest) -> Apply:
    return load_math_functions([*ONE_ARGUMENT, "pow", "atan2", "hypot", "cbrt"], "f32", request.param)


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_f32_is_within_its_bound(name: str, apply_f32: Apply) -> None:
    low, high = INTERVALS.get(name, (-100, 100))
    bound = vector_math.accuracy_ulp(name, "f32")
    for x in (torch.linspace(low, high, 1 << 16), torch.linspace(-1, 1, 1 << 14), all_patterns(), edges()):
        truth = reference(name)(x.double())
        got = apply_f32(name, x)
        if name == "lgamma":  # see accuracy_ulp
            within = (x > 2.5) & (x < 4e36) | (x > 0) & (x < 0.5)
            got, truth = got[within], truth[within]
        assert torch.equal(got.isnan(), truth.isnan())
        errors = torch.nan_to_num(ulp_errors(got, truth), nan=0.0, posinf=math.inf)
        worst = int(errors.argmax())
        assert errors[worst] <= bound, f"{errors[worst]} ULP: {got[worst]} is not {truth[worst]}"


@pytest.mark.parametrize(
    "name", ["expm1", "log1p", "sin", "tan", "tanh", "erf", "asinh", "atan", "sinh", "asin", "atanh"]
)
def test_zero_keeps_its_sign(name: str, apply_f32: Apply) -> None:
    got = apply_f32(name, torch.tensor([0.0, -0.0] * 8))
    assert torch.equal(torch.signbit(got), torch.tensor([False, True] * 8))
    assert not got.any()


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_saturating_functions_stay_in_range(name: str, apply_f32: Apply) -> None:
    x = torch.cat([torch.linspace(-20, 20, 1 << 16), edges()])
    got = apply_f32(name, x)
    assert not (got.abs() > 1).any()
    ends = apply_f32(name, torch.tensor([math.inf, -math.inf] * 8))[:2]
    assert ends.tolist() == [1.0, 0.0 if name == "sigmoid" else -1.0]


@pytest.mark.skipif(not has_look_up(host_features()), reason="the table needs AVX2")
def test_erf_by_table_is_closer(apply_f32: Apply) -> None:
    x = torch.cat([torch.linspace(-4, 4, 1 << 20), all_patterns()])
    assert float(torch.nan_to_num(ulp_errors(apply_f32("erf", x), torch.erf(x.double()))).max()) <= 2.5


@pytest.mark.skipif(not has_look_up(host_features()), reason="the table needs AVX2")
def test_a_table_in_two_registers_is_the_table_in_one() -> None:
    """As on a machine that has AVX2 only; whatever the number of lanes."""
    of_halves = describe(host_features().triple, dict.fromkeys(("avx", "avx2", "fma"), True))
    x = torch.cat([torch.linspace(-5, 5, 80 * 41), edges(), torch.zeros(-len(edges()) % 80)])
    truth = torch.erf(x.double())
    results = [load_math_functions(["erf"], "f32", lanes, of_halves)("erf", x) for lanes in (1, 2, 5, 8, 16)]
    assert float(torch.nan_to_num(ulp_errors(results[0], truth)).max()) <= 2.5
    for result in (*results[1:], load_math_functions(["erf"], "f32", 16)("erf", x)):
        assert torch.equal(result.nan_to_num(7.0), results[0].nan_to_num(7.0))


@pytest.mark.parametrize("name", ["pow", "atan2"])
def test_two_arguments_f32(name: str, apply_f32: Apply) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(1 << 14, generator=generator) * 8
    y = torch.randn(1 << 14, generator=generator) * 3
    assert float(ulp_errors(apply_f32(name, x, y), reference(name)(x.double(), y.double())).max()) <= 1.5
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, math.inf, -math.inf, math.nan, 0.5])
    pairs = torch.cartesian_prod(special, special)
    pairs = torch.cat([pairs, torch.ones(-len(pairs) % 16, 2)])
    first, second = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    expected = reference(name)(first.double(), second.double()).float()
    torch.testing.assert_close(apply_f32(name, first, second), expected, rtol=3e-7, atol=0, equal_nan=True)


def test_hypot_is_rounded_to_the_nearest(apply_f32: Apply) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 1 << 16, generator=generator)
    for scale in (1.0, 1e19, 1e-20, 1e-41):
        first, second = x * scale, y * scale * 0.7
        assert torch.equal(apply_f32("hypot", first, second), first.double().hypot(second.double()).float())
    special = torch.tensor([0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan, 3e38, 1e-45, -1e-45])
    pairs = torch.cartesian_prod(special, special)
    pairs = torch.cat([pairs, torch.ones(-len(pairs) % 16, 2)])
    first, second = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    torch.testing.assert_close(
        apply_f32("hypot", first, second), torch.hypot(first, second), rtol=0, atol=0, equal_nan=True
    )


def test_cube_root(apply_f32: Apply) -> None:
    x = torch.linspace(0, 1000, 1 << 12)
    assert float(ulp_errors(apply_f32("cbrt", x), x.double().pow(1 / 3)).max()) <= 1.5


@pytest.mark.parametrize("lanes", [1, 2, 4, 6, 8, 16])
def test_f64(lanes: int) -> None:
    names = [name for name in ONE_ARGUMENT if name != "lgamma"]
    apply = load_math_functions([*names, "pow"], "f64", lanes)
    x = torch.linspace(0.01, 0.99, 48 * 8, dtype=torch.float64)
    for name in names:
        argument = x + 1 if name == "acosh" else x
        torch.testing.assert_close(apply(name, argument), reference(name)(argument), rtol=1e-15, atol=1e-16)
    torch.testing.assert_close(apply("pow", x, x), x.pow(x), rtol=1e-15, atol=0)


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 12, 16, 32])
def test_any_number_of_lanes_gives_the_same_result(lanes: int) -> None:
    names = ["exp", "erf", "sin", "log1p"]
    x = torch.linspace(-3, 60000, 96 * 4)
    single, several = load_math_functions(names, "f32", 1), load_math_functions(names, "f32", lanes)
    for name in names:
        assert torch.equal(single(name, x).view(torch.int32), several(name, x).view(torch.int32)), name
    # Library functions, cut and padded to the registers of the machine:
    atan, pow_ = load_math_functions(["atan"], "f32", lanes), load_math_functions(["pow"], "f32", lanes)
    torch.testing.assert_close(atan("atan", x), x.atan())
    torch.testing.assert_close(pow_("pow", x.abs(), x / 1e5), x.abs().pow(x / 1e5))


def test_large_angles_use_the_library() -> None:
    function = vector_math.math_function("sin", "f32", 8)
    assert len(function.external_symbols) == 1
    assert "noinline cold" in function.definition


@pytest.mark.parametrize("name", ["sinh", "cosh", "asinh", "acosh"])
def test_hyperbolic_functions_of_f64_are_vectors_where_those_do_not_overflow(name: str) -> None:
    function = vector_math.math_function(name, "f64", 8)
    if vector_math.host_features().library_widths("f64"):
        assert {symbol.startswith("Sleef_") for symbol in function.external_symbols} == {True, False}
    edges = [0.0, 1.0, 20.0, 699.0, 701.0, 709.9, 710.2, 711.0, 1e149, 1e151, 1e155, 1.7e308, math.inf, math.nan]
    edges = [x for edge in edges for x in (edge, -edge) if name != "acosh" or not x < 1]

    def exact(x: float) -> float:
        try:
            return getattr(math, name)(x)
        except OverflowError:
            return math.copysign(math.inf, x) if name == "sinh" else math.inf

    alike = torch.tensor(edges, dtype=torch.float64).repeat_interleave(16)
    for x in (alike, torch.tensor(edges * 16, dtype=torch.float64)):
        actual = load_math_functions([name], "f64", 8)(name, x)
        truth = torch.tensor([exact(value) for value in x.tolist()], dtype=torch.float64)
        torch.testing.assert_close(actual, truth, rtol=1e-15, atol=0, equal_nan=True)


def test_a_machine_without_vector_library_calls_libm() -> None:
    plain = describe("x86_64-unknown-linux-gnu", {"sse2": True, "avx2": False})
    function = vector_math.math_function("atan", "f32", 4, plain)
    assert function.external_symbols == {"atanf"}
    assert function.definition.count("call float @atanf(") == 4


def test_functions_are_cached() -> None:
    assert vector_math.math_function("exp", "f32", 8) is vector_math.math_function("exp", "f32", 8)


def test_every_inline_function_states_its_accuracy() -> None:
    assert set(vector_math.ACCURACY_ULP) == vector_math.INLINE_F32
    assert set(DTYPES) == {"f32", "f64"}


def test_the_table_of_elem_states_no_better_accuracy_than_the_functions_have() -> None:
    calls = {row.llvm["f"][5:]: row for row in elem.TABLE.values() if row.llvm.get("f", "").startswith("math:")}
    assert len(calls) > 20
    too_good = {name: row.ulp for name, row in calls.items() if row.ulp < vector_math.accuracy_ulp(name, "f32")}
    assert not too_good
