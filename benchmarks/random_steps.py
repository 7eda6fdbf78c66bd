"""The steps of random problems: what each computes, and what it may be asked for.

Steps are functions of the tensor before them, and of weights that are inputs of the program.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

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
    indices: tuple[tuple[Shape, int], ...] = ()
    """Whole numbers that it needs after its weights: their shape, and what they are below."""

    @property
    def needed(self) -> int:
        """How many tensors it is given besides the one before it."""
        return len(self.weights) + len(self.indices)

    def without_numbers(self, x: Tensor) -> Tensor:
        """Its result of a tensor on the device "meta"."""
        weights = [torch.empty(shape, device="meta", dtype=x.dtype) for shape in self.weights]
        indices = [torch.empty(shape, device="meta", dtype=torch.int64) for shape, _ in self.indices]
        return self.run(x, weights + indices)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step: `make` for a shape and arguments, `draw` arguments for a shape. Both may find it unsuitable."""

    make: Callable[[Shape, Arguments], Made]
    draw: Callable[[random.Random, Shape], Arguments] = lambda rng, shape: ()


# --- The steps --------------------------------------------------------------------------------------------------------


def need(holds: bool, why: str = "") -> None:
    """Errors: Unsuitable, where it does not hold."""
    if not holds:
        raise Unsuitable(why)


def pointwise(function: Callable[[Tensor], Tensor]) -> Kind:
    """Of each element."""
    return Kind(lambda shape, arguments: Made(lambda x, weights: function(x)))


def with_vector(function: Callable[[Tensor, Tensor], Tensor]) -> Kind:
    """With a vector along an axis: a bias, a scale."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        need(0 <= axis < len(shape))
        sizes = (shape[axis],) + (1,) * (len(shape) - axis - 1)
        return Made(lambda x, weights: function(x, weights[0].view(sizes)), ((shape[axis],),))

    return Kind(make, lambda rng, shape: (rng.randrange(len(shape)),))


def with_another(function: Callable[[Tensor, Tensor], Tensor]) -> Kind:
    """With a tensor of the same sizes."""
    return Kind(lambda shape, arguments: Made(lambda x, weights: function(x, weights[0]), (shape,)))


def along(function: Callable[[Tensor, int], Tensor]) -> Kind:
    """Along one axis."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        (axis,) = arguments
        need(0 <= axis < len(shape) and shape[axis] > 1)
        return Made(lambda x, weights: function(x, axis))

    return Kind(make, lambda rng, shape: (rng.randrange(len(shape)),))


def over(function: Callable[[Tensor, list[int]], Tensor]) -> Kind:
    """Over some axes."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        need(0 < len(set(arguments)) == len(arguments) and all(0 <= axis < len(shape) for axis in arguments))
        return Made(lambda x, weights: function(x, list(arguments)))

    def draw(rng: random.Random, shape: Shape) -> Arguments:
        axes = rng.sample(range(len(shape)), rng.choice((1, 1, 1, min(2, len(shape)))))
        return tuple(sorted(axes))

    return Kind(make, draw)


def images(shape: Shape) -> int:
    """How many axes the images of a batch have. Errors: Unsuitable."""
    need(3 <= len(shape) <= 5, "no batch of images")
    return len(shape) - 2


_CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAXIMA: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEANS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _convolution(shape: Shape, arguments: Arguments) -> Made:
    """`conv CHANNELS WINDOW STRIDE GROUPS BIAS`; of as many groups as channels where there are to be none."""
    channels, window, stride, groups, bias = arguments
    rank = images(shape)
    groups = groups or shape[1]
    channels = channels or shape[1]
    need(shape[1] % groups == 0 and channels % groups == 0 and groups > 0)
    weight = (channels, shape[1] // groups) + (window,) * rank
    call = _CONVOLUTIONS[rank]

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        return call(x, weights[0], weights[1] if bias else None, stride, window // 2, 1, groups)

    work = shape[0] * math.prod(shape[2:]) // stride**rank * math.prod(weight)
    return Made(run, (weight, (channels,)) if bias else (weight,), work)


def _transposed_convolution(shape: Shape, arguments: Arguments) -> Made:
    """`upconv CHANNELS WINDOW STRIDE BIAS`."""
    channels, window, stride, bias = arguments
    rank = images(shape)
    weight = (shape[1], channels) + (window,) * rank
    call = _TRANSPOSED[rank]

    def run(x: Tensor, weights: list[Tensor]) -> Tensor:
        return call(x, weights[0], weights[1] if bias else None, stride, (window - 1) // 2)

    return Made(run, (weight, (channels,)) if bias else (weight,), shape[0] * math.prod(shape[2:]) * math.prod(weight))


def _draw_convolution(rng: random.Random, shape: Shape) -> Arguments:
    images(shape)
    groups = rng.choice((1, 1, 1, 1, 0, 2, 4))
    channels = 0 if groups != 1 else rng.choice((0, 16, 32, 64, 96, 128, 256))
    return channels, rng.choice((1, 3, 3, 3, 5, 7)), rng.choice((1, 1, 1, 2)), groups, rng.randrange(2)


def _draw_transposed(rng: random.Random, shape: Shape) -> Arguments:
    images(shape)
    return rng.choice((16, 32, 64, 128)), rng.choice((2, 3, 4)), rng.choice((1, 2)), rng.randrange(2)


def _dense(shape: Shape, arguments: Arguments) -> Made:
    """`dense CHANNELS`: beside what comes, as many channels more, computed of it (a layer of a DenseNet)."""
    rank, (channels,) = images(shape), arguments
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
    need(len(shape) == 4)
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
    need(len(shape) == 3)
    return Made(
        lambda x, weights: torch.bmm(x, weights[0]),
        ((shape[0], shape[2], *arguments),),
        math.prod(shape) * arguments[0],
    )


def pool(table: dict[int, Any]) -> Kind:
    """`max_pool WINDOW STRIDE PADDING`."""

    def make(shape: Shape, arguments: Arguments) -> Made:
        window, stride, padding = arguments
        call = table[images(shape)]
        return Made(lambda x, weights: call(x, window, stride, padding))

    def draw(rng: random.Random, shape: Shape) -> Arguments:
        images(shape)
        window = rng.choice((2, 2, 3, 3, 4, 5, 7, 11))
        return window, rng.choice((1, 2, window)), rng.randrange(window // 2 + 1)

    return Kind(make, draw)


def _layer_norm(shape: Shape, arguments: Arguments) -> Made:
    """`layer_norm`, over the last axis."""
    need(shape[-1] > 1)
    return Made(lambda x, weights: F.layer_norm(x, shape[-1:], weights[0], weights[1]), ((shape[-1],), (shape[-1],)))


def _rms_norm(shape: Shape, arguments: Arguments) -> Made:
    """`rms_norm AXIS`."""
    (axis,) = arguments
    need(0 <= axis < len(shape) and shape[axis] > 1)
    return Made(lambda x, weights: x * torch.rsqrt(x.square().mean(axis, keepdim=True) + 1e-5))


def _batch_norm(training: bool) -> Kind:
    def make(shape: Shape, arguments: Arguments) -> Made:
        need(len(shape) >= 2)
        need(math.prod(shape) > shape[1])
        vector = (shape[1],)
        if training:
            return Made(lambda x, w: F.batch_norm(x, None, None, w[0], w[1], training=True), (vector, vector))
        return Made(lambda x, w: F.batch_norm(x, w[0].detach() - 1, w[1].detach().abs(), w[2], w[3]), (vector,) * 4)

    return Kind(make)


def _group_norm(shape: Shape, arguments: Arguments) -> Made:
    """`group_norm GROUPS`."""
    (groups,) = arguments
    need(len(shape) >= 3)
    need(shape[1] % groups == 0 and math.prod(shape[1:]) > groups)
    return Made(lambda x, w: F.group_norm(x, groups, w[0], w[1]), ((shape[1],),) * 2)


def _instance_norm(shape: Shape, arguments: Arguments) -> Made:
    need(images(shape) > 0 and math.prod(shape[2:]) > 1)
    return Made(lambda x, weights: F.instance_norm(x))


def _permuted(shape: Shape, arguments: Arguments) -> Made:
    """`permute AXES`, and written out."""
    need(sorted(arguments) == list(range(len(shape))))
    return Made(lambda x, weights: x.permute(arguments).contiguous())


def _draw_permutation(rng: random.Random, shape: Shape) -> Arguments:
    need(len(shape) > 1)
    return tuple(rng.sample(range(len(shape)), len(shape)))


def _part(shape: Shape, arguments: Arguments) -> Made:
    """`part AXIS START STEP`: without what lies before, every so manyth."""
    axis, start, step = arguments
    need(0 <= axis < len(shape) and start < shape[axis])
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


USUAL_STEPS: dict[str, Kind] = {
    "relu": pointwise(F.relu),
    "gelu": pointwise(F.gelu),
    "silu": pointwise(F.silu),
    "tanh": pointwise(torch.tanh),
    "sigmoid": pointwise(torch.sigmoid),
    "softplus": pointwise(F.softplus),
    "leaky": pointwise(lambda x: F.leaky_relu(x, 0.1)),
    "hardswish": pointwise(F.hardswish),
    "mish": pointwise(F.mish),
    "clamp": pointwise(lambda x: x.clamp(-1, 1)),
    "scale": pointwise(lambda x: x * 0.5),
    "add_vector": with_vector(torch.add),
    "mul_vector": with_vector(torch.mul),
    "min_vector": with_vector(torch.minimum),
    "add": with_another(torch.add),
    "mul": with_another(torch.mul),
    "squared_error": with_another(lambda x, y: (x - y).square().mean()),
    "sum": over(lambda x, axes: x.sum(axes)),
    "mean": over(lambda x, axes: x.mean(axes)),
    "amax": over(lambda x, axes: x.amax(axes)),
    "amin_kept": over(lambda x, axes: x.amin(axes, keepdim=True)),
    "mean_kept": over(lambda x, axes: x.mean(axes, keepdim=True)),
    "sum_kept": over(lambda x, axes: x.sum(axes, keepdim=True)),
    "variance": over(lambda x, axes: x.var(axes)),
    "logsumexp": over(lambda x, axes: x.logsumexp(axes)),
    "norm": over(lambda x, axes: torch.linalg.vector_norm(x, dim=axes)),
    "argmax": along(lambda x, axis: x.argmax(axis)),
    "argmin": along(lambda x, axis: x.argmin(axis)),
    "softmax": along(lambda x, axis: x.softmax(axis)),
    "log_softmax": along(lambda x, axis: x.log_softmax(axis)),
    "cumsum": along(lambda x, axis: x.cumsum(axis)),
    "cumsum_back": along(lambda x, axis: x.flip(axis).cumsum(axis).flip(axis)),
    "cumsum_before": along(_shifted_scan),
    "cummax": along(lambda x, axis: x.cummax(axis).values),
    "l1_norm": along(lambda x, axis: x / x.abs().mean(axis, keepdim=True)),
    "l2_norm": along(lambda x, axis: F.normalize(x, dim=axis)),
    "roll": along(lambda x, axis: x.roll(3, axis) * 2),
    "cat": along(lambda x, axis: torch.cat((x, F.relu(x)), axis)),
    "glu": along(lambda x, axis: F.glu(x, axis)),
    "layer_norm": Kind(_layer_norm),
    "rms_norm": Kind(_rms_norm, lambda rng, shape: (rng.randrange(len(shape)),)),
    "batch_norm": _batch_norm(False),
    "batch_norm_train": _batch_norm(True),
    "group_norm": Kind(_group_norm, lambda rng, shape: (rng.choice((1, 2, 4, 8, 32)),)),
    "instance_norm": Kind(_instance_norm),
    "max_pool": pool(_MAXIMA),
    "avg_pool": pool(_MEANS),
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
BLOCKS = (
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
"""What networks are made of."""
