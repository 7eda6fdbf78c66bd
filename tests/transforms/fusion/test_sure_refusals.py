"""Pairs that `fuse-nests` refuses without a closer look: it would refuse them with one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects.core.locations import print_text
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.programs.capturing import lower
from cuesta.transforms.fusion import fuse_nests
from tests.support.dense_blocks import DenseBlock
from tests.support.random_programs import program

FILTERS: tuple[str, ...] = ("stays_apart", "would_be_stored")
BEFORE = [stage.label for stage in STAGES].index("fuse-nests")


def of_seed(seed: int) -> list[ModuleOp]:
    function, inputs = program(seed)
    graph = make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)
    return [import_graph(graph).module]


def of_a_block(layers: int) -> list[ModuleOp]:
    block, x = DenseBlock(layers, 2).train(), torch.randn(2, 2, 6, 6)
    return [graph.module for graph in lower(block, x, training=True).graphs]


def fused(module: ModuleOp) -> str:
    module = module.clone()
    run_pipeline(make_context(), module, STAGES[: BEFORE + 1])
    return print_text(module)


@pytest.mark.slow
def test_what_is_fused_is_the_same_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [one for seed in range(400, 430) for one in of_seed(seed)] + of_a_block(4)
    fired: dict[str, int] = dict.fromkeys(FILTERS, 0)
    found: list[list[str]] = []
    for asks in (True, False):
        with monkeypatch.context() as patch:
            for name in FILTERS:
                original = getattr(fuse_nests._Fusion, name)  # pyright: ignore[reportPrivateUsage]

                def answer(*pair: Any, name: str = name, original: Any = original, asks: bool = asks) -> bool:
                    refused = asks and original(*pair)
                    fired[name] += refused
                    return refused

                patch.setattr(fuse_nests._Fusion, name, answer)  # pyright: ignore[reportPrivateUsage]
            found.append([fused(one) for one in modules])
    assert found[0] == found[1]
    assert all(fired.values()), fired
