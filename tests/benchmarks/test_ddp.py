"""The benchmark of DistributedDataParallel: what it computes from what it saw, and that nothing hangs."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
import torch

from benchmarks import ddp
from benchmarks.ddp import Rank, gathered, lines_of, parsed, stop
from benchmarks.ddp_rank import Span, common, device_lines, length, merged, relative_error

TINY = "--devices cpu --processes 2 --skip-inductor --models mlp --layers 2 --width 16 --batch 4 --rounds 1 --steps 1"


@pytest.mark.thorough
def test_two_processes_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ddp.json"
    ddp.main([*TINY.split(), "--seconds", "240", "--profile", "--json", str(path)])
    told = capsys.readouterr().out
    assert "mlp: 0.0 M parameters, 2 processes on cpu" in told and "step without DDP" in told
    ranks = json.loads(path.read_text())["ranks"]
    assert len(ranks) == 2
    for rank in ranks:
        assert rank["mlp"]["gradient_errors"]["cuesta"] < 1e-5
        assert all(set(row) == {"eager", "cuesta"} for row in rank["mlp"]["ms"].values())
    assert "calls a step: aten::copy_" in ranks[0]["mlp"]["profile"]["cuesta with DDP"][-1]


@pytest.mark.slow
@pytest.mark.usefixtures("spawned")
def test_a_rank_that_fails_ends_the_run(tmp_path: Path) -> None:
    """Its heads do not divide its width."""
    options = parsed([*TINY.replace("mlp", "gpt2").split(), "--heads", "3", "--seconds", "240"])
    ranks = ddp.started(options, str(tmp_path))
    try:
        with pytest.raises(SystemExit, match=r"(?s)rank \d failed.*embed_dim"):
            gathered(ranks, 240, lambda text: None)
    finally:
        stop(ranks)
    assert not any(rank.process.is_alive() for rank in ranks)


def test_fewer_than_two_devices_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SystemExit, match="there are 1 CUDA devices, not 2; or --devices cpu"):
        parsed([])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(SystemExit, match="there are 4 CUDA devices, not 8"):
        parsed(["--processes", "8"])
    assert parsed([]).processes == 4
    for devices in ("cpu", "cuda"):
        with pytest.raises(SystemExit, match="--processes: 1 are fewer than 2"):
            parsed(["--devices", devices, "--processes", "1"])


def test_sizes_are_replaced_where_they_are_given() -> None:
    sizes = parsed(["--devices", "cpu", "--batch", "3"]).sizes
    assert {name: (size.batch, size.layers) for name, size in sizes.items()} == {"gpt2": (3, 4), "mlp": (3, 8)}
    with pytest.raises(SystemExit, match="there is no 'bert'"):
        parsed(["--devices", "cpu", "--models", "bert"])


@pytest.mark.slow
@pytest.mark.usefixtures("spawned")
def test_a_process_that_dies_or_says_nothing_ends_the_run() -> None:
    context = multiprocessing.get_context("spawn")
    for target, argument, seconds, message in (
        (os._exit, 3, 60.0, "rank 1 died; its exit code is 3"),
        (time.sleep, 60, 0.2, "no result in 0.2 s of rank 0, 1"),
    ):
        ends = [context.Pipe() for _ in range(2)]
        processes = [context.Process(target=time.sleep, args=(60,)), context.Process(target=target, args=(argument,))]
        ranks = [Rank(number, ends[number][0], process) for number, process in enumerate(processes)]
        for process in processes:
            process.start()
        if target is os._exit:
            ends[1][1].close()
        try:
            with pytest.raises(SystemExit, match=message):
                gathered(ranks, seconds, lambda text: None)
        finally:
            stop(ranks)
        assert not any(process.is_alive() for process in processes)


def test_wrong_gradients_are_told() -> None:
    options = argparse.Namespace(sides=["cuesta"], processes=2, devices="cpu")
    rows = [
        {
            "parameters": 2_000_000,
            "ms": {"step with DDP": {"eager": 4.0, "cuesta": 2.0}},
            "gradient_errors": {"cuesta": error},
            "compiled": {},
            "profile": {},
        }
        for error in (1e-7, 0.5)
    ]
    lines = lines_of("mlp", rows, options)
    assert lines[0] == "mlp: 2.0 M parameters, 2 processes on cpu"
    assert lines[2].split()[-3:] == ["4.000", "2.000", "2.00"]
    assert lines[3].endswith("(≤ 0.001): WRONG")
    assert not lines_of("mlp", rows[:1], options)[3].endswith("WRONG")


def test_gradients_are_held_to_the_largest_of_all() -> None:
    expected = [torch.tensor([1.0, -10.0]), torch.tensor([0.0])]
    assert relative_error([torch.tensor([1.0, -10.0]), torch.tensor([0.5])], expected) == pytest.approx(0.05)
    assert relative_error([torch.tensor([1.0, float("nan")]), torch.tensor([0.0])], expected) == float("inf")


def test_what_runs_beside_nccl() -> None:
    """NCCL's kernels take 10 + 10 us, beside which others run for 5 us; all of it three times."""
    spans = [
        Span(name, 1000 * step + start, 1000 * step + end)
        for step in range(3)
        for name, start, end in (
            ("ncclDevKernel_AllReduce", 10, 20),
            ("kernel", 5, 12),
            ("kernel", 11, 13),
            ("copy", 18, 20),
            ("ncclDevKernel_AllReduce", 30, 40),
        )
    ]
    assert device_lines(spans) == [
        "5 kernels and copies a step",
        "   0.020 ms     2.0 runs, the longest 0.010 ms  ncclDevKernel_AllReduce",
        "   0.009 ms     2.0 runs, the longest 0.007 ms  kernel",
        "   0.002 ms     1.0 runs, the longest 0.002 ms  copy",
        "0.010 ms in which something computes",
        "0.020 ms of NCCL, 25% of it beside computation",
    ]


def test_intervals() -> None:
    spans = [Span("", 5, 6), Span("", 0, 2), Span("", 1, 3), Span("", 3, 4)]
    assert merged(spans) == [(0, 4), (5, 6)]
    assert common([(0, 4), (5, 6)], [(1, 2), (3, 5.5), (8, 9)]) == [(1, 2), (3, 4), (5, 5.5)]
    assert length([(1, 2), (3, 4.5)]) == 2.5
