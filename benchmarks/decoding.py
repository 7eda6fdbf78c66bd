"""A decoder that generates token by token on a CPU, beside eager and TorchInductor: `make bench-decoding`.

A Llama of a few layers in plain PyTorch, batch 1, with a cache of its own of fixed length; one step is compiled. Its
weights are f32, or int8 with a scale for each output, dequantised in plain PyTorch: of the product (`int8`), or before
it (`int8-inside`); or two numbers of 4 bits in a byte with a scale for each group of 32 (`int4`). All sides have one
model and one cache, in one process, in turns; a time is that of a token, the medians and ratios are of the same rounds.
Then what a product of one row alone reads a second, beside a sum of as many bytes.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.timing import in_turns

WEIGHTS = ("f32", "int8", "int8-inside", "int4")
SIDES = ("eager", "inductor", "frozen", "cuesta")
"""`frozen` is TorchInductor with `freezing`: weights are constants."""
GROUP = 32
"""The weights that share a scale in 4 bits."""
TOKENS = 4
"""Tokens of one sample."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder."""

    hidden: int = 768
    between: int = 2048
    layers: int = 4
    width: int = 64
    vocabulary: int = 8192
    positions: int = 256

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return self.hidden // self.width


class Int8Linear(nn.Module):
    """A layer of weights of 8 bits and a scale for each output."""

    def __init__(self, weight: Tensor, *, inside: bool) -> None:
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.weight = nn.Buffer((weight / scale[:, None]).round().to(torch.int8))
        self.scale = nn.Buffer(scale)
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        if self.inside:
            return F.linear(x, self.weight.to(x.dtype) * self.scale[:, None])
        return F.linear(x, self.weight.to(x.dtype)) * self.scale


class Int4Linear(nn.Module):
    """A layer of weights of 4 bits, two in a byte, and a scale for each group of an output's."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        groups = weight.unflatten(1, (-1, GROUP))
        scale = groups.abs().amax(2) / 7
        numbers = ((groups / scale[..., None]).round() + 8).flatten(1).to(torch.uint8)
        half = numbers.shape[1] // 2
        self.weight = nn.Buffer(numbers[:, :half] | numbers[:, half:] << 4)
        self.scale = nn.Buffer(scale)

    def forward(self, x: Tensor) -> Tensor:
        numbers = torch.cat([self.weight & 15, self.weight >> 4], 1).to(x.dtype) - 8
        weight = numbers.unflatten(1, (-1, GROUP)) * self.scale[..., None]
        return F.linear(x, weight.flatten(1))


def linear_of(inputs: int, outputs: int, weights: str) -> nn.Module:
    """A layer without a bias."""
    layer = nn.Linear(inputs, outputs, bias=False)
    weight = layer.weight.detach()
    if weights == "f32":
        return layer
    return Int4Linear(weight) if weights == "int4" else Int8Linear(weight, inside=weights == "int8-inside")


def rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


class Layer(nn.Module):
    """Attention to what is in the cache, and a gated layer."""

    def __init__(self, sizes: Sizes, weights: str) -> None:
        super().__init__()
        hidden, self.sizes = sizes.hidden, sizes
        self.norms = nn.ModuleList(nn.RMSNorm(hidden) for _ in range(2))
        self.query, self.key, self.value, self.out = (linear_of(hidden, hidden, weights) for _ in range(4))
        self.gate, self.up = (linear_of(hidden, sizes.between, weights) for _ in range(2))
        self.down = linear_of(sizes.between, hidden, weights)
        shape = (1, sizes.heads, sizes.positions, sizes.width)
        self.keys, self.values = nn.Buffer(torch.zeros(shape)), nn.Buffer(torch.zeros(shape))

    def forward(self, x: Tensor, position: Tensor, seen: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        normed = self.norms[0](x)
        heads = (1, self.sizes.heads, 1, self.sizes.width)
        query = rotated(self.query(normed).view(heads), cosines, sines)
        self.keys.index_copy_(2, position, rotated(self.key(normed).view(heads), cosines, sines))
        self.values.index_copy_(2, position, self.value(normed).view(heads))
        attended = F.scaled_dot_product_attention(query, self.keys, self.values, attn_mask=seen)
        x = x + self.out(attended.reshape(x.shape))
        normed = self.norms[1](x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    """One step: of a token and its position, the next token."""

    def __init__(self, sizes: Sizes, weights: str) -> None:
        super().__init__()
        self.sizes = sizes
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(Layer(sizes, weights) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.hidden)
        self.head = linear_of(sizes.hidden, sizes.vocabulary, weights)
        half = sizes.width // 2
        angles = torch.outer(torch.arange(sizes.positions), 10000.0 ** (-torch.arange(half) / half)).repeat(1, 2)
        self.cosines, self.sines = nn.Buffer(angles.cos()), nn.Buffer(angles.sin())

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        return self.logits(token, position).argmax(-1)

    def logits(self, token: Tensor, position: Tensor) -> Tensor:
        """What the next token is chosen by."""
        x = self.embedding(token)
        seen = (torch.arange(self.sizes.positions) <= position).view(1, 1, 1, -1)
        cosines, sines = self.cosines[position], self.sines[position]
        for layer in self.layers:
            x = layer(x, position, seen, cosines, sines)
        return self.head(self.norm(x))


Step = Callable[[Tensor, Tensor], Tensor]


def compiled(function: Callable[..., Any], side: str) -> Callable[..., Any]:
    """A function as one side has it."""
    if side == "eager":
        return function
    if side == "cuesta":
        return torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)
    if side == "inductor":
        return torch.compile(function, fullgraph=True, dynamic=False)
    return torch.compile(function, fullgraph=True, dynamic=False, options={"freezing": True})


def generation(step: Step, positions: Sequence[Tensor], first: Tensor) -> Callable[[], Tensor]:
    """Generates as many tokens as there are positions; gives the last one."""

    def generate() -> Tensor:
        token = first
        for position in positions:
            token = step(token, position)
        return token

    return generate


def bytes_of(model: Decoder) -> int:
    """The bytes of weights that a step reads."""
    weights = [one for name, one in (*model.named_parameters(), *model.named_buffers()) if "embedding" not in name]
    return sum(one.nbytes for one in weights)


def measure(
    weights: str, sizes: Sizes, sides: Sequence[str], seconds: float, clock: Callable[[], float]
) -> Mapping[str, list[float]]:
    """Milliseconds per token of each side, by round; prints what they are, and how far each side's logits are off,
    relative to the greatest.
    """
    import cuesta

    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Decoder(sizes, weights).eval()
    first, positions = torch.tensor([7]), [torch.tensor([sizes.positions // 2 + one]) for one in range(TOKENS)]
    calls: dict[str, Callable[[], Tensor]] = {}
    exact = Decoder(sizes, weights).eval()
    exact.load_state_dict(model.state_dict())
    truth = exact.double().logits(first, positions[0])
    for side in sides:
        off = float((compiled(model.logits, side)(first, positions[0]) - truth).abs().max() / truth.abs().max())
        cuesta.clear_records()
        calls[side] = generation(compiled(model, side), positions, first)
        calls[side]()
        told = [f"{one.kernels} kernels, {one.library_calls} library calls" for one in cuesta.records]
        print(f"  {side:9} off by {off:.1e}", *told, flush=True)
    samples = in_turns(calls, seconds, clock=clock).milliseconds
    return {side: [one / TOKENS for one in times] for side, times in samples.items()}


def report(title: str, times: Mapping[str, list[float]], moved: int) -> None:
    """Prints a row for every side."""
    ours = times.get("cuesta")
    for side, samples in times.items():
        median = statistics.median(samples)
        ratio = ""
        if ours is not None and side != "cuesta":
            ratio = f"  {statistics.median(a / b for a, b in zip(samples, ours, strict=True)):5.2f} of cuesta's time"
        print(f"{title:22} {side:9} {median:8.3f} ms {moved / median / 1e6:7.1f} GB/s{ratio}", flush=True)


def products(size: int, sides: Sequence[str], seconds: float, clock: Callable[[], float]) -> None:
    """Prints what a product of one row with a square matrix reads a second, and what a sum of as many bytes does."""
    x = torch.randn(1, size)
    for weights in WEIGHTS:
        torch._dynamo.reset()
        layer = linear_of(size, size, weights)
        moved = sum(one.nbytes for one in (*layer.parameters(), *layer.buffers()))
        calls: dict[str, Callable[[], Any]] = {}
        for side in sides:
            function = compiled(layer, side)
            calls[side] = lambda function=function: function(x)
            calls[side]()
        stream = torch.ones(moved // 4)
        reading = torch.compile(torch.sum, backend="cuesta")
        calls["sum"] = lambda reading=reading, stream=stream: reading(stream)
        report(f"{size}x{size} {weights}", in_turns(calls, seconds, clock=clock).milliseconds, moved)


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default=",".join(WEIGHTS), help="which decoders")
    parser.add_argument("--sides", default=",".join(SIDES), help="which compilers")
    parser.add_argument("--hidden", type=int, default=Sizes.hidden, help="the width of the decoder")
    parser.add_argument("--layers", type=int, default=Sizes.layers, help="its layers")
    parser.add_argument("--product", type=int, default=4096, help="the size of the matrix alone; 0: no product alone")
    parser.add_argument("--seconds", type=float, default=3.0, help="sampling time of each side")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of all sides")
    parser.add_argument("--processor", action="store_true", help="the processor's time, not the wall's, of one thread")
    given = parser.parse_args(arguments)
    if given.processor and given.threads > 1:
        parser.error("the processor's time is that of all threads: --processor is for --threads 1")
    clock = thread_time if given.processor else perf_counter
    sides = given.sides.split(",")
    if unknown := {*sides} - {*SIDES} | {*given.weights.split(",")} - {*WEIGHTS, ""}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; sides are {SIDES}, weights {WEIGHTS}")
    sizes = Sizes(hidden=given.hidden, between=given.hidden * 8 // 3 // 64 * 64, layers=given.layers)
    torch.set_num_threads(given.threads)
    print(f"torch {torch.__version__}, {given.threads} threads, {sizes}")
    for weights in filter(None, given.weights.split(",")):
        print(f"decoder, {weights}")
        times = measure(weights, sizes, sides, given.seconds, clock)
        report(f"decoder {weights}", times, bytes_of(Decoder(sizes, weights)))
    if given.product:
        products(given.product, sides, given.seconds, clock)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
