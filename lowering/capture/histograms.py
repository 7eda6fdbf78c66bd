"""`histc` over the numbers' own interval, and `bincount`, taken apart. (`histc` over an interval that is given:
`lowering/aten/scatters.py`.)
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import Graph, Node


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


def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Itself, where PyTorch's metadata promise the type that eager gives. Of nothing they promise that of the weights,
    and eager gives int64; and those of torch 2.11 promise that of the numbers, so that a count gives only the size.

    bincount(x, w, n)  ->  scatter_add(zeros(size(bincount(x, n))), 0, x, w)

    The size is a symbol in all of them, as it is to PyTorch's metadata, also where it is plain: AOTAutograd has counted
    the sizes of subclasses by those.

    Source: aten/src/ATen/native/SummaryOps.cpp.
    """
    import torch
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    aten = torch.ops.aten
    numbers = self.dtype
    if self.dim() != 1 or numbers == torch.bool or numbers.is_floating_point or numbers.is_complex:
        return NotImplemented
    places = self if numbers == torch.int64 else aten._to_copy.default(self, dtype=torch.int64)
    if statically_known_true(self.shape[0] == 0) and statically_known_true(minlength >= 0):
        if weights is None and places is self:
            return NotImplemented
        size = aten.bincount.default(places, None, minlength).shape[0]
        return aten.full.default([size], 0, dtype=torch.int64, device=self.device)
    if _counts_are_promised():
        return NotImplemented
    if weights is None:
        return NotImplemented if places is self else aten.bincount.default(places, None, minlength)
    if weights.dim() != 1 or not statically_known_true(weights.shape[0] == self.shape[0]):
        return NotImplemented
    kind = torch.float32 if weights.dtype == torch.float32 else torch.float64
    size = aten.bincount.default(places, None, minlength).shape[0]
    zeros = aten.full.default([size], 0, dtype=kind, device=self.device)
    return aten.scatter_add.default(zeros, 0, places, weights.to(kind))


@functools.cache
def _counts_are_promised() -> bool:
    """Whether PyTorch's metadata know that counts are whole numbers of 64 bits."""
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv
    from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

    with _disable_current_modes(), FakeTensorMode(shape_env=ShapeEnv()):
        return torch.ops.aten.bincount.default(torch.empty(2, dtype=torch.int32)).dtype == torch.int64


def counts(node: Node) -> tuple[Graph, list[Node]] | None:
    """What a call of `bincount` means, as a graph, and what that is given. How many counts there are, one more than
    the greatest number, Python reads between two pieces. None for a call that this does not mean, or that eager
    refuses.

    bincount(x, w, n)  ->  scatter_add(zeros(k), 0, x, w) where k = max(x, n − 1) + 1

    Errors: eager's, of the program, where a number is negative.
    Source: aten/src/ATen/native/SummaryOps.cpp.
    """
    import torch
    from torch.fx import Graph
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    from cuesta.lowering.capture.inserting import NodeWriter
    from cuesta.lowering.capture.plan import as_symbol, bindings_of

    aten = torch.ops.aten
    known: list[Any] = [*node.args, *(None, 0)[len(node.args) - 1 :]]
    named: dict[str, Any] = {"weights": known[1], "minlength": known[2], **node.kwargs}
    x, weights, least = cast("Node", known[0]), cast("Node | None", named["weights"]), named["minlength"]
    value: Tensor = node.meta["val"]
    numbers: Tensor = x.meta["val"]
    size = value.shape[0]
    if type(least) is not int or least < 0 or list(bindings_of(node)) != [as_symbol(size)]:
        return None
    if numbers.dim() != 1 or numbers.dtype == torch.bool or numbers.is_floating_point() or numbers.is_complex():
        return None
    if weights is not None and not (
        weights.meta["val"].dim() == 1 and statically_known_true(weights.meta["val"].shape[0] == numbers.shape[0])
    ):
        return None

    kinds = {torch.float32: torch.float32, None: torch.int64}
    if value.dtype != kinds.get(None if weights is None else weights.meta["val"].dtype, torch.float64):
        return None
    graph, given = Graph(), [x] if weights is None else [x, weights]
    inputs: list[Node] = []
    for source in given:
        inputs.append(graph.placeholder(source.name))
        inputs[-1].meta["val"] = source.meta["val"]
    output = graph.output(())
    output.meta = dict(node.meta)
    write = NodeWriter(graph, output)
    kind = {"device": value.device}
    places = write.of_type(inputs[0], torch.int64)
    fine = write(aten.all.default, write(aten.ge.Scalar, places, 0))
    write(aten._assert_async.msg, fine, "bincount only supports 1-d non-negative integral inputs.")
    floor = write(aten.full.default, [1], least - 1, dtype=torch.int64, **kind)
    greatest = write(aten.amax.default, write(aten.cat.default, [places, floor]), [0])
    number = write.unvalued(aten._local_scalar_dense.default, write(aten.add.Scalar, greatest, 1))
    number.meta |= {"val": size, "unbacked_bindings": {as_symbol(size): ()}}
    zeros = write(aten.full.default, [number], 0, dtype=value.dtype, **kind)
    if weights is None:
        many = numbers.shape[0] if type(numbers.shape[0]) is int else write(aten.sym_size.int, places, 0)
        counted = write(aten.expand.default, write(aten.new_ones.default, zeros, [1]), [many])
    else:
        counted = write.of_type(inputs[1], value.dtype)
    output.args = ([write(aten.scatter_add.default, zeros, 0, places, counted)],)
    return graph, given
