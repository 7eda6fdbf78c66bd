"""Products, and convolutions that are some, with what is around them, attention in plain PyTorch, the loss of a product
with a vocabulary: rows of `make bench-gpu`. In more sizes, beside the library and `flex_attention`: `make
bench-products`, `bench-attention` and `bench-vocabulary`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks import attention_cases, product_cases
from benchmarks.attention import case_of
from benchmarks.case import Case
from benchmarks.vocabulary import LOSSES, VOCABULARY

ATTENTIONS = (("window", 4096, 64), ("capped", 4096, 128), ("slopes", 2048, 128), ("causal", 2048, 64))
"""What is done to the scores, how many queries and keys, and the size of a head."""
TRAINED = (("capped", 2048, 64), ("causal", 2048, 128))
TOKENS, WIDTH = 4096, 2048
"""Of the loss: the logits are 1 GB."""


def contraction_cases() -> dict[str, Case]:
    """Every case by name: `attention, capped 4096x128 bf16`."""
    found: dict[str, Case] = {}
    for training, table in ((False, ATTENTIONS), (True, TRAINED)):
        for score, length, width in table:
            name = f"attention, {score} {length}x{width} bf16{', trained' if training else ''}"
            one = case_of(score, length, width, batch=2)
            found[name] = Case(name, lambda one=one, training=training: _attention(one, training), training=training)
    for number, one in enumerate(product_cases.CASES):
        sizes = product_cases.SIZES[number % len(product_cases.SIZES)]
        name = f"product, {one.name} {'x'.join(map(str, sizes))} bf16"
        found[name] = Case(name, lambda one=one, sizes=sizes: (one.function, one.inputs(*sizes, "cuda")))
    for conv in product_cases.CONVOLUTIONS:
        if conv.dtype == torch.bfloat16:
            name = f"convolution, {conv.name} {'x'.join(map(str, conv.sizes))} bf16"
            found[name] = Case(name, lambda conv=conv: (conv.function, conv.inputs(*conv.sizes, device="cuda")))
    name = f"loss over {VOCABULARY} of {TOKENS}x{WIDTH} bf16, trained"
    found[name] = Case(name, _loss, training=True)
    return found


def _attention(case: attention_cases.Case, training: bool) -> tuple[attention_cases.Case, list[torch.Tensor]]:
    return case, [one.requires_grad_(training) for one in case.inputs("cuda")]


def _loss() -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]:
    x = torch.randn(TOKENS, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = (torch.randn(VOCABULARY, WIDTH, device="cuda") / WIDTH**0.5).bfloat16().requires_grad_()
    return LOSSES["plain"], (x, weight, torch.randint(0, VOCABULARY, (TOKENS,), device="cuda"))


__all__ = ["contraction_cases"]
