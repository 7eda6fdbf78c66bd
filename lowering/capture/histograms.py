"""`histc` over the numbers' own interval, taken apart. (Over one that is given: `lowering/aten/scatters.py`.)"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many numbers lie in each of so many equal parts of the interval from the least to the greatest; where that
    is a point, from one below to one above.

    On a GPU eager is called: it waits for the ends and raises, where an assertion would end the context.

    Errors: eager's RuntimeError where an end is not finite, without the numbers.
    Source: aten/src/ATen/native/Histogram.cpp (`select_outer_bin_edges`), cpu/HistogramKernel.cpp.
    """
    import torch

    wanted = self.dtype in (torch.float32, torch.float64) and self.device.type == "cpu"
    if not wanted or min != max or bins <= 0 or self.numel() == 0:
        return NotImplemented
    aten = torch.ops.aten
    low, high = aten.aminmax.default(self)
    finite = aten.isfinite(low) & aten.isfinite(high)
    aten._assert_async.msg(finite, "the range of the numbers is not finite")
    point = low == high
    low, high = torch.where(point, low - 1, low), torch.where(point, high + 1, high)
    part = ((self - low) * bins / (high - low)).clamp(max=bins - 1)
    part = torch.where(finite, part, 0).to(torch.int64).reshape(-1)  # so that nothing else is wrong with it
    counted = aten.new_ones(self, [1]).expand(part.shape)
    return aten.scatter_add.default(aten.new_zeros(self, [bins]), 0, part, counted)
