"""What the kinds of `loops.reduce` and `kernel.reduce` compute, over the trailing axes of a grid.

Sums and products of floats are accumulated in float64 and rounded once, so that they do not depend on the order of the
points (but for the rarest of roundings): a pass that regroups a reduction can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cuesta.dialects.aten.dtypes import dtype_to_type
from cuesta.dialects.core.reductions import EXTREMES, REDUCTIONS, identity


def reduce(kind: str, values: Tensor, active: Tensor | None, position: Callable[[], Tensor]) -> tuple[Tensor, ...]:
    """Reduces the last axis.

    Shapes: `values`, `active` and what `position` gives are (*outer, points); the results are (*outer).
    Requires: `position()` is the linear index of every point in the reduction's domain.
    """
    if kind in EXTREMES:
        return _arg_extreme(kind, values, active, position)
    if kind == "welford":
        return _welford(values, active)
    if active is not None or values.shape[-1] == 0:
        values = _pad(kind, values, active)
    if kind == "any":
        return (values.any(-1),)
    if kind == "all":
        return (values.all(-1),)
    if kind == "sum":
        return (values.sum(-1, dtype=_accumulator(values.dtype)).to(values.dtype),)
    if kind == "prod":
        return (values.prod(-1, dtype=_accumulator(values.dtype)).to(values.dtype),)
    return (_extreme(kind, values),)


def padding(kind: str, dtype: torch.dtype) -> Tensor:
    """What changes nothing, for points that are not there."""
    return torch.tensor(identity(kind, dtype_to_type(str(dtype).removeprefix("torch."))), dtype=dtype)


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point else dtype


def _pad(kind: str, values: Tensor, active: Tensor | None) -> Tensor:
    """The values with the identity in place of what is not there, and one identity more when there is no point."""
    neutral = padding(kind, values.dtype)
    if values.shape[-1] == 0:
        return neutral.expand((*values.shape[:-1], 1))
    return values if active is None else torch.where(active, values, neutral)


def _extreme(kind: str, values: Tensor) -> Tensor:
    if values.dtype is torch.bool:
        return values.any(-1) if kind == "maximum" else values.all(-1)
    return values.amax(-1) if kind == "maximum" else values.amin(-1)


def _arg_extreme(
    kind: str, values: Tensor, active: Tensor | None, position: Callable[[], Tensor]
) -> tuple[Tensor, Tensor]:
    best = _extreme(EXTREMES[kind], _pad(kind, values, active))
    if values.shape[-1] == 0:
        return best, torch.zeros(best.shape, dtype=torch.int64)
    wanted = best.unsqueeze(-1)
    hits = (values == wanted) | ((values != values) & (wanted != wanted))
    if active is not None:
        hits = hits & active
    # argmax gives the first of equals: here the first hit, or the last.
    found = hits.to(torch.uint8).argmax(-1, keepdim=True)
    if REDUCTIONS[kind].last_nan:
        last = values.shape[-1] - 1 - hits.flip(-1).to(torch.uint8).argmax(-1, keepdim=True)
        found = torch.where(wanted != wanted, last, found)
    return best, position().expand(values.shape).gather(-1, found).squeeze(-1)


def _welford(values: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    wide = values.to(_accumulator(values.dtype))
    if active is None:
        count = torch.tensor(values.shape[-1])
    else:
        count = active.sum(-1)
        wide = torch.where(active, wide, 0.0)
    mean = wide.sum(-1) / count.clamp(min=1)
    deviation = wide - mean.unsqueeze(-1)
    if active is not None:
        deviation = torch.where(active, deviation, 0.0)
    return mean.to(values.dtype), (deviation * deviation).sum(-1).to(values.dtype)
