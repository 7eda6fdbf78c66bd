"""Random problems as one line of text each, which is how they are named, kept, repeated and made smaller.

    f32 128x4096x4095 | sum 1
    bf16 10x32x224x224 last | batch_norm | relu | conv 32 3 1 1 1 | cat
    f32 64x1000 train | linear 512 | gelu | layer_norm

A line is a type, the sizes of the input, marks (`last`: channels last; `train`: forward and backward) and steps. A step
is a name and integers. Weights a step needs are inputs of the program, drawn after the input.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.case import Case

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
MARKS = ("last", "train")
KINDS = ("operator", "neighbourhood", "network")
FEWEST_BYTES, MOST_BYTES = 2**20, 2**30
"""Of a program's input."""
MOST_BETWEEN = 2**31
"""Bytes of any one tensor of a program."""
MOST_WORK = 10**12
"""Multiplications of a program's convolutions and products."""

Shape = tuple[int, ...]
Arguments = tuple[int, ...]
Run = Callable[[Tensor, list[Tensor]], Tensor]


class Unsuitable(ValueError):
    """A step does not go with the tensor before it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A step for a shape: what it computes of the tensor before it and its weights, and its multiplications."""

    run: Run
    weights: tuple[Shape, ...] = ()
    work: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: `make` for a shape and arguments, `draw` arguments for a shape. Both may find it unsuitable."""

    make: Callable[[Shape, Arguments], Made]
    draw: Callable[[random.Random, Shape], Arguments] = lambda rng, shape: ()


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
                x = step.run(x, [torch.empty(shape, device="meta", dtype=x.dtype) for shape in step.weights])
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                raise Unsuitable(str(error)) from error
            _need(x.numel() > 0, f"'{name}' leaves nothing")
            _need(x.dtype.is_floating_point or len(found) + 1 == len(self.steps), f"after '{name}' come whole numbers")
            found.append(step)
        return found

    def case(self, device: str = "cuda") -> Case:
        """What the benchmark measures. Errors: Unsuitable, ValueError."""
        steps = self.made()
        dtype, training = DTYPES[self.dtype], "train" in self.marks

        def function(x: Tensor, *weights: Tensor) -> Tensor:
            rest = list(weights)
            for step in steps:
                x = step.run(x, rest[: len(step.weights)])
                del rest[: len(step.weights)]
            return x

        def make() -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
            x = torch.randn(self.sizes, device=device, dtype=dtype)
            if "last" in self.marks:
                x = x.contiguous(memory_format=torch.channels_last)
            weights = [_weight(shape, dtype, device) for step in steps for shape in step.weights]
            return function, tuple(tensor.requires_grad_(training) for tensor in (x, *weights))

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


def _weight(shape: Shape, dtype: torch.dtype, device: str) -> Tensor:
    """Vectors are around one, so that norms scale by them; others keep the size of what they multiply."""
    weight = torch.randn(shape, device=device, dtype=dtype)
    return weight * 0.1 + 1 if len(shape) == 1 else weight / math.sqrt(math.prod(shape[1:]))


# --- The steps --------------------------------------------------------------------------------------------------------


def _need(holds: bool, why: str = "") -> None:
    if not holds:
        raise Unsuitable(why)


def _pointwise(function: Callable[[Tensor], Tensor]) -> Kind:
    return Kind(lambda shape, arguments: Made(lambda x, weights: function(x)))


def _with_vector(function: Callable[[Tensor, Tensor], Tensor]) -> Kind:
    """With a vector along an axis: a bias, a scale."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        _need(0 <= axis < len(shape))
        sizes = (shape[axis],) + (1,) * (len(shape) - axis - 1)
        return Made(lambda x, weights: function(x, weights[0].view(sizes)), ((shape[axis],),))

    return Kind(make, lambda rng, shape: (rng.randrange(len(shape)),))


def _with_another(function: Callable[[Tensor, Tensor], Tensor]) -> Kind:
    """With a tensor of the same sizes."""
    return Kind(lambda shape, arguments: Made(lambda x, weights: function(x, weights[0]), (shape,)))


def _along(function: Callable[[Tensor, int], Tensor]) -> Kind:
    """Along one axis."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        _need(0 <= axis < len(shape) and shape[axis] > 1)
        return Made(lambda x, weights: function(x, axis))

    return Kind(make, lambda rng, shape: (rng.randrange(len(shape)),))


def _over(function: Callable[[Tensor, list[int]], Tensor]) -> Kind:
    """Over some axes."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        _need(0 < len(set(arguments)) == len(arguments) and all(0 <= axis < len(shape) for axis in arguments))
        return Made(lambda x, weights: function(x, list(arguments)))

    def draw(rng: random.Random, shape: Shape) -> Arguments:
        axes = rng.sample(range(len(shape)), rng.choice((1, 1, 1, min(2, len(shape)))))
        return tuple(sorted(axes))

    return Kind(make, draw)


def _images(shape: Shape) -> int:
    """How many axes the images of a batch have."""
    _need(3 <= len(shape) <= 5, "no batch of images")
    return len(shape) - 2


_CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAXIMA: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEANS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _convolution(shape: Shape, arguments: Arguments) -> Made:
    """`conv CHANNELS WINDOW STRIDE GROUPS BIAS`; of as many groups as channels where there are to be none."""
    channels, window, stride, groups, bias = arguments
    rank = _images(shape)
    groups = groups or shape[1]
    channels = channels or shape[1]
    _need(shape[1] % groups == 0 and channels % groups == 0 and groups > 0)
    weight = (channels, shape[1] // groups) + (window,) * rank
    call = _CONVOLUTIONS[rank]

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        return call(x, weights[0], weights[1] if bias else None, stride, window // 2, 1, groups)

    work = shape[0] * math.prod(shape[2:]) // stride**rank * math.prod(weight)
    return Made(run, (weight, (channels,)) if bias else (weight,), work)


def _transposed_convolution(shape: Shape, arguments: Arguments) -> Made:
    """`upconv CHANNELS WINDOW STRIDE BIAS`."""
    channels, window, stride, bias = arguments
    rank = _images(shape)
    weight = (shape[1], channels) + (window,) * rank
    call = _TRANSPOSED[rank]

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        return call(x, weights[0], weights[1] if bias else None, stride, (window - 1) // 2)

    return Made(run, (weight, (channels,)) if bias else (weight,), shape[0] * math.prod(shape[2:]) * math.prod(weight))


def _draw_convolution(rng: random.Random, shape: Shape) -> Arguments:
    _images(shape)
    groups = rng.choice((1, 1, 1, 1, 0, 2, 4))
    channels = 0 if groups != 1 else rng.choice((0, 16, 32, 64, 96, 128, 256))
    return channels, rng.choice((1, 3, 3, 3, 5, 7)), rng.choice((1, 1, 1, 2)), groups, rng.randrange(2)


def _draw_transposed(rng: random.Random, shape: Shape) -> Arguments:
    _images(shape)
    return rng.choice((16, 32, 64, 128)), rng.choice((2, 3, 4)), rng.choice((1, 2)), rng.randrange(2)


def _dense(shape: Shape, arguments: Arguments) -> Made:
    """`dense CHANNELS`: beside what comes, as many channels more, computed of it (a layer of a DenseNet)."""
    rank, (channels,) = _images(shape), arguments
    weight = (channels, shape[1]) + (3,) * rank
    convolution = _CONVOLUTIONS[rank]

    def run(x: Tensor, w: list[Tensor]) -> Tensor:
        more = convolution(
            F.relu(F.batch_norm(x, w[0].detach() - 1, w[1].detach().abs(), w[2], w[3])), w[4], None, 1, 1
        )
        return torch.cat((x, more), 1)

    return Made(run, (*[(shape[1],)] * 4, weight), shape[0] * math.prod(shape[2:]) * math.prod(weight))


def _inception(shape: Shape, arguments: Arguments) -> Made:
    """`inception CHANNELS`: windows of one, three and five, and a pool, side by side; each gives so many channels."""
    _need(len(shape) == 4)
    (channels,) = arguments
    few = max(1, channels // 2)
    windows = ((channels, 1), (few, 1), (channels, 3), (few, 1), (channels, 5), (channels, 1))
    inputs = (shape[1], shape[1], few, shape[1], few, shape[1])
    weights = tuple((out, given, k, k) for (out, k), given in zip(windows, inputs, strict=True))

    def run(x: Tensor, w: list[Tensor]) -> Tensor:
        def conv(y: Tensor, number: int) -> Tensor:
            return F.conv2d(y, w[number], w[6 + number], padding=windows[number][1] // 2)

        branches = conv(x, 0), conv(conv(x, 1), 2), conv(conv(x, 3), 4), conv(F.max_pool2d(x, 3, 1, 1), 5)
        return torch.cat(branches, 1)

    biases = tuple((out,) for out, _ in windows)
    return Made(run, weights + biases, shape[0] * math.prod(shape[2:]) * sum(map(math.prod, weights)))


def _linear(shape: Shape, arguments: Arguments) -> Made:
    """`linear FEATURES BIAS`."""
    features, bias = arguments
    weight = (features, shape[-1])

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        return F.linear(x, weights[0], weights[1] if bias else None)

    return Made(run, (weight, (features,)) if bias else (weight,), math.prod(shape) * features)


def _batched(shape: Shape, arguments: Arguments) -> Made:
    """`bmm COLUMNS`: with a matrix for each of the batch."""
    _need(len(shape) == 3)
    return Made(
        lambda x, weights: torch.bmm(x, weights[0]),
        ((shape[0], shape[2], *arguments),),
        math.prod(shape) * arguments[0],
    )


def _pool(table: dict[int, Any]) -> Kind:
    """`max_pool WINDOW STRIDE PADDING`."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        window, stride, padding = arguments
        call = table[_images(shape)]
        return Made(lambda x, weights: call(x, window, stride, padding))

    def draw(rng: random.Random, shape: Shape) -> Arguments:
        _images(shape)
        window = rng.choice((2, 2, 3, 3, 4, 5, 7, 11))
        return window, rng.choice((1, 2, window)), rng.randrange(window // 2 + 1)

    return Kind(make, draw)


def _layer_norm(shape: Shape, arguments: Arguments) -> Made:
    """`layer_norm`, over the last axis."""
    _need(shape[-1] > 1)
    return Made(lambda x, weights: F.layer_norm(x, shape[-1:], weights[0], weights[1]), ((shape[-1],), (shape[-1],)))


def _rms_norm(shape: Shape, arguments: Arguments) -> Made:
    """`rms_norm AXIS`."""
    (axis,) = arguments
    _need(0 <= axis < len(shape) and shape[axis] > 1)
    return Made(lambda x, weights: x * torch.rsqrt(x.square().mean(axis, keepdim=True) + 1e-5))


def _batch_norm(training: bool) -> Kind:
    def make(shape: Shape, arguments: Arguments) -> Made:
        _need(len(shape) >= 2)
        _need(math.prod(shape) > shape[1])
        vector = (shape[1],)
        if training:
            return Made(lambda x, w: F.batch_norm(x, None, None, w[0], w[1], training=True), (vector, vector))
        return Made(lambda x, w: F.batch_norm(x, w[0].detach() - 1, w[1].detach().abs(), w[2], w[3]), (vector,) * 4)

    return Kind(make)


def _group_norm(shape: Shape, arguments: Arguments) -> Made:
    """`group_norm GROUPS`."""
    (groups,) = arguments
    _need(len(shape) >= 3)
    _need(shape[1] % groups == 0 and math.prod(shape[1:]) > groups)
    return Made(lambda x, w: F.group_norm(x, groups, w[0], w[1]), ((shape[1],),) * 2)


def _instance_norm(shape: Shape, arguments: Arguments) -> Made:
    _need(_images(shape) > 0 and math.prod(shape[2:]) > 1)
    return Made(lambda x, weights: F.instance_norm(x))


def _permuted(shape: Shape, arguments: Arguments) -> Made:
    """`permute AXES`, and written out."""
    _need(sorted(arguments) == list(range(len(shape))))
    return Made(lambda x, weights: x.permute(arguments).contiguous())


def _draw_permutation(rng: random.Random, shape: Shape) -> Arguments:
    _need(len(shape) > 1)
    return tuple(rng.sample(range(len(shape)), len(shape)))


def _part(shape: Shape, arguments: Arguments) -> Made:
    """`part AXIS START STEP`: without what lies before, every so manyth."""
    axis, start, step = arguments
    _need(0 <= axis < len(shape) and start < shape[axis])
    slices = (slice(None),) * axis + (slice(start, None, step),)
    return Made(lambda x, weights: x[slices])


def _draw_part(rng: random.Random, shape: Shape) -> Arguments:
    return rng.randrange(len(shape)), rng.choice((0, 1, 1, 3)), rng.choice((1, 1, 1, 2))


def _shifted_scan(x: Tensor, axis: int) -> Tensor:
    """A zero in front of the running sums of all but the last element."""
    first = x.select(axis, 0).unsqueeze(axis)
    return torch.cat((torch.zeros_like(first), x.narrow(axis, 0, x.size(axis) - 1).cumsum(axis)), axis)


def _padded(shape: Shape, arguments: Arguments) -> Made:
    """`pad BEFORE AFTER`, of the last axis."""
    return Made(lambda x, weights: F.pad(x, list(arguments)))


STEPS: dict[str, Kind] = {
    "relu": _pointwise(F.relu),
    "gelu": _pointwise(F.gelu),
    "silu": _pointwise(F.silu),
    "tanh": _pointwise(torch.tanh),
    "sigmoid": _pointwise(torch.sigmoid),
    "softplus": _pointwise(F.softplus),
    "leaky": _pointwise(lambda x: F.leaky_relu(x, 0.1)),
    "hardswish": _pointwise(F.hardswish),
    "mish": _pointwise(F.mish),
    "clamp": _pointwise(lambda x: x.clamp(-1, 1)),
    "scale": _pointwise(lambda x: x * 0.5),
    "add_vector": _with_vector(torch.add),
    "mul_vector": _with_vector(torch.mul),
    "min_vector": _with_vector(torch.minimum),
    "add": _with_another(torch.add),
    "mul": _with_another(torch.mul),
    "squared_error": _with_another(lambda x, y: (x - y).square().mean()),
    "sum": _over(lambda x, axes: x.sum(axes)),
    "mean": _over(lambda x, axes: x.mean(axes)),
    "amax": _over(lambda x, axes: x.amax(axes)),
    "amin_kept": _over(lambda x, axes: x.amin(axes, keepdim=True)),
    "mean_kept": _over(lambda x, axes: x.mean(axes, keepdim=True)),
    "sum_kept": _over(lambda x, axes: x.sum(axes, keepdim=True)),
    "variance": _over(lambda x, axes: x.var(axes)),
    "logsumexp": _over(lambda x, axes: x.logsumexp(axes)),
    "norm": _over(lambda x, axes: torch.linalg.vector_norm(x, dim=axes)),
    "argmax": _along(lambda x, axis: x.argmax(axis)),
    "argmin": _along(lambda x, axis: x.argmin(axis)),
    "softmax": _along(lambda x, axis: x.softmax(axis)),
    "log_softmax": _along(lambda x, axis: x.log_softmax(axis)),
    "cumsum": _along(lambda x, axis: x.cumsum(axis)),
    "cumsum_back": _along(lambda x, axis: x.flip(axis).cumsum(axis).flip(axis)),
    "cumsum_before": _along(_shifted_scan),
    "cummax": _along(lambda x, axis: x.cummax(axis).values),
    "l1_norm": _along(lambda x, axis: x / x.abs().mean(axis, keepdim=True)),
    "l2_norm": _along(lambda x, axis: F.normalize(x, dim=axis)),
    "roll": _along(lambda x, axis: x.roll(3, axis) * 2),
    "cat": _along(lambda x, axis: torch.cat((x, F.relu(x)), axis)),
    "glu": _along(lambda x, axis: F.glu(x, axis)),
    "layer_norm": Kind(_layer_norm),
    "rms_norm": Kind(_rms_norm, lambda rng, shape: (rng.randrange(len(shape)),)),
    "batch_norm": _batch_norm(False),
    "batch_norm_train": _batch_norm(True),
    "group_norm": Kind(_group_norm, lambda rng, shape: (rng.choice((1, 2, 4, 8, 32)),)),
    "instance_norm": Kind(_instance_norm),
    "max_pool": _pool(_MAXIMA),
    "avg_pool": _pool(_MEANS),
    "permute": Kind(_permuted, _draw_permutation),
    "part": Kind(_part, _draw_part),
    "pad": Kind(_padded, lambda rng, shape: (rng.randrange(4), rng.randrange(1, 4))),
    "conv": Kind(_convolution, _draw_convolution),
    "upconv": Kind(_transposed_convolution, _draw_transposed),
    "dense": Kind(_dense, lambda rng, shape: (rng.choice((16, 32)),)),
    "inception": Kind(_inception, lambda rng, shape: (rng.choice((16, 64, 128)),)),
    "linear": Kind(_linear, lambda rng, shape: (rng.choice((64, 256, 1000, 1024, 4096)), rng.randrange(2))),
    "bmm": Kind(_batched, lambda rng, shape: (rng.choice((64, 127, 512, 1024)),)),
}
CALLS = ("conv", "upconv", "dense", "inception", "linear", "bmm")
"""What a library computes."""
IMAGES = ("conv", "upconv", "dense", "inception")
"""Those of images."""
_BLOCKS = (
    ("conv", "batch_norm", "relu"),
    ("batch_norm", "relu", "conv", "cat"),
    ("conv", "relu", "max_pool"),
    ("conv", "group_norm", "silu"),
    ("conv", "instance_norm", "leaky", "avg_pool"),
    ("upconv", "batch_norm", "relu"),
    ("dense", "dense", "dense"),
    ("inception", "relu"),
    ("linear", "gelu", "linear", "layer_norm"),
    ("rms_norm", "linear", "silu", "linear", "add"),
    ("linear", "relu"),
    ("layer_norm", "linear", "softmax", "linear"),
    ("cumsum", "linear", "tanh"),
)


# --- Drawing ----------------------------------------------------------------------------------------------------------


def draw(kind: str, seed: int) -> Program:
    """A random program of a kind: one operator, a library's call with what follows, or a chain of blocks.

    Errors: KeyError for an unknown kind.
    """
    make = {"operator": _draw_operator, "neighbourhood": _draw_neighbourhood, "network": _draw_network}[kind]
    rng = random.Random(f"{kind} {seed}")
    while True:
        try:
            program = make(rng)
            _need(sum(step.work for step in program.made()) <= MOST_WORK, "it takes too long")
        except Unsuitable:
            continue
        return program


def _extended(program: Program, rng: random.Random, names: tuple[str, ...]) -> Program:
    """With more steps, drawn for the shapes that come to them. Errors: Unsuitable."""
    for name in names:
        x = torch.empty(program.sizes, device="meta", dtype=DTYPES[program.dtype])
        for made in program.made():
            x = made.run(x, [torch.empty(shape, device="meta", dtype=x.dtype) for shape in made.weights])
        _need(x.dim() > 0 and x.nbytes <= MOST_BETWEEN)
        arguments = STEPS[name].draw(rng, tuple(x.shape))
        program = replace(program, steps=(*program.steps, (name, arguments)))
    return program


def _size(rng: random.Random, most: int) -> int:
    """Powers of two, their neighbours, three times them, and anything; about as likely of every magnitude."""
    power = 2 ** rng.randint(0, max(0, int(math.log2(max(1, most)))))
    size = rng.choice((power, power, power - 1, power + 1, 3 * power // 2, rng.randint(power, 2 * power)))
    return max(1, min(size, most))


def _head(rng: random.Random, sizes: Shape, *, training: float) -> Program:
    dtype = rng.choice(("f32", "f32", "bf16"))
    _need(FEWEST_BYTES <= math.prod(sizes) * DTYPES[dtype].itemsize <= MOST_BYTES)
    marks = [
        mark for mark, chance in (("last", 0.3 if len(sizes) == 4 else 0), ("train", training)) if rng.random() < chance
    ]
    return Program(dtype, sizes, tuple(marks), ())


def _draw_operator(rng: random.Random) -> Program:
    elements = int(2 ** rng.uniform(18, 28))
    sizes: list[int] = []
    for _ in range(rng.randint(0, 4)):
        sizes.append(_size(rng, elements // max(1, math.prod(sizes))))
    sizes.append(max(1, elements // math.prod(sizes)))
    if len(sizes) > 1 and rng.random() < 0.5:
        sizes[-1] = 2 ** int(math.log2(sizes[-1]))
    rng.shuffle(sizes)
    program = _head(rng, tuple(sizes), training=0.2)
    name = rng.choice([name for name in STEPS if name not in CALLS])
    return _extended(program, rng, (name,))


def _images_of(rng: random.Random) -> Shape:
    rank = rng.choice((2, 2, 2, 2, 1, 3))
    side = {1: (256, 1000, 4096, 16384), 2: (28, 56, 64, 96, 127, 224, 256, 512), 3: (16, 24, 32, 48, 64)}[rank]
    sides = (rng.choice(side),) * rank
    return (rng.choice((1, 2, 8, 10, 16, 32, 64, 128)), rng.choice((3, 16, 32, 48, 64, 96, 128, 240)), *sides)


def _rows_of(rng: random.Random) -> Shape:
    features = rng.choice((64, 256, 512, 768, 1000, 1024, 2048, 4096, 8192))
    return rng.choice(((128, features), (1024, features), (16384, features), (32, 512, features), (8, 1000, features)))


def _draw_neighbourhood(rng: random.Random) -> Program:
    call = rng.choice(("conv", "conv", "conv", "upconv", "linear", "linear", "bmm"))
    image = call in IMAGES
    program = _head(rng, _images_of(rng) if image else _rows_of(rng), training=0.15)
    after = ["relu", "gelu", "tanh", "leaky", "hardswish", "mish", "clamp", "scale", "add_vector", "mul_vector"]
    after += ["min_vector", "add", "sum", "mean", "amax", "amin_kept", "mean_kept", "logsumexp", "softmax", "l2_norm"]
    after += ["group_norm", "instance_norm", "max_pool", "avg_pool", "batch_norm"] if image else ["layer_norm"] * 3
    names = (call, *(rng.choice(after) for _ in range(rng.randint(1, 5))))
    return _extended(program, rng, names)


def _draw_network(rng: random.Random) -> Program:
    image = rng.random() < 0.6
    blocks = [block for block in _BLOCKS if any(name in block for name in IMAGES) == image]
    program = _head(rng, _images_of(rng) if image else _rows_of(rng), training=0.25)
    names = [name for _ in range(rng.randint(2, 6)) for name in rng.choice(blocks)]
    return _extended(program, rng, tuple(names))
