"""A small decoder, trained by several processes, and checked against one.

    torchrun --nproc-per-node 2 examples/distributed/train.py --how ddp,fsdp,tp      # on the CPU over gloo
    torchrun --nproc-per-node 4 examples/distributed/train.py --how 2d --device cuda # on four GPUs over NCCL

ddp: every process has the model, and its part of each batch. fsdp: and only its part of the weights (FSDP2). tp: every
process has a part of each layer, and all of the batch (tensor and sequence parallel, DTensors). 2d: fsdp over pairs of
processes that share each layer.

Every process also trains the whole model alone, in eager: losses and weights are the same but for rounding.
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import cuesta

BATCH, SEQUENCE = 8, 16
TOLERANCE = 1e-5
"""How far a loss or a weight may be from that of one process. Both are below 10, and f32 rounds to 6e-8 of a number."""


# -- the model ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """How large a decoder is."""

    width: int = 32
    heads: int = 4
    layers: int = 2
    vocabulary: int = 64


class Attention(nn.Module):
    """Causal attention; a process that has a part of the heads computes those."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.head_width = sizes.width // sizes.heads
        layers = (nn.Linear(sizes.width, sizes.width, bias=False) for _ in range(4))
        self.query, self.key, self.value, self.out = layers

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = [
            layer(x).view(batch, length, -1, self.head_width).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    """One layer of the decoder."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(sizes)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Decoder(nn.Module):
    """Tokens in, logits out."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.tokens = nn.Embedding(sizes.vocabulary, sizes.width)
        self.blocks = nn.ModuleList([Block(sizes) for _ in range(sizes.layers)])
        self.norm = nn.LayerNorm(sizes.width)
        self.head = nn.Linear(sizes.width, sizes.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


# -- over several processes --------------------------------------------------------------------------------------------


def tensor_parallel(model: Decoder, mesh: DeviceMesh) -> None:
    """Divides every layer over the processes of a mesh; between layers each has a part of the sequence.

    Each has all of the embedding. A divided one gives a tensor that is still waited for, whose gradient AOTAutograd
    loses where a compiled block takes it (torch 2.13, `--backend aot_eager`; Cuesta waits for such a tensor first).
    """
    sequence, whole = Shard(1), Replicate()
    gathered = {"input_layouts": (sequence,), "desired_input_layouts": (whole,)}
    layers: dict[str, Any] = {
        "norm_1": SequenceParallel(),
        "norm_2": SequenceParallel(),
        "attention": PrepareModuleInput(**gathered),
        **{f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")},
        "attention.out": RowwiseParallel(output_layouts=sequence),
        "up": ColwiseParallel(input_layouts=sequence),
        "down": RowwiseParallel(output_layouts=sequence),
    }
    for block in model.blocks:
        parallelize_module(block, mesh, layers)
    divided = PrepareModuleInput(input_layouts=(whole,), desired_input_layouts=(sequence,), use_local_output=True)
    parallelize_module(model.blocks[0], mesh, divided)
    ends: dict[str, Any] = {
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=sequence, output_layouts=whole),
    }
    parallelize_module(model, mesh, ends)


def sharded(model: Decoder, mesh: DeviceMesh, backend: str | None) -> nn.Module:
    """The model, of whose weights each process of a mesh has a part; blocks are compiled one by one."""
    for block in model.blocks:
        fully_shard(compiled(block, backend), mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def distributed(how: str, model: Decoder, device: str, backend: str | None) -> tuple[nn.Module, int, int]:
    """The model as the processes train it together, in how many parts a batch is divided, and which is ours. Without a
    backend nothing is compiled.

    Errors: SystemExit for a number of processes that does not fit.
    """
    world, rank = dist.get_world_size(), dist.get_rank()
    if how == "ddp":
        return compiled(DistributedDataParallel(model), backend), world, rank
    if how == "fsdp":
        return sharded(model, init_device_mesh(device, (world,)), backend), world, rank
    heads = model.sizes.heads
    if heads % (parts := 2 if how == "2d" else world) or world % parts:
        raise SystemExit(f"{how}: {world} processes cannot share {heads} heads")
    mesh = init_device_mesh(device, (world // parts, parts), mesh_dim_names=("data", "tensor"))
    tensor_parallel(model, mesh["tensor"])
    if how == "2d":
        return sharded(model, mesh["data"], backend), world // parts, mesh["data"].get_local_rank()
    return compiled(model, backend), 1, 0


def compiled(model: nn.Module, backend: str | None) -> nn.Module:
    """The model, compiled as a whole; as it is without a backend."""
    if backend is not None:
        model.compile(backend=backend)
    return model


# -- training ----------------------------------------------------------------------------------------------------------


def train(model: nn.Module, batches: Sequence[Tensor], parts: int = 1, part: int = 0) -> list[float]:
    """Trains on this process's part of each batch; gives the losses."""
    # Weights are DTensors and tensors, which operators of lists, an optimizer's choice on a GPU, do not take together.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    losses: list[float] = []
    for batch in batches:
        own = batch.chunk(parts)[part]
        loss = F.cross_entropy(model(own[:, :-1]).flatten(0, 1), own[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def difference(how: str, device: str, backend: str, steps: int) -> tuple[float, list[float]]:
    """How far losses and weights are from those of one process, at most, and the losses."""
    torch.manual_seed(0)
    sizes = Sizes()
    alone = Decoder(sizes).to(device)
    batches = list(torch.randint(sizes.vocabulary, (steps, BATCH, SEQUENCE + 1), device=device))
    model, parts, part = distributed(how, copy.deepcopy(alone), device, backend)
    losses = torch.tensor(train(model, batches, parts, part), device=device)
    dist.all_reduce(losses)
    losses /= dist.get_world_size()
    expected = train(alone, batches)
    found = float((losses.cpu() - torch.tensor(expected)).abs().max())
    for ours, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        whole = ours.full_tensor() if isinstance(ours, DTensor) else ours
        found = max(found, float((whole - theirs).detach().abs().max()))
    return found, losses.tolist()


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs what `--how` names. Errors: SystemExit 1 when something differs from one process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--how", default="ddp,fsdp,tp", help="some of ddp, fsdp, tp, 2d")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--backend", default="cuesta", help="of torch.compile")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args(arguments)
    if unknown := [how for how in options.how.split(",") if how not in ("ddp", "fsdp", "tp", "2d")]:
        raise SystemExit(f"--how: there is no {unknown[0]!r}; there are ddp, fsdp, tp, 2d")
    if "RANK" not in os.environ:
        raise SystemExit("start it with torchrun, which says how many processes there are")
    if options.device == "cuda":
        torch.cuda.set_device(own := torch.device("cuda", int(os.environ["LOCAL_RANK"])))
        dist.init_process_group("nccl", device_id=own)
    else:
        dist.init_process_group("gloo")
    told: Callable[[str], None] = print if dist.get_rank() == 0 else lambda text: None
    wrong = False
    for how in options.how.split(","):
        torch._dynamo.reset()
        cuesta.clear_records()
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "cuesta runs a graph in eager")
            found, losses = difference(how, options.device, options.backend, options.steps)
        wrong |= found > TOLERANCE
        shown = ", ".join(f"{loss:.4f}" for loss in losses)
        verdict = "WRONG" if found > TOLERANCE else "right"
        made = f"{dist.get_world_size()} processes, {len(cuesta.records)} graphs"
        told(f"{how}: {made}, losses {shown}; {found:.1e} from one process: {verdict}")
    dist.destroy_process_group()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
