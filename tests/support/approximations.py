"""The approximations of `elem`'s table: programs of one op each, and what is measured of them against float64."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.dialects import elem
from tests.targets.cpu.test_vector_math import all_patterns, edges

CASES = [(name, precision) for name, row in elem.TABLE.items() for precision in row.approximations]
"""The name of an op and the type for which it is good enough."""

LEAST_NORMAL, LEAST = 2.0**-126, 2.0**-149


def operands_of(name: str) -> list[Tensor]:
    """All sorts of numbers: dense where the functions have their bends, the edges, and a sample of all bit patterns."""
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.linspace(low, -low, 1 << 12) for low in (-0.3, -2.0, -11.0, -105.0)])
    x = torch.cat([x, torch.linspace(-151, 129, 1 << 12), all_patterns(16411 * 29), edges()])
    if elem.TABLE[name].arity == 1:
        return [x]
    return [x, x[torch.randperm(len(x), generator=generator)]]


def program_of(name: str, precision: str) -> str:
    """A program at the `loops` level: the op on `operands_of` it, the result as it is."""
    operands = operands_of(name)
    tensor = f"tensor<{len(operands[0])}xf32>"
    letters = "ab"[: len(operands)]
    loads = "\n".join(f"%v{k} = loops.load %{k}[%i] : {tensor}" for k in letters)
    return f"""
func.func @main({", ".join(f"%{k} : {tensor}" for k in letters)}) -> {tensor} {{
  %y = loops.nest (%i : {len(operands[0])}) outs(%o : {tensor}) {{
    {loads}
    %r = elem.{name} {", ".join(f"%v{k}" for k in letters)} : f32 precision {precision}
    loops.store %r, %o[%i] : {tensor}
  }}
  func.return %y : {tensor}
}}"""


def check(name: str, precision: str, result: Tensor) -> None:
    """Errors: AssertionError when the result is further off than the row says."""
    row = elem.TABLE[name]
    operands = [operand.double() for operand in operands_of(name)]
    truth = eval(row.reference, {"torch": torch, "a": operands[0], "b": operands[-1]})
    error = row.approximations[precision].error
    assert torch.equal(result.isnan(), truth.isnan())
    nearest, got = truth.float(), result.double()
    zero = (truth == 0) & ~truth.isnan()
    assert not result[zero].any()
    assert torch.equal(result[zero].signbit(), truth[zero].signbit())
    allowed = error * truth.abs().clamp_min(LEAST_NORMAL) + LEAST
    largest = torch.finfo(torch.float32).max
    off = (got - truth).abs() > allowed
    # Infinity is right for what is too large, or by the error nearly so; and no other is.
    off = torch.where(nearest.isinf(), (got != nearest.double()) & (got * truth.sign() < largest * (1 - error)), off)
    off &= ~((truth.abs() > largest * (1 - error)) & (got == truth.sign() * torch.inf))
    off &= ~truth.isnan()
    if precision == "weight":
        off &= (got != 0) | (truth.abs() >= LEAST_NORMAL)
    (bad,) = off.nonzero(as_tuple=True)
    worst = [(float(operands[0][k]), float(operands[-1][k]), float(got[k]), float(truth[k])) for k in bad[:5]]
    assert not worst, f"{len(bad)} of {len(off)}: (a, b, result, truth) = {worst}"
