"""Do two runs of a program agree, and how far off is each from the truth?

A tolerance that is found by trying says little: what is close enough for a softmax is wrong for a rotation. So the
truth is the same computation in float64, and the yardstick somebody else's distance from it: eager's, or that of the
reference interpreter, which rounds after every op as the program's text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import host
from cuesta.dialects.core.structs import struct

INEXACT = frozenset(
    {
        "accumulate-products",
        "align-products",
        "assign-layouts",
        "aten-to-loops",
        "carry-reductions",
        "choose-libraries",
        "choose-products",
        "elide-roundings",
        "fuse-products",
        "join-products",
        "multiply-patches",
        "nest-products",
        "nest-row-products",
        "nest-word-products",
        "relax-accuracy",
        "separate-biases",
        "shorten-walks",
        "split-reductions",
        "split-walks",
        "sum-columns-with-rows",
        "widen-products",
    }
)
"""The passes that may change roundings. `aten-to-loops` compares our formulas with eager's kernels, `assign-layouts`
has libraries add up in the order of another layout, `split-walks` and `sum-columns-with-rows` round each part of a sum;
the others are policy.

All other passes are compared bit by bit: they regroup sums at most, which the interpreter adds up in float64.
"""

MOVES_MEMORY = "kernel-to-host"
"""The pass after which tensors lie where they will lie. A library adds up a product in an order that depends on where
its operands begin and what strides they have (MKL's matrix times vector, on an AMD EPYC), so that with such calls this
pass is compared as those above.
"""
_PRODUCTS = frozenset(
    {"mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "mkldnn::_linear_pointwise"}
)


def keeps_bits(stage: str, program: ModuleOp) -> bool:
    """Whether the results of a program are to be the same to the bit before and after a stage."""
    if stage in INEXACT:
        return False
    return stage != MOVES_MEMORY or not any(
        isinstance(op, host.ExternOp) and not _PRODUCTS.isdisjoint(op.overload.split(".")) for op in program.walk()
    )


_FLOORS = {torch.float16: 4.0, torch.bfloat16: 4.0, torch.float32: 16.0, torch.complex64: 16.0}
LARGEST_OF_NOISE = 4.0
"""Of some hundred numbers that are noise the largest is 2.5 to 4 times their root mean square.

Source: a definition: a normal distribution has one in 16,000 beyond.
"""
_FLOOR = 64.0
"""Units in the last place that machine code may be off whatever the interpreter is, since that adds up in float64."""


@struct
class Comparison:
    """One tensor, compared. Errors are the largest and the root mean square of |result − truth|."""

    name: str
    largest: float
    eager_largest: float
    mean: float
    eager_mean: float
    allowed_largest: float
    allowed_mean: float
    problem: str | None = None
    yardstick: str = "eager"
    """Whose errors the others are."""

    @property
    def passes(self) -> bool:
        """Within what the yardstick's own error allows, and of its dtype, shape and strides."""
        return self.problem is None and self.largest <= self.allowed_largest and self.mean <= self.allowed_mean

    def __str__(self) -> str:
        verdict = "ok  " if self.passes else "FAIL"
        if self.problem is not None:
            return f"{verdict} {self.name}: {self.problem}"
        if not self.allowed_largest:
            return f"{verdict} {self.name}: the same"
        return (
            f"{verdict} {self.name}: max error {self.largest:.3g} ({self.yardstick} {self.eager_largest:.3g}, "
            f"allowed {self.allowed_largest:.3g}), rms {self.mean:.3g} ({self.yardstick} {self.eager_mean:.3g})"
        )


def compare(
    name: str,
    actual: Any,
    expected: Any,
    truth: Any,
    *,
    factor: float = 3.0,
    ulps: float = 4.0,
    strides: bool = True,
    yardstick: str = "eager",
) -> Comparison:
    """Compare one result with the yardstick's and with the truth; what is no tensor must be equal to the former.

    Where the yardstick has no digit right, as of what cancels to 0 (the gradient of a key's bias), its errors are
    noise, and the largest of them a draw: it counts as `LARGEST_OF_NOISE` times their root mean square at least, which
    itself is compared as always.
    """
    if not isinstance(expected, torch.Tensor):
        return _exact(name, None if _same_value(actual, expected) else f"{actual!r}, {yardstick} {expected!r}")
    problem = _metadata_problem(actual, expected, strides, yardstick)
    if problem is not None:
        return _exact(name, problem)
    if expected.layout is not torch.strided:
        actual, expected, truth = actual.to_dense(), expected.to_dense(), truth.to_dense()
    if not (expected.is_floating_point() or expected.is_complex()):
        return _exact(name, None if torch.equal(actual, expected) else _unequal(actual, expected, yardstick))
    if expected.numel() == 0:
        return _exact(name, None)
    wide = torch.complex128 if expected.is_complex() else torch.float64
    actual, reference = actual.detach().to(wide), expected.detach().to(wide)
    truth = truth.detach().to(wide)
    problem = _non_finite_problem(actual, reference, truth, yardstick)
    if problem is not None:
        return _exact(name, problem)
    finite = torch.isfinite(truth) & torch.isfinite(actual)
    if not finite.any():
        return _exact(name, None)
    truth = truth[finite]
    # Where eager overflows and the result does not, it is the result that has to be near the truth.
    error = (actual[finite] - truth).abs()
    eager_error = (reference[finite] - truth).abs().nan_to_num(0.0, 0.0)
    unit = torch.finfo(expected.dtype).eps * ulps
    largest, mean = eager_error.max().item(), _root_mean_square(eager_error)
    if mean >= _root_mean_square(truth.abs()):
        largest = max(largest, LARGEST_OF_NOISE * mean)
    return Comparison(
        name,
        largest=error.max().item(),
        eager_largest=eager_error.max().item(),
        mean=_root_mean_square(error),
        eager_mean=mean,
        allowed_largest=factor * largest + unit * truth.abs().max().item(),
        allowed_mean=factor * mean + unit * _root_mean_square(truth.abs()),
        yardstick=yardstick,
    )


def compare_results(
    actual: Sequence[Any],
    expected: Sequence[Any],
    truth: Sequence[Any],
    *,
    names: Sequence[str] = (),
    yardstick: str = "reference",
    factor: float = 3.0,
    strides: bool = True,
) -> list[Comparison]:
    """Compares the results of machine code, one by one, with those of the reference interpreter on the same inputs,
    and with its results when it rounds nothing (`reference.run(..., precise=True)`), which are the truth.

    A result passes when its distance from the truth is at most `factor` times the interpreter's, plus some units in the
    last place of the largest magnitude (4 in 16 bits, 16 in f32, 64 in f64). Integers and booleans must be equal, what
    is not finite too. Results may lie on any device.
    Errors: ValueError when there are not as many of one as of the other.
    """
    if not len(actual) == len(expected) == len(truth):
        raise ValueError(f"{len(actual)} results, {len(expected)} of the {yardstick}, {len(truth)} of the truth")
    found: list[Comparison] = []
    for position, triple in enumerate(zip(actual, expected, truth, strict=True)):
        ours, theirs, true = (one.detach().cpu() if isinstance(one, torch.Tensor) else one for one in triple)
        name = names[position] if position < len(names) else f"result {position}"
        ulps = _FLOORS.get(theirs.dtype, _FLOOR) if isinstance(theirs, torch.Tensor) else _FLOOR
        if isinstance(theirs, torch.Tensor) and theirs.element_size() == 1:
            ulps = 1.0
        found.append(compare(name, ours, theirs, true, factor=factor, ulps=ulps, strides=strides, yardstick=yardstick))
    return found


def compare_exactly(actual: Sequence[Any], expected: Sequence[Any], *, names: Sequence[str] = ()) -> list[Comparison]:
    """Compares results to the bit, except that all NaN are equal. Strides do not count.

    Errors: ValueError when there are not as many of one as of the other.
    """
    from cuesta.targets.reference.validate import difference

    if len(actual) != len(expected):
        raise ValueError(f"{len(actual)} results, {len(expected)} of the reference")
    pairs = zip(actual, expected, strict=True)
    problems = [difference(before, after, before, exact=True, told=True) for after, before in pairs]
    every = [names[at] if at < len(names) else f"result {at}" for at in range(len(problems))]
    return [_exact(name, problem) for name, problem in zip(every, problems, strict=True)]


def _metadata_problem(actual: Any, expected: torch.Tensor, strides: bool, yardstick: str) -> str | None:
    if not isinstance(actual, torch.Tensor):
        return f"{type(actual).__name__}, {yardstick} gives a tensor"
    for aspect in ("dtype", "shape", "device", "layout"):
        if getattr(actual, aspect) != getattr(expected, aspect):
            return f"{aspect} {getattr(actual, aspect)}, {yardstick} {getattr(expected, aspect)}"
    if expected.layout is not torch.strided:
        return None
    # The stride of a dimension of size one, or of an empty tensor, is never used.
    used = [dim for dim, size in enumerate(expected.shape) if size > 1] if expected.numel() else []
    if strides and any(actual.stride(dim) != expected.stride(dim) for dim in used):
        return f"strides {actual.stride()}, {yardstick} {expected.stride()}"
    return None


def _non_finite_problem(
    actual: torch.Tensor, expected: torch.Tensor, truth: torch.Tensor, yardstick: str
) -> str | None:
    """Where the truth is NaN or infinite the result must be too; it may be elsewhere only where the yardstick is."""
    bad = ~torch.isfinite(truth)
    if not torch.allclose(actual[bad], truth[bad], equal_nan=True) and not torch.allclose(
        actual[bad], expected[bad], equal_nan=True
    ):
        return "NaN or infinity is lost or differs"
    if (~torch.isfinite(actual) & torch.isfinite(truth) & torch.isfinite(expected)).any():
        return f"NaN or infinity where {yardstick} is finite"
    return None


def _unequal(actual: torch.Tensor, expected: torch.Tensor, yardstick: str) -> str | None:
    if torch.equal(actual, expected):
        return None
    from cuesta.targets.reference.numerics import bits  # torch compares no wider unsigned integers

    bad = bits(actual) != bits(expected)
    place = tuple(bad.nonzero()[0].tolist())
    return (
        f"not {yardstick}'s values: {int(bad.sum())} of {bad.numel()} differ, first at {list(place)}: "
        f"{actual[place].item()}, {yardstick} {expected[place].item()}"
    )


def _exact(name: str, problem: str | None) -> Comparison:
    return Comparison(name, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, problem)


def _same_value(actual: Any, expected: Any) -> bool:
    both_nan = isinstance(expected, float) and expected != expected and actual != actual
    return both_nan or (type(actual) is type(expected) and actual == expected)


def _root_mean_square(values: torch.Tensor) -> float:
    return values.square().mean().sqrt().item()
