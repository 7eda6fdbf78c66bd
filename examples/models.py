"""Five small models with random weights: what the demo runs, what the benchmark measures.

They come from the configurations of Hugging Face transformers, so the code that is captured is the code people run,
but nothing is downloaded: weights are drawn from a fixed seed. Sizes are small enough that a laptop finishes the demo,
and large enough that run time is not all overhead. Dropout is off, so that eager and compiled results can be compared
number by number; `dropout=0.1` puts it back (on the CPU both then draw the same numbers, see the option `random`).

This file knows nothing of Cuesta.
"""

# pyright: reportCallIssue=false
# (configurations take more keywords than their signatures say)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Inputs = dict[str, torch.Tensor]
Model = Any
"""A module, or what `torch.compile` makes of one: torch types that as a mere callable."""


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A named model: `build(dropout)` gives it with its inputs, the same numbers at every call."""

    name: str
    build: Callable[[float], tuple[torch.nn.Module, Inputs]]

    def inference(self, dtype: torch.dtype = torch.float32, device: str = "cpu") -> tuple[torch.nn.Module, Inputs]:
        """The model in eval mode and the inputs of one inference (no labels)."""
        model, inputs = self._make(0.0, dtype, device)
        return model.eval(), {name: value for name, value in inputs.items() if name != "labels"}

    def training(
        self, dtype: torch.dtype = torch.float32, device: str = "cpu", dropout: float = 0.0
    ) -> tuple[torch.nn.Module, Inputs]:
        """The model in training mode and the inputs of one training step (with labels: the model returns a loss)."""
        model, inputs = self._make(dropout, dtype, device)
        return model.train(), inputs

    def _make(self, dropout: float, dtype: torch.dtype, device: str) -> tuple[torch.nn.Module, Inputs]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2024)
            model, inputs = self.build(dropout)
        model = model.to(device=device, dtype=dtype)
        return model, {
            name: value.to(device=device, dtype=dtype if value.is_floating_point() else None)
            for name, value in inputs.items()
        }


def inference_step(model: Model, inputs: Inputs) -> torch.Tensor:
    """One forward pass without autograd: the main output (logits or hidden states)."""
    with torch.no_grad():
        return model(**inputs)[0]


def training_step(model: Model, inputs: Inputs) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss and gradients of one step: forward, backward, no optimizer."""
    model.zero_grad(set_to_none=True)
    loss = model(**inputs)[0]
    loss.backward()
    # A compiled module prefixes its parameters' names; eager's names are the ones to compare by.
    gradients = {
        name.removeprefix("_orig_mod."): parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return loss.detach(), gradients


LAYERS, HIDDEN, HEADS, SEQUENCE, BATCH, VOCABULARY = 4, 256, 4, 128, 4, 2000
BLOCKS: dict[str, Any] = {"hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
"""What most configurations call the sizes of a transformer."""
TEXT: dict[str, Any] = {**BLOCKS, "vocab_size": VOCABULARY, "max_position_embeddings": SEQUENCE}
GATED: dict[str, Any] = {
    **TEXT,
    "intermediate_size": 688,  # 8/3 of the hidden size, as Llama has it, rounded up to a multiple of 16
    "num_key_value_heads": HEADS // 2,
    "use_cache": False,
}
CLASSES: dict[str, Any] = {
    "num_labels": 10,
    "problem_type": "single_label_classification",  # else the first loss sets it, and the second call recompiles
}


def dropped(dropout: float) -> dict[str, Any]:
    """What most configurations of encoders call dropout."""
    return {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}


def _token_inputs() -> Inputs:
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE))
    return {"input_ids": tokens, "labels": tokens.clone()}


def _bert(dropout: float) -> tuple[torch.nn.Module, Inputs]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(**TEXT, **dropped(dropout), intermediate_size=4 * HIDDEN, attn_implementation="sdpa")
    return BertForMaskedLM(config), _token_inputs()


def _gpt2(dropout: float) -> tuple[torch.nn.Module, Inputs]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=SEQUENCE,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config)
    # The loss is guessed from the class name. For this one that fails, and the warning about it breaks the graph.
    model.loss_type = "ForCausalLM"
    return model, _token_inputs()


def _llama(dropout: float) -> tuple[torch.nn.Module, Inputs]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**GATED, attention_dropout=dropout, attn_implementation="sdpa")
    return LlamaForCausalLM(config), _token_inputs()


def _vit(dropout: float) -> tuple[torch.nn.Module, Inputs]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        **BLOCKS,
        **dropped(dropout),
        **CLASSES,
        image_size=112,
        patch_size=16,
        intermediate_size=4 * HIDDEN,
        attn_implementation="sdpa",
    )
    images = torch.randn(2 * BATCH, 3, 112, 112)
    return ViTForImageClassification(config), {"pixel_values": images, "labels": torch.randint(0, 10, (2 * BATCH,))}


def _resnet(dropout: float) -> tuple[torch.nn.Module, Inputs]:
    from transformers import ResNetConfig, ResNetForImageClassification

    del dropout  # ResNet has none
    config = ResNetConfig(
        **CLASSES, embedding_size=32, hidden_sizes=[64, 128, 256], depths=[2, 2, 2], layer_type="bottleneck"
    )
    images = torch.randn(BATCH, 3, 96, 96)
    return ResNetForImageClassification(config), {"pixel_values": images, "labels": torch.randint(0, 10, (BATCH,))}


MODELS: dict[str, ModelCase] = {
    name: ModelCase(name, build)
    for name, build in {"bert": _bert, "gpt2": _gpt2, "llama": _llama, "vit": _vit, "resnet": _resnet}.items()
}
