"""The benchmark of several devices: what it is asked, what it tells, and that it runs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import torch

from benchmarks import multi_gpu
from benchmarks.multi_gpu import lines_of, parsed

TINY = (
    "--devices cpu --processes 2 --skip-inductor --how tp --layers 1 --width 16 --vocabulary 32 --batch 2 --sequence 8"
)


def test_what_cannot_be_divided_so_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SystemExit, match="there are 1 CUDA devices, not 2; or --devices cpu"):
        parsed([])
    with pytest.raises(SystemExit, match="--processes: 1 are fewer than 2"):
        parsed(["--devices", "cpu", "--processes", "1"])
    with pytest.raises(SystemExit, match="there is no '2d'; there are ddp, fsdp, tp for 2 processes"):
        parsed(["--devices", "cpu", "--how", "2d"])
    assert parsed(["--devices", "cpu", "--processes", "4"]).how == ["ddp", "fsdp", "tp", "2d"]
    sizes = parsed(["--devices", "cpu", "--layers", "3"]).sizes
    assert (sizes["layers"], sizes["width"]) == (3, 128)


def test_wrong_losses_and_graphs_in_eager_are_told() -> None:
    options = argparse.Namespace(sides=["cuesta"], how=["tp"], processes=2, devices="cpu")
    rows = [
        {
            "tp": {
                "ms": {"tp": {"eager": 4.0, "cuesta": 2.0}},
                "errors": {"cuesta": error},
                "parameters": 2e6,
                "in_eager": 1,
            }
        }
        for error in (1e-7, 0.5)
    ]
    lines = lines_of(rows, options)
    assert lines[0] == "decoder: 2.0 M parameters, 2 processes on cpu"
    assert lines[2].split() == ["tp", "4.000", "2.000", "2.00"]
    assert lines[3].endswith("(≤ 0.001): WRONG") and lines[4] == "tp: cuesta ran 2 graphs in eager"
    assert not lines_of(rows[:1], options)[3].endswith("WRONG")


@pytest.mark.thorough
def test_two_processes_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    multi_gpu.main([*TINY.split(), "--rounds", "1", "--steps", "1", "--seconds", "240", "--json", str(path)])
    assert "losses of cuesta, tp" in capsys.readouterr().out
    ranks = json.loads(path.read_text())["ranks"]
    assert [rank["tp"]["in_eager"] for rank in ranks] == [0, 0] and ranks[0]["tp"]["graphs"] > 0
