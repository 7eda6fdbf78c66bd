"""Products of matrices that are oneDNN's on the CPU: `choose-libraries`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cuesta
from cuesta.machine import detect
from cuesta.targets.cpu import facts
from cuesta.testing import assert_close_to_float64
from cuesta.transforms.host.choose_libraries import LINEAR

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, as on one where oneDNN is the faster library, and our kernels are not."""
    monkeypatch.setattr(facts, "facts_of_onednn", lambda: {"onednn": 1.3})
    monkeypatch.setattr(facts, "facts_of_products", dict)
    torch._dynamo.reset()
    cuesta.clear_records()


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(384, 512), nn.GELU(), nn.Linear(512, 384, bias=False), nn.Linear(384, 640))


def overloads(dump: Path) -> list[str]:
    """What the programs in a dump call, in order."""
    texts = [sorted(folder.glob("*_pool-buffers.mlir"))[-1].read_text() for folder in sorted(dump.iterdir())]
    return re.findall(r'host\.extern (?:pure )?"([^"]+)"', "".join(texts))


def test_inference(tmp_path: Path) -> None:
    model = layers()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True, options={"dump": str(tmp_path)})
    with torch.no_grad():
        assert_close_to_float64(compiled, model, [torch.randn(193, 384)])
    assert overloads(tmp_path) == [LINEAR] * 3


def test_training(tmp_path: Path) -> None:
    """Three products of the forward pass, and those of the backward pass whose left factor lies as rows."""
    model = layers()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True, options={"dump": str(tmp_path)})
    assert_close_to_float64(compiled, model, [torch.randn(256, 384, requires_grad=True)])
    found = overloads(tmp_path)
    assert found[:3] == [LINEAR] * 3
    assert found[3:].count(LINEAR) >= 3


def test_the_interpreter_agrees_before_and_after(tmp_path: Path) -> None:
    """Every stage is run on the inputs of a call; that this one did something is seen."""
    model = layers()
    options: dict[str, Any] = {"dump": str(tmp_path), "validate": "stages"}
    compiled = torch.compile(model, backend="cuesta", fullgraph=True, options=options)
    with torch.no_grad():
        assert_close_to_float64(compiled, model, [torch.randn(193, 384)])
    assert overloads(tmp_path) == [LINEAR] * 3


def test_roundings_of_eager_are_kept(tmp_path: Path) -> None:
    """Whoever asks for eager's roundings gets eager's library, to the bit."""
    x, w = torch.randn(256, 512), torch.randn(512, 512)
    options = {"dump": str(tmp_path), "emulate_precision_casts": True}
    compiled = torch.compile(torch.mm, backend="cuesta", fullgraph=True, options=options)
    assert torch.equal(compiled(x, w), x @ w)
    assert overloads(tmp_path) == ["aten.mm.default"]


def test_sizes_that_differ() -> None:
    """The second size is symbolic: a product of rows nobody knows the number of stays where it is, and right."""
    model = layers()
    compiled = torch.compile(model, backend="cuesta", fullgraph=True)
    with torch.no_grad():
        for rows in (200, 301, 17):
            assert_close_to_float64(compiled, model, [torch.randn(rows, 384)])


def test_many_threads_have_small_products_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a call costs is more arithmetic where more threads do it."""
    monkeypatch.setattr(facts, "facts_of_onednn", lambda: {"onednn": 1.3, "onednn_call": 1.5e6 * 64})
    compiled = torch.compile(torch.mm, backend="cuesta", fullgraph=True, options={"dump": str(tmp_path)})
    compiled(torch.randn(256, 512), torch.randn(512, 512))
    assert overloads(tmp_path) == ["aten.mm.default"]


def test_who_does_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with torch.backends.mkldnn.flags(enabled=False):
        assert detect().onednn == 1.0
    assert detect().onednn >= 1.0
