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

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from cuesta.dialects.core.extension import Lowering, active
from cuesta.lowering.capture import insertions, of_complex, quantization
from cuesta.lowering.capture.corrections import (
    in_rows,
    index_fill,
    int_mm,
    put,
    row_major,
    select,
    take,
    unless_eager_refuses,
    vector_norm,
)
from cuesta.lowering.capture.floats_of_8_bits import whole_where_it_computes
from cuesta.lowering.capture.gradients import masked_scatter_backward, weight_norm_backward
from cuesta.lowering.capture.histograms import bincount, histc
from cuesta.lowering.capture.memory_ranges import memory_of, order_in_memory
from cuesta.lowering.capture.packed_weights import int4pack_mm_for_cpu
from cuesta.lowering.capture.trilinear import trilinear

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
    # What autograd knows of a result: the decomposition is a view of a tensor that may have a gradient.
    "detach",
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
    # Products that eager does not round before it adds them, which may be beyond what the type holds.
    "addcmul",
    "addcdiv",
    "lerp",
    # Of complex numbers eager's kernel knows what is infinite; the decomposition divides infinity by itself.
    "sgn",
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
    "roll",
    # The same; `lowering/capture/whole_operators.py` brings them this far.
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
)

TYPED_ALIKE = (
    "mse_loss_backward", "huber_loss_backward", "binary_cross_entropy", "binary_cross_entropy_backward",
)  # fmt: skip
"""What eager refuses of tensors of several types, by the version of torch; the formulas take any."""


def decomposition_table() -> DecompositionTable:
    """The decomposition table that the backend gives to AOTAutograd: without what an extension in force lowers itself.

    Errors: CuestaError when an extension lowers an overload of ATen that there is not.
    """
    table = _table(quantization.is_imported())
    added = {name: rule for name, rule in active().lowerings.items() if name.startswith("aten.")}
    if not added:
        return table
    whole = {_overload_of_extension(name, rule) for name, rule in added.items()}
    return {overload: decomposition for overload, decomposition in table.items() if overload not in whole}


def _overload_of_extension(name: str, rule: Lowering) -> OpOverload:
    """An overload of ATen that an extension lowers. One that autograd takes apart is never seen: a warning says so."""
    import torch

    _, packet, overload = name.split(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload, None)
    if found is None:
        from cuesta.dialects.core.blame import accuse  # a program from the cache does without it

        accuse(rule, f"is to lower {name}, which this torch ({torch.__version__}) does not have")
    if torch._C._dispatch_has_kernel_for_dispatch_key(found.name(), "CompositeImplicitAutograd"):  # pyright: ignore[reportPrivateUsage]
        owner = active().owner(rule)
        warnings.warn(
            f"cuesta: extension {'' if owner is None else owner.name!r}: {name} is never lowered, because autograd "
            "takes it apart; a dump's fx.py shows the overloads that arrive",
            stacklevel=2,
        )
    return found


@functools.cache
def _table(with_quantized: bool) -> DecompositionTable:
    """The table without extensions. Built once, in about 5 ms, and again when there are operators of torch.ao."""
    from torch._decomp import (
        _core_aten_decompositions_post_autograd,  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]
    )

    # `torch.export.default_decompositions` is the public spelling of this set. It also materialises 500 entries for
    # composite ops, which autograd has already taken apart when AOTAutograd traces, and costs 100 ms.
    table = cast("DecompositionTable", _core_aten_decompositions_post_autograd())
    for packet in KEPT_WHOLE:
        for overload in _overloads(packet):
            table.pop(overload, None)
    table = {overload: _unless_refused(formula) for overload, formula in table.items()}
    table |= {one: unless_eager_refuses(one, table[one]) for one in map(_overload, TYPED_ALIKE) if one in table}
    table.update(_own_decompositions())
    table.update(quantization.decompositions(exported=with_quantized))
    table.update(of_complex.decompositions())
    return {overload: whole_where_it_computes(overload, formula) for overload, formula in table.items()}


def _unless_refused(formula: Callable[..., Any]) -> Callable[..., Any]:
    """One of PyTorch's decompositions, but what it refuses stays a call: eager may do it (`nan_to_num` of complex
    numbers). What eager refuses, too, its metadata function does.
    """

    @functools.wraps(formula)
    def apply(*arguments: Any, **named: Any) -> Any:
        try:
            return formula(*arguments, **named)
        except (RuntimeError, TypeError, ValueError):
            return NotImplemented

    return apply


def _overload(packet: str) -> OpOverload:
    import torch

    return getattr(torch.ops.aten, packet).default


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
        aten._reshape_alias_copy.default: unsafe_view,
        # A view that says of its memory that it means the other sign. Machine code reads memory.
        aten._neg_view.default: aten.neg.default,
        aten._efficientzerotensor.default: aten.zeros.default,
        aten.bernoulli.p: bernoulli,
        aten._weight_int4pack_mm_for_cpu.default: int4pack_mm_for_cpu,
        aten.native_dropout.default: native_dropout,
        **{
            overload: in_rows(overload)
            for overload in (
                aten.normal.float_Tensor,
                aten.poisson.default,
                aten.rrelu_with_noise_functional.default,
            )
        },
        aten.nll_loss_backward.default: nll_loss_backward,
        aten.select_backward.default: select_backward,
        aten.slice_backward.default: slice_backward,
        aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
        aten._log_softmax.default: log_softmax,
        aten._trilinear.default: trilinear,
        aten.dist.default: distance,
        aten.index_reduce.default: index_reduce,
        aten.scatter_reduce.two: scatter_reduce,
        **{
            overload: in_order_of_first(overload, whole_if_ordered=True)
            for overload in (
                aten._native_batch_norm_legit.default,
                aten._native_batch_norm_legit.no_stats,
                aten._native_batch_norm_legit_functional.default,
                aten._native_batch_norm_legit_no_training.default,
                aten._batch_norm_with_update_functional.default,
                aten.native_batch_norm.default,
            )
        },
        **{
            overload: in_order_of_first(overload)
            for overload in (aten.channel_shuffle.default, aten.max_unpool2d.default)
        },
        aten.glu_backward.default: row_major(_of_pytorch(aten.glu_backward.default)),
        aten._amp_foreach_non_finite_check_and_unscale.default: unscale,
        aten.index_add.default: index_add,
        aten.bincount.default: bincount,
        aten.histc.default: histc,
        aten.take.default: take,
        aten.put.default: put,
        aten.masked_scatter_backward.default: masked_scatter_backward,
        **{overload: _of_pytorch(overload) for overload in (aten.tril_indices.default, aten.triu_indices.default)},
        aten.linalg_vector_norm.default: vector_norm,
        aten.select.int: select,
        aten.index_fill.int_Scalar: index_fill,
        aten._int_mm.default: int_mm,
        **{
            overload: copy_of(view)
            for overload, view in (
                (aten.view_copy.default, aten.reshape.default),  # not only what a view could be
                (aten.permute_copy.default, aten.permute.default),
                (aten.narrow_copy.default, aten.narrow.default),
                (aten.unbind_copy.int, aten.unbind.int),
            )
        },
        aten._weight_norm_interface_backward.default: weight_norm_backward,
        aten.resize_as.default: resize_as,
        **insertions.of_aten(),
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


def unsafe_view(self: Tensor, size: Sequence[int | torch.SymInt], stride: Any = None) -> Tensor:
    """A view; that nothing else sees its input matters to autograd only. (`whole_operators.py` calls two so.)"""
    import torch

    return torch.ops.aten.view.default(self, size)


def copy_of(view: Callable[..., Any]) -> Callable[..., Any]:
    """The operator that makes a copy of what a view, or each of several, sees."""

    def decomposition(*arguments: Any, **keywords: Any) -> Any:
        import torch

        seen = view(*arguments, **keywords)
        if isinstance(seen, torch.Tensor):
            return torch.ops.aten.clone.default(seen, memory_format=torch.contiguous_format)
        return [torch.ops.aten.clone.default(one, memory_format=torch.contiguous_format) for one in seen]

    return decomposition


# --- Random masks as bools: a library call (or a kernel of ours) draws them, everything around fuses, and a byte an
# element is what the backward pass keeps ----------------------------------------------------------------------------


def bernoulli(self: Tensor, p: float = 0.5, *, generator: torch.Generator | None = None) -> Tensor:
    """The draw as bools, and a cast: in the order in which `self` lies in memory, as eager's in place, which
    AOTAutograd writes so. (`draw_in_rows` sees to those that are not.) Eager's numbers do not depend on the type that
    they are asked for in.
    """
    import torch

    order = order_in_memory(self)
    if generator is not None or (self.dtype == torch.bool and list(order) == sorted(order)):
        return NotImplemented
    return torch.ops.aten._to_copy.default(_random_mask(self, p, order), dtype=self.dtype)


def native_dropout(self: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """(x · mask · 1/(1 − p), mask), drawn as eager does: in the order in which x lies in memory."""
    if train is False:
        return NotImplemented
    mask = _random_mask(self, 1 - p, order_in_memory(self))
    return self * mask * (1 / (1 - p) if p < 1 else 0.0), mask


def _random_mask(self: Tensor, p: float, order: Sequence[int]) -> Tensor:
    """Bools of the sizes of `self`, drawn with the axes in that order. The operator takes the sizes from a tensor of no
    memory to speak of.
    """
    import torch

    aten = torch.ops.aten
    one = aten.full.default([], False, dtype=torch.bool, device=self.device)
    mask = aten.bernoulli.p(aten.expand.default(one, [self.shape[axis] for axis in order]), p)
    places = [list(order).index(axis) for axis in range(self.dim())]
    return mask if places == sorted(places) else aten.permute.default(mask, places)


# --- Gradients of a loss that was scaled -----------------------------------------------------------------------------


def unscale(self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor) -> tuple[list[Tensor], Tensor]:
    """Every x · s, in f32 at least, and whether any x was infinite or NaN: their greatest magnitudes tell.

    Source: aten::_amp_foreach_non_finite_check_and_unscale.
    """
    import torch

    aten = torch.ops.aten
    factor = aten.reshape.default(inv_scale, [])
    halves = (torch.float16, torch.bfloat16)
    if any(x.dtype in halves for x in self):
        # As an operand of a product with one, the factor would be rounded first.
        result = [(x.float() * factor).to(x.dtype) if x.dtype in halves else x * factor for x in self]
    else:
        result = list(aten._foreach_mul.Tensor(self, factor))
    filled = [x for x in self if x.numel()]
    if not filled:
        return result, found_inf.clone()
    wide = torch.float64 if any(x.dtype == torch.float64 for x in filled) else torch.float32
    greatest = torch.stack(list(aten._foreach_norm.Scalar(filled, float("inf"), wide)))
    return result, aten.where.ScalarOther(aten.isfinite.default(greatest).all(), found_inf, 1.0)


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
    if self.dim() == 1 and target.dim() == 1:  # eager takes as many targets as classes, and reads the first
        if target.shape[0] != self.shape[0]:
            found = f"got input: {list(self.shape)}, target: {list(target.shape)}"
            raise RuntimeError(f"size mismatch ({found})")
        target = aten.select.int(target, 0, 0)
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


# --- Formulas that PyTorch has kernels for, and no decomposition that the core set takes ---------------------------


def distance(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """‖x − y‖ₚ"""
    import torch

    return torch.ops.aten.linalg_vector_norm.default(self - other, p)


def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A scatter whose index is the same in all of the other dims."""
    import torch

    aten = torch.ops.aten
    if not self.dim() and not source.dim():
        return index_reduce(self[None], 0, index, source[None], reduce, include_self=include_self)[0]
    if not self.dim() or index.dim() != 1 or source.dim() != self.dim() or self.dtype != source.dtype:
        return NotImplemented
    dim = dim % self.dim()
    if index.shape[0] != source.shape[dim] or any(
        size != wanted for k, (size, wanted) in enumerate(zip(source.shape, self.shape, strict=True)) if k != dim
    ):
        return NotImplemented  # eager says what is wrong
    shape = [1] * self.dim()
    shape[dim] = index.shape[0]
    indices = index.to(torch.int64).view(shape).expand(source.shape)
    return aten.scatter_reduce.two(self, dim, indices, source, reduce, include_self=include_self)


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A mean is a sum and a count; the other reductions are one call."""
    import torch

    aten = torch.ops.aten
    if reduce != "mean" or not self.dim() or not self.is_floating_point():
        return NotImplemented
    total = aten.scatter_reduce.two(self, dim, index, src, "sum", include_self=include_self)
    ones = aten.ones_like.default(src, dtype=torch.float32)
    start = aten.full_like.default(self, float(include_self), dtype=torch.float32)
    count = aten.clamp_min.default(aten.scatter_add.default(start, dim, index, ones), 1.0)
    return (total / count).to(self.dtype)


# --- PyTorch's formula, and what it leaves out ----------------------------------------------------------------------


def _of_pytorch(overload: OpOverload) -> Callable[..., Any]:
    from torch import _decomp

    table = cast("DecompositionTable", _decomp.decomposition_table)  # pyright: ignore[reportUnknownMemberType]
    return table[overload]


def in_order_of_first(overload: OpOverload, *, whole_if_ordered: bool = False) -> Callable[..., Any]:
    """PyTorch's, in eager's order in memory: row-major, or channels last where the first argument is; and in memory of
    its own, where PyTorch's is a view of the argument (channels shuffled in one group).

    With `whole_if_ordered`, an operator whose first argument lies in such an order is not taken apart: there is a rule
    for it, and its metadata function is right.
    """

    def decomposition(self: Tensor, *arguments: Any, **options: Any) -> Any:
        from torch._prims_common import suggest_memory_format

        if whole_if_ordered and self.is_contiguous(memory_format=suggest_memory_format(self)):
            return NotImplemented
        result = _of_pytorch(overload)(self, *arguments, **options)
        order = suggest_memory_format(self)
        if isinstance(result, tuple):
            first, *rest = cast("tuple[Tensor, ...]", result)
            return first.contiguous(memory_format=order), *rest
        laid = result.contiguous(memory_format=order)
        return laid.clone(memory_format=order) if memory_of(laid) == memory_of(self) else laid

    return decomposition


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


def resize_as(self: Tensor, other: Tensor, *, memory_format: torch.memory_format | None = None) -> Tensor:
    """PyTorch's, which without a memory format makes the result contiguous; eager leaves the strides alone."""
    import torch

    if memory_format is None:
        return torch.ops.aten.resize.default(self, other.shape)
    return _of_pytorch(torch.ops.aten.resize_as.default)(self, other, memory_format=memory_format)
