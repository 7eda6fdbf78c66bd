"""Small transformers models with random weights, inference and training: the five of the demo and some more.

As in `examples/models.py`, the code is that of Hugging Face transformers, nothing is downloaded, and dropout is off.
"""

# pyright: reportCallIssue=false
# (configurations take more keywords than their signatures say)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.case import Case
from examples.models import (
    BATCH,
    CLASSES,
    GATED,
    HEADS,
    HIDDEN,
    LAYERS,
    MODELS,
    SEQUENCE,
    TEXT,
    VOCABULARY,
    Inputs,
    ModelCase,
    dropped,
)

Built = tuple[torch.nn.Module, Inputs]

HALVES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "encoder_layers": LAYERS // 2,
    "decoder_layers": LAYERS // 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 4 * HIDDEN,
    "decoder_ffn_dim": 4 * HIDDEN,
    "use_cache": False,
}
"""What configurations call the sizes of an encoder with a decoder."""


def tokens(length: int = SEQUENCE) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, length))


def electra(dropout: float) -> Built:
    from transformers import ElectraConfig, ElectraForMaskedLM

    config = ElectraConfig(**TEXT, **dropped(dropout), embedding_size=HIDDEN // 2, intermediate_size=4 * HIDDEN)
    return ElectraForMaskedLM(config), {"input_ids": (ids := tokens()), "labels": ids.clone()}


def distilbert(dropout: float) -> Built:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=HIDDEN,
        hidden_dim=4 * HIDDEN,
        n_layers=LAYERS,
        n_heads=HEADS,
        max_position_embeddings=SEQUENCE,
        dropout=dropout,
        attention_dropout=dropout,
        seq_classif_dropout=dropout,
        num_labels=4,
        problem_type="single_label_classification",
    )
    return DistilBertForSequenceClassification(config), {"input_ids": tokens(), "labels": torch.randint(0, 4, (BATCH,))}


def qwen2(dropout: float) -> Built:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(**GATED, attention_dropout=dropout)
    return Qwen2ForCausalLM(config), {"input_ids": (ids := tokens()), "labels": ids.clone()}


def bart(dropout: float) -> Built:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(
        **HALVES,
        max_position_embeddings=SEQUENCE,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
    )
    ids = tokens()
    return BartForConditionalGeneration(config), {"input_ids": ids, "decoder_input_ids": ids, "labels": ids.clone()}


def t5(dropout: float) -> Built:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=HIDDEN,
        d_kv=HIDDEN // HEADS,
        d_ff=2 * HIDDEN,
        num_layers=LAYERS // 2,
        num_heads=HEADS,
        feed_forward_proj="gated-gelu",
        dropout_rate=dropout,
        decoder_start_token_id=0,
        use_cache=False,
    )
    ids = tokens()
    return T5ForConditionalGeneration(config), {"input_ids": ids, "decoder_input_ids": ids, "labels": ids.clone()}


def whisper(dropout: float) -> Built:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        **HALVES,
        num_mel_bins=40,
        max_source_positions=SEQUENCE,
        max_target_positions=SEQUENCE,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        dropout=dropout,
        apply_spec_augment=False,
    )
    ids = tokens(SEQUENCE // 2)
    features = torch.randn(BATCH, 40, 2 * SEQUENCE)
    inputs = {"input_features": features, "decoder_input_ids": ids, "labels": ids.clone()}
    return WhisperForConditionalGeneration(config), inputs


def swin(dropout: float) -> Built:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        **dropped(dropout),
        **CLASSES,
        image_size=112,
        patch_size=4,
        embed_dim=48,
        depths=[2, 2, 2],
        num_heads=[2, 4, 8],
        window_size=7,
        drop_path_rate=dropout,
    )
    return SwinForImageClassification(config), pictures(112)


def convnext(dropout: float) -> Built:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(
        **CLASSES, image_size=96, hidden_sizes=[48, 96, 192, 384], depths=[2, 2, 2, 2], drop_path_rate=dropout
    )
    return ConvNextForImageClassification(config), pictures(96)


def pictures(size: int) -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, size, size), "labels": torch.randint(0, 10, (BATCH,))}


MORE: dict[str, Callable[[float], Built]] = {
    "electra": electra,
    "distilbert": distilbert,
    "qwen2": qwen2,
    "bart": bart,
    "t5": t5,
    "whisper": whisper,
    "swin": swin,
    "convnext": convnext,
}


def case(model: ModelCase, *, training: bool) -> Case:
    def make() -> tuple[Any, Inputs]:
        return model.training() if training else model.inference()

    return Case(f"{model.name}-{'training' if training else 'inference'}", make, training=training)


CASES: tuple[Case, ...] = tuple(
    case(model, training=training)
    for model in (*MODELS.values(), *(ModelCase(name, build) for name, build in MORE.items()))
    for training in (False, True)
)
