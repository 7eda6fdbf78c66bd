"""Several processes: over gloo on the CPU, and over NCCL where there are GPUs (`make test-multi-gpu`)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from examples.distributed.train import Decoder, Sizes, distributed
from tests.support.rank_cases import CASES
from tests.support.ranks import Ended, run_together, torchrun

TOGETHER = [name for name in CASES if name != "once" and not name.startswith("death")]
DEVICES = torch.cuda.device_count()


def needs_gpus(count: int) -> None:
    if count > DEVICES:
        pytest.skip(f"needs {count} CUDA devices, and there are {DEVICES}")


def assert_right(ended: list[Ended]) -> None:
    """Of all cases but those that end a process."""
    for one in ended:
        assert [f"{name}: right" for name in TOGETHER] == [
            line for line in one.said.splitlines() if line.endswith(": right")
        ], one.said[-4000:]


def assert_trains(ended: Ended, hows: list[str], processes: int) -> None:
    assert ended.code == 0, ended.said[-4000:]
    told = [line for line in ended.said.splitlines() if line.endswith(": right")]
    assert [line.split(":")[0] for line in told] == hows
    assert all(f"{processes} processes" in line and " 0 graphs" not in line for line in told)


def assert_told_of_death(ended: list[Ended]) -> None:
    assert [one.code for one in ended] == [0, 3], ended[0].said[-4000:]
    assert "told: " in ended[0].said


@pytest.mark.slow
def test_two_processes_and_who_waits_for_one_that_died_is_told() -> None:
    ended = run_together("tests/support/rank_cases.py", 2, "cpu", *TOGETHER, "death", seconds=120)
    assert_right(ended)
    assert_told_of_death(ended)


@pytest.mark.slow
def test_the_example_trains_in_two_processes() -> None:
    """Of ddp `tests/benchmarks/test_ddp.py` trains another; under `torchrun`, by `make test-thorough`."""
    hows = ["fsdp", "tp"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    arguments = ("--how", ",".join(hows), "--steps", "2")
    ended = run_together("examples/distributed/train.py", 2, *arguments, seconds=120, environment=meeting)
    assert_trains(Ended(max(one.code for one in ended), "".join(one.said for one in ended)), hows, 2)


@pytest.mark.thorough
def test_the_example_trains_under_torchrun() -> None:
    hows = ["ddp", "fsdp", "tp"]
    ended = torchrun("examples/distributed/train.py", 2, "--how", ",".join(hows), "--steps", "2", seconds=120)
    assert_trains(ended, hows, 2)


@pytest.mark.thorough
def test_the_example_trains_in_two_dimensions() -> None:
    ended = torchrun("examples/distributed/train.py", 4, "--how", "2d", "--steps", "2", seconds=120)
    assert_trains(ended, ["2d"], 4)


@pytest.mark.parametrize("how", ["tp", "2d"])
def test_a_mesh_that_does_not_fit_is_told(how: str) -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=3)
    try:
        with pytest.raises(SystemExit, match=f"{how}: 3 processes cannot share 4 heads"):
            distributed(how, Decoder(Sizes()), "cpu", "cuesta")
    finally:
        dist.destroy_process_group()


@pytest.mark.multi_gpu
def test_two_gpus() -> None:
    needs_gpus(2)
    ended = run_together("tests/support/rank_cases.py", 2, "cuda", *TOGETHER, seconds=300)
    assert_right(ended)
    assert [one.code for one in ended] == [0, 0], ended[0].said[-4000:]


@pytest.mark.multi_gpu
def test_two_gpus_compile_a_graph_once(tmp_path: Path) -> None:
    """One finds the program that the other has made, though its device has another number."""
    needs_gpus(2)
    environment = {"CUESTA_CACHE": "1", "CUESTA_CACHE_DIR": str(tmp_path)}
    ended = run_together("tests/support/rank_cases.py", 2, "cuda", "once", seconds=120, environment=environment)
    assert [one.code for one in ended] == [0, 0], ended[0].said[-4000:]


@pytest.mark.multi_gpu
def test_who_waits_for_a_dead_process_on_a_gpu_does_not_hang() -> None:
    """It is told by an exception, or ended by NCCL's watchdog, which says why."""
    needs_gpus(2)
    waiting, dead = run_together("tests/support/rank_cases.py", 2, "cuda", "death", seconds=150)
    assert dead.code == 3, dead.said[-4000:]
    assert "nothing was raised" not in waiting.said, waiting.said[-4000:]
    assert "told: " in waiting.said if waiting.code == 0 else "NCCL" in waiting.said, waiting.said[-4000:]


@pytest.mark.multi_gpu
@pytest.mark.parametrize("processes", [2, 4])
def test_the_example_trains_on_gpus(processes: int) -> None:
    needs_gpus(processes)
    hows = ["ddp", "fsdp", "tp", *(["2d"] if processes == 4 else [])]
    arguments = "--device", "cuda", "--how", ",".join(hows)
    assert_trains(torchrun("examples/distributed/train.py", processes, *arguments, seconds=300), hows, processes)
