"""The demo's models: which of them run with the suite, and how to make them small; what they are made of stays."""

from __future__ import annotations

from typing import Any

import pytest

from examples import models


def of_demo() -> list[Any]:
    """Parameters of a test: each model's name, with both steps. One runs with the suite, all with
    `make test-thorough`.
    """
    with_suite = (("llama", "inference"),)
    return [
        pytest.param(name, step, marks=pytest.mark.slow if (name, step) in with_suite else pytest.mark.thorough)
        for name in models.MODELS
        for step in ("inference", "training")
    ]


def make_models_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes them small for one test."""
    import transformers

    resize_models(monkeypatch, LAYERS=1, HIDDEN=16, HEADS=4, SEQUENCE=3, BATCH=1, VOCABULARY=10)
    smaller = {
        "LlamaConfig": {"intermediate_size": 24},
        "ResNetConfig": {"embedding_size": 4, "hidden_sizes": [8, 12], "depths": [2, 1]},
    }
    for name, chosen in smaller.items():
        config = getattr(transformers, name)
        monkeypatch.setattr(
            transformers, name, lambda config=config, chosen=chosen, **given: config(**{**given, **chosen})
        )


SETTINGS = {
    "LAYERS": "num_hidden_layers",
    "HIDDEN": "hidden_size",
    "HEADS": "num_attention_heads",
    "SEQUENCE": "max_position_embeddings",
    "VOCABULARY": "vocab_size",
}
"""What configurations call a size of `examples/models.py`; they have been told when it was imported."""


def resize_models(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """Gives the models other sizes for one test, by the names of `examples/models.py`."""
    for name, size in sizes.items():
        monkeypatch.setattr(models, name, size)
        for settings in (models.BLOCKS, models.TEXT, models.GATED):
            if SETTINGS.get(name) in settings:
                monkeypatch.setitem(settings, SETTINGS[name], size)
    if "HEADS" in sizes:
        monkeypatch.setitem(models.GATED, "num_key_value_heads", sizes["HEADS"] // 2)
