"""Which ATen ops AOTAutograd takes apart while it traces, and which it leaves whole for us.

The table starts from PyTorch's own core set. Two lists change it, and each line of them says why:

* `KEPT_WHOLE`: ops that lose something when taken apart: a library call that is better than any loop nest, the random
  stream of eager, or simply the knowledge that ten nodes are one formula (`lowering/aten_to_loops` has a row for it).
* `OWN_DECOMPOSITIONS`: ops that we take apart in another way than PyTorch: either because its reference does far more
  Python work for the same single node (tracing is most of the compile time: every traced node costs 100-200 µs), or
  because ours fuses and its does not.

Everything not named here is as in PyTorch. An op that is in neither table and that no lowering knows runs in eager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch._ops import OpOverload

    DecompositionTable = dict[OpOverload, Callable[..., Any]]

KEPT_WHOLE: tuple[str, ...] = (
    # Library calls. PyTorch's core set takes CPU flash attention apart into the matrix products and the softmax.
    "_scaled_dot_product_flash_attention_for_cpu",
    "baddbmm",
    # A scatter-add over the vocabulary. The decomposition ends in a sequential `index_put(accumulate=True)`.
    "embedding_dense_backward",
    # The decomposition is `rand < p`: another random stream than eager's.
    "bernoulli",
    # One formula each, a row of the lowering's pointwise table; taken apart they are five to twenty nodes to trace,
    # with a pair of casts around every operation in reduced precision.
    "gelu_backward",
    "silu",
    "silu_backward",
    "sigmoid_backward",
    "tanh_backward",
    "threshold_backward",
    # Index arithmetic, with a rule of its own; taken apart it becomes tensors of indices, each of them checked.
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "reflection_pad3d_backward",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
)


@cache
def decomposition_table() -> DecompositionTable:
    """The decomposition table that the backend gives to AOTAutograd. Built once, in about 5 ms."""
    from torch._decomp import (
        _core_aten_decompositions_post_autograd,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
    )

    # `torch.export.default_decompositions` is the public spelling of this set. It also materialises 500 entries for
    # composite ops, which autograd has already taken apart when AOTAutograd traces, and costs 100 ms.
    table = cast("DecompositionTable", _core_aten_decompositions_post_autograd())
    for packet in KEPT_WHOLE:
        for overload in _overloads(packet):
            table.pop(overload, None)
    table.update(_own_decompositions())
    return table


def _overloads(packet: str) -> list[OpOverload]:
    import torch

    whole = getattr(torch.ops.aten, packet)
    return [getattr(whole, name) for name in whole.overloads()]


def _own_decompositions() -> DecompositionTable:
    import torch

    aten = torch.ops.aten
    return {
        aten.t.default: transpose_matrix,
        aten.transpose.int: transpose,
        aten._unsafe_view.default: unsafe_view,
        aten.nll_loss_backward.default: nll_loss_backward,
        aten.select_backward.default: select_backward,
        aten.slice_backward.default: slice_backward,
        aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
        aten._log_softmax.default: log_softmax,
        aten.index_add.default: index_add,
        aten.max_unpool2d.default: max_unpool2d,
        aten.resize_as.default: resize_as,
        aten.select_scatter.default: select_scatter,
    }


# --- So that the partitioner can choose ----------------------------------------------------------------------------


def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """x - max x - log sum exp (x - max x), in f32 at least: a backward pass needs two numbers of every row, and x.

    Whole, the result would be kept for it: as much memory again as the logits of a language model.
    """
    import torch

    aten = torch.ops.aten
    result = torch.float32 if half_to_float else self.dtype
    wide = torch.float32 if self.dtype in (torch.float16, torch.bfloat16) else self.dtype
    x = self if self.dtype == wide else aten._to_copy.default(self, dtype=wide)
    if x.numel() == 0:
        return aten.empty.memory_format(self.shape, dtype=result, device=self.device)
    shifted = x - aten.amax.default(x, [dim], True)
    logarithms = shifted - aten.log.default(aten.sum.dim_IntList(aten.exp.default(shifted), [dim], True))
    if not logarithms.is_contiguous():
        logarithms = aten.clone.default(logarithms, memory_format=torch.contiguous_format)
    return logarithms if result == wide else aten._to_copy.default(logarithms, dtype=result)


# --- One node for one node, without PyTorch's reference layer (which is Python over Python over the dispatcher) -------


def transpose_matrix(self: Tensor) -> Tensor:
    """The permutation that exchanges both dimensions of a matrix; a vector stays."""
    import torch

    return torch.ops.aten.permute.default(self, [1, 0] if self.dim() == 2 else list(range(self.dim())))


def transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """The permutation that exchanges two dimensions."""
    import torch

    rank = self.dim()
    order = list(range(rank))
    if rank:
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return torch.ops.aten.permute.default(self, order)


def unsafe_view(self: Tensor, size: Sequence[int | torch.SymInt]) -> Tensor:
    """A view; that nothing else sees its input matters to autograd only."""
    import torch

    return torch.ops.aten.view.default(self, size)


# --- Backward formulas that stay pointwise, where PyTorch's scatter into zeros --------------------------------------


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """d/dx[n, c] = -w[c] · g[n] · (c = target[n] and target[n] ≠ ignore_index), divided by the total weight for a mean

    PyTorch scatters −1 into zeros; comparing every class with the target is one pointwise nest, which fuses into the
    backward of log_softmax that nearly always follows.

    Source: aten::nll_loss_backward; reductions are 0 none, 1 mean, 2 sum.
    """
    import torch

    aten = torch.ops.aten
    grad = grad_output / total_weight if reduction == 1 else grad_output
    if self.dim() == 2:
        target = aten.unsqueeze.default(target, 1)
        grad = aten.unsqueeze.default(grad, 1) if grad.dim() else grad
    classes = aten.arange.start_step(0, self.shape[-1], 1, dtype=target.dtype, device=self.device)
    chosen = aten.eq.Tensor(classes, target)
    if ignore_index >= 0:  # a negative one equals no class
        chosen = aten.bitwise_and.Tensor(chosen, aten.ne.Scalar(target, ignore_index))
    value = aten.neg.default(grad)
    if weight is not None:
        value = aten.mul.Tensor(value, weight)
    zero = aten.full.default([], 0.0, dtype=self.dtype, device=self.device)
    return aten.where.self(chosen, value, zero)


def select_backward(
    grad_output: Tensor, input_sizes: Sequence[int | torch.SymInt], dim: int, index: int | torch.SymInt
) -> Tensor:
    """The gradient of x[..., i, ...]: zeros but for slice i, as one pad of the gradient."""
    import torch

    aten = torch.ops.aten
    dim = dim % len(input_sizes)
    index = index + input_sizes[dim] if index < 0 else index
    return _pad_dimension(aten.unsqueeze.default(grad_output, dim), dim, index, input_sizes[dim] - index - 1)


def slice_backward(
    grad_output: Tensor,
    input_sizes: Sequence[int | torch.SymInt],
    dim: int,
    start: int | torch.SymInt,
    end: int | torch.SymInt,
    step: int | torch.SymInt,
) -> Tensor:
    """The gradient of x[..., a:b, ...]: the gradient padded with zeros; a step other than one goes PyTorch's way."""
    import torch

    aten = torch.ops.aten
    dim = dim % len(input_sizes)
    if step != 1:
        return aten.slice_scatter.default(grad_output.new_zeros(input_sizes), grad_output, dim, start, end, step)
    size = input_sizes[dim]
    # `min` and `max` that neither guard on a symbol nor need its value; torch leaves their types open.
    sym_min = cast("Callable[[object, object], int]", torch.sym_min)  # pyright: ignore[reportUnknownMemberType]
    sym_max = cast("Callable[[object, object], int]", torch.sym_max)  # pyright: ignore[reportUnknownMemberType]
    first = sym_min(sym_max(start + size if start < 0 else start, 0), size)
    return _pad_dimension(grad_output, dim, first, size - first - grad_output.shape[dim])


def _pad_dimension(self: Tensor, dim: int, before: int | torch.SymInt, after: int | torch.SymInt) -> Tensor:
    """x with `before` and `after` zeros around it in one dimension."""
    import torch

    padding: list[int | torch.SymInt] = [0, 0] * (self.dim() - dim - 1) + [before, after]
    return torch.ops.aten.constant_pad_nd.default(self, padding)


# --- A formula that keeps its digits, where PyTorch's cancels -------------------------------------------------------


def soft_margin_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """d/dx log(1 + exp(-x·y)) = -y · sigmoid(-x·y) · g, divided by the number of elements for a mean

    PyTorch's `y · (sigmoid(x·y) - 1)` is the same, but loses every digit where the sigmoid is near one.

    Source: aten::soft_margin_loss_backward; reductions are 0 none, 1 mean, 2 sum.
    """
    import torch

    aten = torch.ops.aten
    negated = aten.neg.default(target)
    slope = aten.mul.Tensor(negated, aten.sigmoid.default(aten.mul.Tensor(negated, self)))
    gradient = aten.mul.Tensor(slope, grad_output)
    return gradient / self.numel() if reduction == 1 else gradient


# --- PyTorch's formula, and what it leaves out ----------------------------------------------------------------------


def _of_pytorch(overload: OpOverload) -> Callable[..., Any]:
    from torch import _decomp

    table = cast("DecompositionTable", _decomp.decomposition_table)  # pyright: ignore[reportUnknownMemberType]
    return table[overload]


def index_add(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """PyTorch's, with eager's check that the slices that are added have the size of those they are added to.

    PyTorch's ends in an `index_put`, which would broadcast them.
    """
    import torch
    from torch._prims_common import canonicalize_dim

    if self.dim():
        place = canonicalize_dim(self.dim(), dim)
        sizes, added = list(self.shape), list(source.shape)
        if len(sizes) != len(added) or any(k != place and sizes[k] != added[k] for k in range(len(sizes))):
            raise RuntimeError(
                "source tensor shape must match self tensor shape, excluding the specified dimension. "
                f"Got self.shape = {sizes} source.shape = {added}"
            )
    return _of_pytorch(torch.ops.aten.index_add.default)(self, dim, index, source, alpha=alpha)


def max_unpool2d(self: Tensor, indices: Tensor, output_size: Sequence[int]) -> Tensor:
    """PyTorch's, in eager's order in memory: channels last where the argument is."""
    import torch
    from torch._prims_common import suggest_memory_format

    result = _of_pytorch(torch.ops.aten.max_unpool2d.default)(self, indices, output_size)
    return result.contiguous(memory_format=suggest_memory_format(self))


def resize_as(self: Tensor, other: Tensor, *, memory_format: torch.memory_format | None = None) -> Tensor:
    """PyTorch's, which without a memory format makes the result contiguous; eager leaves the strides alone."""
    import torch

    if memory_format is None:
        return torch.ops.aten.resize.default(self, other.shape)
    return _of_pytorch(torch.ops.aten.resize_as.default)(self, other, memory_format=memory_format)


def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """PyTorch's, with eager's checks (it would broadcast the slice, and write nothing where there is no such slice),
    and in the order in memory that `self` has.
    """
    import torch
    from torch._prims_common import canonicalize_dim

    aten = torch.ops.aten
    if not self.dim():
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    place = canonicalize_dim(self.dim(), dim)
    size = self.shape[place]
    if not -size <= index < size:
        sizes = list(self.shape)
        raise IndexError(f"select(): index {index} out of range for tensor of size {sizes} at dimension {place}")
    expected = [extent for axis, extent in enumerate(self.shape) if axis != place]
    if expected != list(src.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {expected}"
        )
    result = _of_pytorch(aten.select_scatter.default)(self, src, dim, index)
    return result if result.stride() == self.stride() else aten.copy.default(self, result)
