"""Text in, function out: what a dump holds runs again, at every level, and an edited text does what the edit says."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError


def layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ weight) * 0.5, dim=-1)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dump")
    torch.compile(layer, backend="cuesta", options={"dump": str(root)})(*arguments())
    (folder,) = root.iterdir()
    return folder


def arguments() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 12, generator=generator), torch.randn(12, 37, generator=generator)


def test_every_level_runs_again_with_the_same_bits(dumped: Path) -> None:
    files = sorted(dumped.glob("*.mlir"))
    assert len(files) > 10
    results = [cuesta.load(file)(*arguments())[0] for file in files]
    torch.testing.assert_close(results[0], layer(*arguments()))
    assert all(torch.equal(result, results[0]) for result in results)


def test_an_edit_is_obeyed(dumped: Path, tmp_path: Path) -> None:
    fused = max(dumped.glob("*_dce.mlir"))
    text = fused.read_text()
    assert text.count("elem.constant 0.5") == 1
    edited = tmp_path / "edited.mlir"
    edited.write_text(text.replace("elem.constant 0.5", "elem.constant 2.0"))
    x, weight = arguments()
    torch.testing.assert_close(cuesta.load(edited)(x, weight)[0], torch.softmax(torch.relu(x @ weight) * 2.0, dim=-1))


def test_the_schedule_can_be_edited(dumped: Path, tmp_path: Path) -> None:
    text = next(dumped.glob("*_loops-to-kernel.mlir")).read_text()
    edited = tmp_path / "serial.mlir"
    assert "schedule #kernel.schedule<grid = [5]" in text
    edited.write_text(text.replace("unroll = 1", "unroll = 2").replace("parallel = 0", "parallel = 1"))
    torch.testing.assert_close(cuesta.load(edited)(*arguments())[0], layer(*arguments()))


def test_wrong_numbers_of_arguments_are_told(dumped: Path) -> None:
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        cuesta.load(dumped / "00_aten.mlir")(torch.zeros(5, 12))


def test_bad_text_is_told_with_its_place(tmp_path: Path) -> None:
    broken = tmp_path / "broken.mlir"
    broken.write_text("func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {\n  func.return %y : tensor<4xf32>\n}\n")
    with pytest.raises(ParseError, match="%y is used but not defined"):
        cuesta.load(broken)
    broken.write_text(
        "func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = loops.view %x by (d0) -> (d0, d0) : tensor<4xf32> to tensor<4xf32>\n"
        "  func.return %y : tensor<4xf32>\n}\n"
    )
    with pytest.raises(CuestaError, match=r"broken.mlir:2"):
        cuesta.load(broken)
