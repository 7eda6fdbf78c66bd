"""What is updated in place, on any device: parts of a cache, a step of a decoder that has one, optimizers' steps."""

# pyright: reportCallIssue=false
# (configurations take more keywords than their signatures say)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.case import Bound, Case
from benchmarks.fused import BETA1, BETA2, DECAY, EPSILON, RATE

POSITIONS = 8192
TENSORS = 200


# -- a cache -----------------------------------------------------------------------------------------------------------


def index_copy(cache: Tensor, new: Tensor, where: Tensor) -> None:
    cache.index_copy_(2, where, new)


def slice_copy(cache: Tensor, new: Tensor, where: Tensor) -> None:
    cache[:, :, 10:11].copy_(new)


def cache_inputs() -> tuple[Tensor, Tensor, Tensor]:
    """A cache of 16 MiB, what one more token adds to it, and where."""
    return torch.zeros(1, 8, POSITIONS, 64), torch.randn(1, 8, 1, 64), torch.tensor([5])


class Decoding(nn.Module):
    """One token of a Llama with a static cache of 1024 positions, which it writes to."""

    def __init__(self) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

        super().__init__()
        config = LlamaConfig(
            hidden_size=512,
            intermediate_size=1376,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=8,
            vocab_size=8192,
            max_position_embeddings=1024,
        )
        self.model = LlamaForCausalLM(config).eval()
        self.cache = StaticCache(config=config, max_cache_len=1024)
        with torch.no_grad():
            self(torch.randint(0, 8192, (1, 16)), torch.arange(16))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        for layer in self.cache.layers:  # a cache may count for itself; every call is of the same position
            if isinstance(counter := getattr(layer, "cumulative_length", None), Tensor):
                counter.copy_(positions[0])
        return self.model(tokens, past_key_values=self.cache, cache_position=positions).logits

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Decoding:
        """Moves and casts the cache as well, which is no buffer of anybody's."""
        super()._apply(fn, recurse)
        for layer in self.cache.layers:
            layer.keys, layer.values = fn(layer.keys), fn(layer.values)
            layer.device, layer.dtype = layer.keys.device, layer.keys.dtype
            if isinstance(counter := getattr(layer, "cumulative_length", None), Tensor):
                layer.cumulative_length = counter.to(layer.device)
        return self


def decoding() -> tuple[Decoding, dict[str, Tensor]]:
    return Decoding(), {"tokens": torch.tensor([[7]]), "positions": torch.tensor([16])}


# -- many tensors ------------------------------------------------------------------------------------------------------


def adamw_of_lists(
    parameters: list[Tensor], gradients: list[Tensor], first: list[Tensor], second: list[Tensor], steps: list[Tensor]
) -> None:
    """A step of AdamW in operators of lists, with counters on the device.

    Source: `_multi_tensor_adam` of torch/optim/adam.py, `capturable`.
    """
    foreach: Any = torch
    foreach._foreach_add_(steps, 1)
    foreach._foreach_mul_(parameters, 1 - RATE * DECAY)
    foreach._foreach_lerp_(first, gradients, 1 - BETA1)
    foreach._foreach_mul_(second, BETA2)
    foreach._foreach_addcmul_(second, gradients, gradients, 1 - BETA2)
    rates, corrections = foreach._foreach_pow(BETA1, steps), foreach._foreach_pow(BETA2, steps)
    foreach._foreach_sub_(rates, 1)
    foreach._foreach_sub_(corrections, 1)
    foreach._foreach_neg_(corrections)
    foreach._foreach_div_(rates, RATE)
    foreach._foreach_reciprocal_(rates)
    foreach._foreach_sqrt_(corrections)
    roots = foreach._foreach_sqrt(second)
    foreach._foreach_div_(roots, corrections)
    foreach._foreach_add_(roots, EPSILON)
    foreach._foreach_div_(roots, rates)
    foreach._foreach_addcdiv_(parameters, first, roots)


def clip_norms(gradients: list[Tensor]) -> Tensor:
    """What `clip_grad_norm_` does to gradients."""
    norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    torch._foreach_mul_(gradients, (1.0 / (norm + 1e-6)).clamp(max=1.0))  # pyright: ignore[reportPrivateImportUsage]
    return norm


def optimizer_state() -> tuple[list[Tensor], ...]:
    """Tensors of a small transformer's sizes."""
    sizes = [((64, 64), (64,), (128, 32), (256,))[number % 4] for number in range(TENSORS)]
    parameters, gradients = [torch.randn(size) for size in sizes], [torch.randn(size) for size in sizes]
    steps = [torch.tensor(10.0) for _ in sizes]
    return parameters, gradients, [0.1 * g for g in gradients], [0.1 * g * g for g in gradients], steps


def row(name: str, function: Callable[..., Any], inputs: Callable[[], tuple[Any, ...]], bound: Bound) -> Case:
    return Case(name, lambda: (function, inputs()), bound=bound)


CASES: tuple[Case, ...] = (
    row("cache-index-copy", index_copy, cache_inputs, "overhead"),
    row("cache-slice-copy", slice_copy, cache_inputs, "overhead"),
    Case("decode-static-cache", decoding),
    row("adamw-of-lists", adamw_of_lists, optimizer_state, "overhead"),
    row("clip-norms", clip_norms, lambda: (optimizer_state()[1],), "overhead"),
)
"""One row each."""
