"""What two processes compute together, run by `tests/e2e/test_distributed.py` in each: `rank_cases.py NAME DEVICE …`.

A case fails by an exception. What is expected is what one process computes in eager.
"""

from __future__ import annotations

import copy
import os
import pkgutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import cuesta

SECONDS = 60
"""How long a collective may take: then it raises."""


def everybody() -> dist.ProcessGroup:
    """The group of all processes."""
    group = dist.group.WORLD
    assert group is not None
    return group


def whole(value: Any) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def functional_collectives(device: str) -> None:
    """Every kind, with kernels between start and wait, and strides that torch does not promise."""
    group, world, rank = everybody(), dist.get_world_size(), dist.get_rank()

    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        reduced = functional.all_reduce(x * 2, "sum", group)
        tanh = torch.tanh(w).sum(1)
        gathered = functional.all_gather_tensor(w, 0, group)
        scattered = functional.reduce_scatter_tensor(x + 1, "sum", 0, group)
        sent = functional.broadcast(x.t(), 0, group)
        soft = (w.exp() + 1).softmax(1)
        return reduced + 1, tanh, soft @ gathered.t(), scattered * 3, sent + soft[0, 0]

    inputs = [(torch.randn(4, 6, device=device), torch.randn(8, 16, device=device)) for _ in range(world)]
    for _ in range(3):
        found = torch.compile(function, backend="cuesta")(*inputs[rank])
        w = inputs[rank][1]
        total = torch.stack([one for one, _ in inputs]).sum(0)
        soft = (w.exp() + 1).softmax(1)
        expected = (
            total * 2 + 1,
            torch.tanh(w).sum(1),
            soft @ torch.cat([one for _, one in inputs]).t(),
            (total + world).chunk(world)[rank] * 3,
            inputs[0][0].t() + soft[0, 0],
        )
        torch.testing.assert_close(found, expected)


def collectives_in_place(device: str) -> None:
    """`dist.all_reduce` changes its tensor, and what was made of it before stays."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        before = y * 2
        dist.all_reduce(y)
        return before, y.relu()

    x = torch.full((8,), float(dist.get_rank()), device=device)
    before, after = torch.compile(function, backend="cuesta")(x)
    torch.testing.assert_close(before, (x + 1) * 2)
    torch.testing.assert_close(after, torch.full((8,), float(sum(range(1, dist.get_world_size() + 1))), device=device))


def tensors_still_waited_for(device: str) -> None:
    """A tensor that a collective in eager still writes is an input."""
    group = everybody()
    x = torch.full((1000,), float(dist.get_rank() + 1), device=device)
    found = torch.compile(lambda x: x * 2 + 1, backend="cuesta")(functional.all_reduce(x, "sum", group))
    torch.testing.assert_close(found, torch.full_like(x, sum(range(1, dist.get_world_size() + 1))) * 2 + 1)


def gradients_of_tensors_still_waited_for(device: str) -> None:
    """The gradient of such an input goes where eager's does."""
    mesh = init_device_mesh(device, (dist.get_world_size(),))

    def gradient(function: Callable[[Tensor], Tensor]) -> Tensor | None:
        x = torch.full((4, 8), float(dist.get_rank() + 1), device=device, requires_grad=True)
        shard: Any = DTensor.from_local(x * 2, mesh, [Shard(0)])
        received = shard.redistribute(placements=[Replicate()], async_op=True).to_local()
        assert isinstance(received, functional.AsyncCollectiveTensor)
        function(received).square().sum().backward()
        return x.grad

    def function(x: Tensor) -> Tensor:
        return x.sin() * 2 + x

    expected = gradient(function)
    assert expected is not None
    torch.testing.assert_close(gradient(torch.compile(function, backend="cuesta")), expected)


def redistribution(device: str) -> None:
    """From one sharding to another inside the graph, with sizes that change from call to call, and gradients."""
    mesh = init_device_mesh(device, (dist.get_world_size(),))

    def function(x: Any, w: Any) -> Any:
        y: Any = torch.relu(x @ w)
        y = y.redistribute(placements=[Shard(1)])
        return (y * 2).redistribute(placements=[Replicate()]).sum(0), y

    compiled = torch.compile(function, backend="cuesta", dynamic=True)
    for size in (8, 12):
        x, w = torch.randn(size, 16, device=device), torch.randn(16, 8, device=device)
        given = [distribute_tensor(one, mesh, [place]) for one, place in ((x, Shard(0)), (w, Replicate()))]
        x, w, *given = (one.requires_grad_() for one in (x, w, *given))
        found = compiled(*given)
        y = torch.relu(x @ w)
        expected = (y * 2).sum(0), y
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(whole(ours), theirs, rtol=1e-4, atol=1e-4)
        (whole(found[0]).sum() + whole(found[1]).sum()).backward()
        (expected[0].sum() + expected[1].sum()).backward()
        for ours, theirs in zip(given, (x, w), strict=True):
            torch.testing.assert_close(whole(ours.grad), theirs.grad, rtol=1e-4, atol=1e-4)


def pipeline(device: str) -> None:
    """Each process has a layer, and batches go from one to the next."""
    layers = [nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)).to(device) for _ in range(2)]
    alone = copy.deepcopy(layers)
    rank = dist.get_rank()
    compiled: Any = torch.compile(layers[rank], backend="cuesta")
    stage = PipelineStage(compiled, rank, 2, torch.device(device))
    x, target = torch.randn(8, 16, device=device), torch.randn(8, 16, device=device)
    schedule = ScheduleGPipe(stage, 2, loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=target)
    nn.functional.mse_loss(alone[1](alone[0](x)), target).backward()
    for ours, theirs in zip(layers[rank].parameters(), alone[rank].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def once(device: str) -> None:
    """Of two processes that compile one graph at the same time, one does, and the other takes its program."""
    group = everybody()

    def function(x: Tensor) -> Tensor:
        return functional.all_reduce(torch.softmax(x.exp() + 1, 1), "sum", group) * 2

    x = torch.ones(8, 8, device=device)
    compiled = torch.compile(function, backend="cuesta")
    dist.barrier()
    torch.testing.assert_close(compiled(x), torch.full_like(x, 2 * dist.get_world_size() / 8))
    (record,) = cuesta.records
    fresh = torch.tensor(0 if record.from_cache else 1, device=device)
    dist.all_reduce(fresh)
    assert fresh == 1, f"{fresh} of {dist.get_world_size()} processes have compiled it"


def death(device: str) -> None:
    """The other process ends in the middle of a collective: who waits for it is told."""
    group = everybody()

    def function(x: Tensor) -> Tensor:
        return functional.all_reduce(x * 2, "sum", group) + 1

    x = torch.ones(8, device=device)
    compiled = torch.compile(function, backend="cuesta")
    compiled(x)
    dist.barrier()
    if dist.get_rank() == 1:
        os._exit(3)
    try:
        found = compiled(x)
        if device == "cuda":
            found.sum().item()  # waits for it, until NCCL's watchdog ends the process
    except RuntimeError as error:
        print(f"told: {error}", flush=True)
        os._exit(0)  # the group is no more, and nobody can leave it in order
    raise AssertionError("nothing was raised")


def death_while_compiling(device: str) -> None:
    """Who compiles for the others is killed on the way: each of them has the result, and one of them compiles."""
    _killed_in_its_turn("cuesta.compiler.imported_program")


def death_while_writing(device: str) -> None:
    """It is killed with its program half in the cache."""
    _killed_in_its_turn("os.replace")


def _killed_in_its_turn(last: str) -> None:
    """The first process to call the function of the name `last` ends with it. The others use no collective: they would
    wait for it.
    """

    def killed(*_: Any, **__: Any) -> Any:
        try:
            os.close(os.open(f"{os.environ['CUESTA_MEETING']}.killed", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return own(*_, **__)
        os.kill(os.getpid(), signal.SIGKILL)

    own = pkgutil.resolve_name(last)
    x = torch.arange(64.0).view(8, 8)
    compiled = torch.compile(lambda x: torch.softmax(x.exp() + 1, 1) * 3, backend="cuesta")
    dist.barrier()
    start = time.monotonic()
    with patch(last, killed):
        torch.testing.assert_close(compiled(x), torch.softmax(x.exp() + 1, 1) * 3)
    assert time.monotonic() - start < SECONDS / 2, "it waited for one that is no more"
    (record,) = cuesta.records
    print("loaded" if record.from_cache else "compiled", flush=True)
    os._exit(0)


CASES: dict[str, Callable[[str], None]] = {
    one.__name__: one
    for one in (
        functional_collectives,
        collectives_in_place,
        tensors_still_waited_for,
        gradients_of_tensors_still_waited_for,
        redistribution,
        pipeline,
        once,
        death,
        death_while_compiling,
        death_while_writing,
    )
}


def main(device: str, names: list[str]) -> None:
    """Runs cases. None may run a graph in eager."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if device == "cuda" else "gloo",
        init_method=f"file://{os.environ['CUESTA_MEETING']}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=SECONDS),
        device_id=torch.device("cuda", rank) if device == "cuda" else None,
    )
    warnings.filterwarnings("error", "cuesta runs a graph in eager")
    for name in names:
        torch._dynamo.reset()
        torch.manual_seed(0)
        cuesta.clear_records()
        CASES[name](device)
        assert cuesta.records, f"{name}: nothing was compiled"
        assert not cuesta.statistics().fallbacks, f"{name}: {cuesta.statistics().fallbacks}"
        dist.barrier()
        print(f"{name}: right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
