"""Random problems as one line of text each, which is how they are named, kept, repeated and made smaller.

    f32 128x4096x4095 | sum 1
    bf16 10x32x224x224 last | batch_norm | relu | conv 32 3 1 1 1 | cat
    f32 64x1000 train | linear 512 | gelu | layer_norm

A line is a type, the sizes of the input, marks (how it lies in memory, one of `LAYOUTS`; `train`: forward and backward)
and steps. A step is a name and integers. Weights a step needs are inputs of the program, drawn after the input.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.case import Case
from benchmarks.odd_steps import ODD_STEPS
from benchmarks.random_steps import BLOCKS, CALLS, IMAGES, USUAL_STEPS, Arguments, Kind, Made, Shape, Unsuitable, need

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
    "c64": torch.complex64,
}
LAYOUTS: dict[str, Callable[[Shape, Callable[[Shape], Tensor]], Tensor]] = {
    "last": lambda sizes, make: make(sizes).contiguous(memory_format=torch.channels_last),
    "reversed": lambda sizes, make: make(sizes[::-1]).permute(*reversed(range(len(sizes)))),
    "strided": lambda sizes, make: make((*sizes[:-1], 2 * sizes[-1]))[..., ::2],
    "narrow": lambda sizes, make: make((*sizes[:-1], sizes[-1] + 3))[..., 1:-2],
    "expanded": lambda sizes, make: make((1, *sizes[1:])).expand(sizes),
}
"""How an input may lie in memory, by its mark: channels last; the axes in reverse; every second element of rows; a part
of longer rows; each of the first axis in one place.
"""
MARKS = (*LAYOUTS, "train")
STEPS: dict[str, Kind] = {**USUAL_STEPS, **ODD_STEPS}
KINDS = ("operator", "neighbourhood", "network")
"""Of programs in f32 and bf16, with the usual steps."""
ALL_KINDS = (*KINDS, "odd")
"""And operators of any kind, in any type and layout."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large programs are on a kind of device: bytes of the input and of any one tensor, multiplications of
    convolutions and products.
    """

    fewest_bytes: int
    most_bytes: int
    most_between: int
    most_work: int


EXTENTS = {"cuda": Extent(2**20, 2**30, 2**31, 10**12), "cpu": Extent(2**16, 2**26, 2**27, 10**9)}


@dataclass(frozen=True, slots=True)
class Program:
    """A line, taken apart."""

    dtype: str
    sizes: Shape
    marks: tuple[str, ...]
    steps: tuple[tuple[str, Arguments], ...]

    def __str__(self) -> str:
        head = " ".join([self.dtype, "x".join(map(str, self.sizes)), *self.marks])
        return " | ".join([head, *(" ".join([name, *map(str, arguments)]) for name, arguments in self.steps)])

    @staticmethod
    def parse(text: str) -> Program:
        """The program of a line.

        Errors: ValueError, which names what is wrong with the line.
        """
        head, *steps = [part.split() for part in text.split("|")]
        if len(head) < 2 or head[0] not in DTYPES or not set(head[2:]) <= set(MARKS):
            raise ValueError(f"'{text}' does not begin with a type ({', '.join(DTYPES)}), sizes and marks")
        try:
            sizes = tuple(map(int, head[1].split("x")))
            taken_apart = tuple((name, tuple(map(int, arguments))) for name, *arguments in steps)
        except ValueError as error:
            raise ValueError(f"'{text}': {error}") from None
        for name, _ in taken_apart:
            if name not in STEPS:
                raise ValueError(f"'{text}': there is no step '{name}'; there are {', '.join(STEPS)}")
        return Program(head[0], sizes, tuple(head[2:]), taken_apart)

    def made(self) -> list[Made]:
        """Its steps, each for the shape that comes to it.

        Errors: Unsuitable.
        """
        x = torch.empty(self.sizes, device="meta", dtype=DTYPES[self.dtype])
        found: list[Made] = []
        for name, arguments in self.steps:
            step = STEPS[name].make(tuple(x.shape), arguments)
            try:
                x = step.without_numbers(x)
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                raise Unsuitable(str(error)) from error
            need(x.numel() > 0, f"'{name}' leaves nothing")
            last = len(found) + 1 == len(self.steps)
            need(x.dtype == DTYPES[self.dtype] or last, f"after '{name}' come numbers of another type")
            found.append(step)
        return found

    def case(self, device: str = "cuda") -> Case:
        """What the benchmark measures. Errors: Unsuitable, ValueError."""
        steps = self.made()
        dtype, training = DTYPES[self.dtype], "train" in self.marks

        def function(x: Tensor, *weights: Tensor) -> Tensor:
            rest = list(weights)
            for step in steps:
                x = step.run(x, rest[: step.needed])
                del rest[: step.needed]
            return x

        def make() -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
            layouts = [LAYOUTS[mark] for mark in self.marks if mark in LAYOUTS]
            x = (layouts[0] if layouts else _as_made)(self.sizes, lambda sizes: _numbers(sizes, dtype, device))
            inputs = [x]
            for step in steps:
                inputs += [_weight(shape, dtype, device) for shape in step.weights]
                inputs += [torch.randint(bound, shape, device=device) for shape, bound in step.indices]
            return function, tuple(one.requires_grad_(training and one.is_floating_point()) for one in inputs)

        return Case(str(self), make, training=training, bound="memory")

    def smaller(self) -> Iterator[Program]:
        """Programs with a step less, without a mark, or with one size about halved; only such as can run."""
        candidates = [replace(self, steps=self.steps[:k] + self.steps[k + 1 :]) for k in range(len(self.steps))]
        candidates += [replace(self, marks=tuple(m for m in self.marks if m != mark)) for mark in self.marks]
        for axis, size in enumerate(self.sizes):
            # An odd size stays odd: that may be what it is about.
            half = (size // 2) | (size & 1)
            if half < size:
                candidates.append(replace(self, sizes=(*self.sizes[:axis], half, *self.sizes[axis + 1 :])))
        for candidate in candidates:
            try:
                if candidate.steps and candidate.made():
                    yield candidate
            except Unsuitable:
                continue


def _as_made(sizes: Shape, make: Callable[[Shape], Tensor]) -> Tensor:
    return make(sizes)


def _numbers(shape: Shape, dtype: torch.dtype, device: str) -> Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, device=device, dtype=dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 9, shape, device=device, dtype=dtype)


def _weight(shape: Shape, dtype: torch.dtype, device: str) -> Tensor:
    """Vectors are around one, so that norms scale by them; others keep the size of what they multiply. Whole numbers
    are not 0.
    """
    weight = _numbers(shape, dtype, device)
    if not (dtype.is_floating_point or dtype.is_complex):
        return weight.clamp(min=1)
    return weight * 0.1 + 1 if len(shape) == 1 else weight / math.sqrt(math.prod(shape[1:]))


# --- Drawing ----------------------------------------------------------------------------------------------------------


def draw(kind: str, seed: int, device: str = "cuda") -> Program:
    """A random program of a kind, as large as suits a kind of device: one operator, a library's call with what follows,
    a chain of blocks, or one operator on odd types and layouts.

    Errors: KeyError for an unknown kind.
    """
    make = {
        "operator": _draw_operator,
        "neighbourhood": _draw_neighbourhood,
        "network": _draw_network,
        "odd": _draw_odd,
    }[kind]
    rng, extent = random.Random(f"{kind} {seed}"), EXTENTS[device]
    while True:
        try:
            program = make(rng, extent)
            need(sum(step.work for step in program.made()) <= extent.most_work, "it takes too long")
        except Unsuitable:
            continue
        return program


def _extended(program: Program, rng: random.Random, names: tuple[str, ...], extent: Extent) -> Program:
    """With more steps, drawn for the shapes that come to them. Errors: Unsuitable."""
    for name in names:
        x = torch.empty(program.sizes, device="meta", dtype=DTYPES[program.dtype])
        for made in program.made():
            x = made.without_numbers(x)
        need(x.dim() > 0 and x.nbytes <= extent.most_between)
        arguments = STEPS[name].draw(rng, tuple(x.shape))
        program = replace(program, steps=(*program.steps, (name, arguments)))
    return program


def _size(rng: random.Random, most: int) -> int:
    """Powers of two, their neighbours, three times them, and anything; about as likely of every magnitude."""
    power = 2 ** rng.randint(0, max(0, int(math.log2(max(1, most)))))
    size = rng.choice((power, power, power - 1, power + 1, 3 * power // 2, rng.randint(power, 2 * power)))
    return max(1, min(size, most))


def _need_bytes(sizes: Shape, dtype: str, extent: Extent) -> None:
    need(extent.fewest_bytes <= math.prod(sizes) * DTYPES[dtype].itemsize <= extent.most_bytes)


def _head(rng: random.Random, sizes: Shape, extent: Extent, *, training: float) -> Program:
    dtype = rng.choice(("f32", "f32", "bf16"))
    _need_bytes(sizes, dtype, extent)
    marks = [
        mark for mark, chance in (("last", 0.3 if len(sizes) == 4 else 0), ("train", training)) if rng.random() < chance
    ]
    return Program(dtype, sizes, tuple(marks), ())


def _any_sizes(rng: random.Random, extent: Extent) -> Shape:
    elements = int(2 ** rng.uniform(math.log2(extent.fewest_bytes) - 2, math.log2(extent.most_bytes) - 2))
    sizes: list[int] = []
    for _ in range(rng.randint(0, 4)):
        sizes.append(_size(rng, elements // max(1, math.prod(sizes))))
    sizes.append(max(1, elements // math.prod(sizes)))
    if len(sizes) > 1 and rng.random() < 0.5:
        sizes[-1] = 2 ** int(math.log2(sizes[-1]))
    rng.shuffle(sizes)
    return tuple(sizes)


def _draw_operator(rng: random.Random, extent: Extent) -> Program:
    program = _head(rng, _any_sizes(rng, extent), extent, training=0.2)
    name = rng.choice([name for name in USUAL_STEPS if name not in CALLS])
    return _extended(program, rng, (name,), extent)


def _draw_odd(rng: random.Random, extent: Extent) -> Program:
    name = rng.choice([name for name in STEPS if name not in CALLS])
    sizes = _any_sizes(rng, extent) if rng.random() < 0.6 else _images_of(rng)
    # Three kinds of types are drawn alike often, so that whole numbers, for which few steps are, come up.
    dtype = rng.choice(rng.choice((("f32",), ("bf16", "f16"), ("f64", "i64", "i32", "i8", "u8", "bool", "c64"))))
    _need_bytes(sizes, dtype, extent)
    layouts = [mark for mark in LAYOUTS if mark != "last" or len(sizes) == 4]
    marks = (rng.choice(layouts),) if rng.random() < 0.7 else ()
    if DTYPES[dtype].is_floating_point and rng.random() < 0.25:
        marks += ("train",)
    return _extended(Program(dtype, sizes, marks, ()), rng, (name,), extent)


def _images_of(rng: random.Random) -> Shape:
    rank = rng.choice((2, 2, 2, 2, 1, 3))
    side = {1: (256, 1000, 4096, 16384), 2: (28, 56, 64, 96, 127, 224, 256, 512), 3: (16, 24, 32, 48, 64)}[rank]
    sides = (rng.choice(side),) * rank
    return (rng.choice((1, 2, 8, 10, 16, 32, 64, 128)), rng.choice((3, 16, 32, 48, 64, 96, 128, 240)), *sides)


def _rows_of(rng: random.Random) -> Shape:
    features = rng.choice((64, 256, 512, 768, 1000, 1024, 2048, 4096, 8192))
    return rng.choice(((128, features), (1024, features), (16384, features), (32, 512, features), (8, 1000, features)))


def _draw_neighbourhood(rng: random.Random, extent: Extent) -> Program:
    call = rng.choice(("conv", "conv", "conv", "upconv", "linear", "linear", "bmm"))
    image = call in IMAGES
    program = _head(rng, _images_of(rng) if image else _rows_of(rng), extent, training=0.15)
    after = ["relu", "gelu", "tanh", "leaky", "hardswish", "mish", "clamp", "scale", "add_vector", "mul_vector"]
    after += ["min_vector", "add", "sum", "mean", "amax", "amin_kept", "mean_kept", "logsumexp", "softmax", "l2_norm"]
    after += ["group_norm", "instance_norm", "max_pool", "avg_pool", "batch_norm"] if image else ["layer_norm"] * 3
    names = (call, *(rng.choice(after) for _ in range(rng.randint(1, 5))))
    return _extended(program, rng, names, extent)


def _draw_network(rng: random.Random, extent: Extent) -> Program:
    image = rng.random() < 0.6
    blocks = [block for block in BLOCKS if any(name in block for name in IMAGES) == image]
    program = _head(rng, _images_of(rng) if image else _rows_of(rng), extent, training=0.25)
    names = [name for _ in range(rng.randint(2, 6)) for name in rng.choice(blocks)]
    return _extended(program, rng, tuple(names), extent)
