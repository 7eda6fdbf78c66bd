"""Models of any size whose whole training step is timed: a stack of linear layers, and a decoder of transformers.

Both return a tuple that begins with the loss when they are given labels, and with their output otherwise.
"""

# pyright: reportCallIssue=false
# (configurations take more keywords than their signatures say)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Inputs = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a model is, and what one step of it reads. `width` is a multiple of `heads`."""

    layers: int
    width: int
    batch: int
    sequence: int = 1
    """Tokens of each of the batch. A stack of linear layers has one row for each token."""
    heads: int = 1
    vocabulary: int = 256


class Mlp(nn.Module):
    """Square linear layers with GELU after each; its loss is the mean squared distance to the labels."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x: Tensor, labels: Tensor | None = None) -> tuple[Tensor]:
        for layer in self.layers:
            x = F.gelu(layer(x))
        return (x if labels is None else F.mse_loss(x, labels),)


def mlp(sizes: Sizes) -> nn.Module:
    return Mlp(sizes.layers, sizes.width)


def mlp_inputs(sizes: Sizes) -> Inputs:
    rows = sizes.batch * sizes.sequence
    return {"x": torch.randn(rows, sizes.width), "labels": torch.randn(rows, sizes.width)}


def gpt2(sizes: Sizes) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=sizes.vocabulary,
        n_embd=sizes.width,
        n_layer=sizes.layers,
        n_head=sizes.heads,
        n_positions=sizes.sequence,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # else it is guessed from the class, with a warning that breaks the graph
    return model


def gpt2_inputs(sizes: Sizes) -> Inputs:
    tokens = torch.randint(0, sizes.vocabulary, (sizes.batch, sizes.sequence))
    return {"input_ids": tokens, "labels": tokens.clone()}


MODELS: dict[str, tuple[Callable[[Sizes], nn.Module], Callable[[Sizes], Inputs]]] = {
    "mlp": (mlp, mlp_inputs),
    "gpt2": (gpt2, gpt2_inputs),
}
"""By name: what makes the model, and what makes its inputs."""


def made(name: str, sizes: Sizes, device: str, *, seed: int = 0) -> tuple[nn.Module, Inputs]:
    """A model in training mode with the same weights at every call, and inputs drawn from `seed`."""
    make_model, make_inputs = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2024)
        model = make_model(sizes).train()
        torch.manual_seed(seed)
        inputs = make_inputs(sizes)
    return model.to(device), {key: value.to(device) for key, value in inputs.items()}


def forward_backward(function: Any, inputs: Inputs) -> Tensor:
    """Forward, loss and backward; the gradients are added to those of the parameters. Gives the loss."""
    loss = function(**inputs)[0]
    loss.backward()
    return loss
