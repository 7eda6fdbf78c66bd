"""Products that `make bench-products` measures: shapes drawn by a rule, and what is done around a product, or around a
convolution that is one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

SEED = 14
"""What the shapes are drawn from.

Source: the number of the issue that asked for them; no other was tried.
"""
PER_KIND = 5
"""Shapes of each kind.

Source: a choice: eight kinds make the forty that are asked for.
"""
RULE = """\
Five shapes of each of eight kinds, drawn by random.Random(14) in this order; `multiple(a, b, m)` is a multiple of m
from a to b, uniform; each factor is transposed in memory where a coin says so (not for squares; always for `turned`).
  square   n x n x n, n = 512, 1024, 2048, 4096, 8192
  layer    rows multiple(1024, 16384, 256), columns and points multiple(512, 8192, 128)
  tall     rows multiple(16384, 131072, 1024), columns multiple(32, 512, 32), points multiple(64, 2048, 64)
  thin     rows 2 to 64, columns and points multiple(1024, 16384, 128)
  batched  8 to 128 products, rows and columns multiple(64, 1024, 64), points multiple(32, 512, 32)
  odd      rows, columns and points any numbers from 500 to 4500
  deep     rows and columns multiple(64, 512, 64), points multiple(16384, 65536, 1024)
  turned   as `layer`, both factors transposed
and of f32 ten of
  small    rows and columns multiple(64, 1024, 32), points multiple(64, 2048, 32)"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A product of rows × points by points × columns; with `batch`, so many. Factors may lie transposed in memory."""

    kind: str
    rows: int
    columns: int
    points: int
    batch: int = 0
    left_turned: bool = False
    right_turned: bool = False
    element: str = "bf16"

    def __str__(self) -> str:
        batch = f"{self.batch} of " if self.batch else ""
        turned = f"{'T' if self.left_turned else 'N'}{'T' if self.right_turned else 'N'}"
        return f"{self.kind:8} {batch}{self.rows} x {self.columns} x {self.points} {turned}"

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.columns * self.points * max(1, self.batch)

    def inputs(self, device: str) -> list[Tensor]:
        """Both factors, normal."""
        dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[self.element]
        generator = torch.Generator(device).manual_seed(SEED)

        def factor(rows: int, columns: int, turned: bool) -> Tensor:
            sizes = [*([self.batch] if self.batch else []), *((columns, rows) if turned else (rows, columns))]
            made = torch.randn(sizes, device=device, dtype=dtype, generator=generator)
            return made.mT if turned else made

        return [
            factor(self.rows, self.points, self.left_turned),
            factor(self.points, self.columns, self.right_turned),
        ]

    def text(self, device: str = "cuda:0") -> str:
        """The library's call as a program at the level `loops`."""
        batch = f"{self.batch}x" if self.batch else ""

        def tensor(rows: int, columns: int, turned: bool = False) -> str:
            outer = f"{rows * columns}, " if self.batch else ""
            strides = f"strides = [{outer}1, {rows}], " if turned and rows > 1 and columns > 1 else ""
            return f'tensor<{batch}{rows}x{columns}x{self.element}, #aten.layout<{strides}device = "{device}">>'

        a = tensor(self.rows, self.points, self.left_turned)
        b = tensor(self.points, self.columns, self.right_turned)
        y = tensor(self.rows, self.columns)
        call = f'"aten.{"bmm" if self.batch else "mm"}.default"(%a, %b)'
        return (
            f"func.func @main(%a : {a}, %b : {b}) -> {y} {{\n"
            f"  %y = loops.extern pure {call} : ({a}, {b}) -> {y}\n"
            f"  func.return %y : {y}\n}}"
        )


def drawn_shapes(element: str = "bf16") -> list[Shape]:
    """Those of a type, as `RULE` says."""
    draw = random.Random(SEED)

    def multiple(low: int, high: int, of: int) -> int:
        return of * draw.randint(low // of, high // of)

    def coins() -> tuple[bool, bool]:
        return draw.random() < 0.5, draw.random() < 0.5

    found = [Shape("square", n, n, n) for n in (512, 1024, 2048, 4096, 8192)]
    for _ in range(PER_KIND):
        sizes = multiple(1024, 16384, 256), multiple(512, 8192, 128), multiple(512, 8192, 128)
        found.append(Shape("layer", *sizes, 0, *coins()))
    for _ in range(PER_KIND):
        sizes = multiple(16384, 131072, 1024), multiple(32, 512, 32), multiple(64, 2048, 64)
        found.append(Shape("tall", *sizes, 0, *coins()))
    for _ in range(PER_KIND):
        sizes = draw.randint(2, 64), multiple(1024, 16384, 128), multiple(1024, 16384, 128)
        found.append(Shape("thin", *sizes, 0, *coins()))
    for _ in range(PER_KIND):
        sizes = multiple(64, 1024, 64), multiple(64, 1024, 64), multiple(32, 512, 32)
        found.append(Shape("batched", *sizes, draw.randint(8, 128), *coins()))
    for _ in range(PER_KIND):
        sizes = draw.randint(500, 4500), draw.randint(500, 4500), draw.randint(500, 4500)
        found.append(Shape("odd", *sizes, 0, *coins()))
    for _ in range(PER_KIND):
        sizes = multiple(64, 512, 64), multiple(64, 512, 64), multiple(16384, 65536, 1024)
        found.append(Shape("deep", *sizes, 0, *coins()))
    for _ in range(PER_KIND):
        sizes = multiple(1024, 16384, 256), multiple(512, 8192, 128), multiple(512, 8192, 128)
        found.append(Shape("turned", *sizes, 0, True, True))
    if element == "f32":
        for _ in range(2 * PER_KIND):
            sizes = multiple(64, 1024, 32), multiple(64, 1024, 32), multiple(64, 2048, 32)
            found.append(Shape("small", *sizes, 0, *coins()))
    return [replace(one, element=element) for one in found]


Results = Tensor | tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A product with what is around it: a function, and the inputs it takes for given sizes."""

    name: str
    function: Callable[..., Results]
    operands: str
    """Of each input a letter: x rows × points, w columns × points (as `linear` has it), b columns, r rows × columns,
    v columns × points again, q as w in int8, s columns in f32, f as w in f32, c rows.
    """

    def inputs(self, rows: int, columns: int, points: int, device: str) -> list[Tensor]:
        """Inputs of bf16, but where the letter says otherwise, so large that results are about 1."""
        generator = torch.Generator(device).manual_seed(SEED)

        def normal(*sizes: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> Tensor:
            return (torch.randn(sizes, device=device, generator=generator) * scale).to(dtype)

        small = points**-0.5
        make: dict[str, Callable[[], Tensor]] = {
            "x": lambda: normal(rows, points),
            "w": lambda: normal(columns, points, scale=small),
            "v": lambda: normal(columns, points, scale=small),
            "b": lambda: normal(columns),
            "r": lambda: normal(rows, columns),
            "c": lambda: normal(rows),
            "s": lambda: normal(columns, dtype=torch.float32).abs() * small / 64,
            "f": lambda: normal(columns, points, dtype=torch.float32, scale=small),
            "q": lambda: (normal(columns, points) * 64).clamp(-127, 127).to(torch.int8),
        }
        return [make[letter]() for letter in self.operands]


def _gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(x, w, b))


def _relu_residual(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.linear(x, w, b)) + r


def _scaled(x: Tensor, w: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return torch.tanh((x @ w.t()) * 0.125 + b) * torch.sigmoid(c)[:, None]


def _row_sums(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.linear(x, w, b)).float().sum(-1)


def _row_maxima(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.t()).amax(-1)


def _row_log_sums(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w.t()).float().logsumexp(-1)


def _two_outputs(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    product = F.linear(x, w, b)
    return product, F.gelu(product)


def _dequantised(x: Tensor, q: Tensor, s: Tensor) -> Tensor:
    return x @ (q * s[:, None]).to(torch.bfloat16).t()


def _cast(x: Tensor, f: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.linear(x, f.to(torch.bfloat16), b))


def _swiglu(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return F.silu(x @ w.t()) * (x @ v.t())


def _mean_square(x: Tensor, w: Tensor, r: Tensor) -> Tensor:
    y = (x @ w.t() + r).float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(torch.bfloat16)


CASES: Sequence[Case] = (
    Case("bias, gelu", _gelu, "xwb"),
    Case("bias, relu, residual", _relu_residual, "xwbr"),
    Case("scale, tanh, gate of rows", _scaled, "xwbc"),
    Case("silu, sums of rows", _row_sums, "xwb"),
    Case("maxima of rows", _row_maxima, "xw"),
    Case("log-sum-exp of rows", _row_log_sums, "xw"),
    Case("two outputs", _two_outputs, "xwb"),
    Case("weights of int8", _dequantised, "xqs"),
    Case("weights of f32, cast", _cast, "xfb"),
    Case("swiglu", _swiglu, "xwv"),
    Case("residual, rms norm", _mean_square, "xwr"),
)
"""What models do around a product."""
SIZES = ((8192, 4096, 1024), (4096, 4096, 4096), (16384, 1024, 512), (16, 8192, 4096))
"""Rows, columns and points of the products of these cases.

Source: a choice: a wide layer, a square one, a narrow one, and a step of a decoder.
"""


@dataclass(frozen=True, slots=True)
class ConvolutionCase:
    """A convolution with what is around it."""

    name: str
    function: Callable[..., Results]
    operands: str
    """Of each input a letter: x the images, w the weight, b, s, t, m, v bias, scale, shift, mean and variance of the
    result's channels, S, T, M, V the same of the images', r as the result, g a number for each channel of each image, p
    a row of the result's channels for each window.
    """
    sizes: tuple[int, ...]
    """Images, their channels, those of the result, their side, and that of a window."""
    steps: int = 1
    dims: int = 2
    dtype: torch.dtype = torch.bfloat16
    last: bool = True
    """Whether images lie channels last."""
    margin: int = 0
    gap: int = 1

    def inputs(self, images: int, channels: int, made: int, side: int, window: int, device: str) -> list[Tensor]:
        """Inputs so large that results are about 1."""
        generator = torch.Generator(device).manual_seed(SEED)
        results = (side + 2 * self.margin - (window - 1) * self.gap - 1) // self.steps + 1

        def normal(*sizes: int, scale: float = 1.0, last: bool = False) -> Tensor:
            drawn = torch.randn(sizes, device=device, generator=generator) * scale
            drawn = drawn.to(self.dtype)
            return drawn.movedim(1, -1).contiguous().movedim(-1, 1) if last else drawn

        def vector(size: int, offset: float = 0.0) -> Tensor:
            return (normal(size).abs() + offset).to(self.dtype) if offset else normal(size)

        small = (channels * window**self.dims) ** -0.5
        make: dict[str, Callable[[], Tensor]] = {
            "x": lambda: normal(images, channels, *[side] * self.dims, last=self.last),
            "w": lambda: normal(made, channels, *[window] * self.dims, scale=small, last=self.last),
            "r": lambda: normal(images, made, *[results] * self.dims, last=self.last),
            "g": lambda: normal(images, channels, *[1] * self.dims),
            "p": lambda: normal(results**self.dims, made),
            "v": lambda: vector(made, 0.5),
            "V": lambda: vector(channels, 0.5),
        }
        make |= {letter: lambda: vector(made) for letter in "bstm"} | {k: lambda: vector(channels) for k in "STM"}
        return [make[letter]() for letter in self.operands]


def _norm_relu(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.relu(F.batch_norm(F.conv2d(x, w), m, v, s, t))


def _norm_residual(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.batch_norm(F.conv2d(x, w), m, v, s, t) + r)


def _norm_residual_2(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.batch_norm(F.conv2d(x, w, stride=2), m, v, s, t) + r)


def _norm_before(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.conv2d(F.relu(F.batch_norm(x, m, v, s, t)), w)


def _norm_relu6(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.relu6(F.batch_norm(F.conv2d(x, w), m, v, s, t))


def _gated_norm(x: Tensor, g: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.batch_norm(F.conv2d(x * torch.sigmoid(g), w), m, v, s, t)


def _image_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.conv2d(x, w, b))


def _image_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.conv2d(x, w, b))


def _scaled_residual(x: Tensor, w: Tensor, b: Tensor, s: Tensor, r: Tensor) -> Tensor:
    return r + F.conv2d(x, w, b) * s[:, None, None]


def _patches_gelu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.conv2d(x, w, b, stride=2))


def _tokens(x: Tensor, w: Tensor, b: Tensor, p: Tensor) -> Tensor:
    return F.conv2d(x, w, b, stride=16).flatten(2).transpose(1, 2).contiguous() + p


def _volume_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.conv3d(x, w, b))


def _drawn_convolutions(count: int) -> list[ConvolutionCase]:
    """Cases drawn by random.Random(14): 1 to 64 images of 7 to 64 points by as many, 32 to 1024 channels by 32."""
    draw = random.Random(SEED)
    found: list[ConvolutionCase] = []
    for number in range(count):
        sizes = draw.randint(1, 64), 32 * draw.randint(1, 32), 32 * draw.randint(1, 32), draw.randint(7, 64), 1
        name, function, operands = (("silu", _image_silu, "xwb"), ("residual", _scaled_residual, "xwbsr"))[number % 2]
        found.append(ConvolutionCase(f"drawn 1x1, bias, {name}", function, operands, sizes))
    return found


CONVOLUTIONS: Sequence[ConvolutionCase] = (
    ConvolutionCase("1x1, norm, relu", _norm_relu, "xwmvst", (32, 256, 64, 56, 1)),
    ConvolutionCase("1x1, norm, residual, relu", _norm_residual, "xwmvstr", (32, 64, 256, 56, 1)),
    ConvolutionCase("1x1 by 2, norm, residual, relu", _norm_residual_2, "xwmvstr", (32, 512, 1024, 28, 1), steps=2),
    ConvolutionCase("norm, relu, 1x1", _norm_before, "xwMVST", (32, 256, 128, 28, 1)),
    ConvolutionCase("1x1, norm, relu6", _norm_relu6, "xwmvst", (32, 32, 192, 56, 1)),
    ConvolutionCase("gate, 1x1, norm", _gated_norm, "xgwmvst", (32, 672, 112, 14, 1)),
    ConvolutionCase("1x1, bias, gelu", _image_gelu, "xwb", (32, 96, 384, 56, 1)),
    ConvolutionCase("1x1, bias, gelu, channels first", _image_gelu, "xwb", (32, 96, 384, 56, 1), last=False),
    ConvolutionCase("1x1, bias, scale, residual", _scaled_residual, "xwbsr", (32, 384, 96, 56, 1)),
    ConvolutionCase("1x1, bias, silu, one image", _image_silu, "xwb", (1, 256, 512, 32, 1)),
    ConvolutionCase("patches 2x2, bias, gelu", _patches_gelu, "xwb", (32, 96, 192, 56, 2), steps=2),
    ConvolutionCase("patches 16x16 as tokens", _tokens, "xwbp", (32, 3, 768, 224, 16), steps=16, last=False),
    ConvolutionCase("1x1x1, bias, relu", _volume_relu, "xwb", (4, 64, 128, 32, 1), dims=3),
    ConvolutionCase("f32 1x1, norm, relu", _norm_relu, "xwmvst", (32, 256, 64, 56, 1), dtype=torch.float32),
    ConvolutionCase(
        "f32 1x1, norm, residual, relu", _norm_residual, "xwmvstr", (32, 64, 256, 56, 1), dtype=torch.float32
    ),
    ConvolutionCase("f32 1x1, bias, gelu", _image_gelu, "xwb", (32, 96, 384, 56, 1), dtype=torch.float32),
    *_drawn_convolutions(6),
)
"""What models do around such a convolution: those of ResNet-50, DenseNet, MobileNet, ConvNeXt and ViT, and drawn ones.

Those of f32 are measured where torch lets convolutions and products be rounded to TF32.
"""


def _same(function: Callable[..., Tensor], x: Tensor, w: Tensor, b: Tensor | None = None, **given: int) -> Tensor:
    """A convolution whose images have a margin of half a window."""
    return function(x, w, b, padding=given.get("dilation", 1) * (w.shape[-1] // 2), **given)


def _same_norm_relu(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.relu(F.batch_norm(_same(F.conv2d, x, w), m, v, s, t))


def _same_norm_relu_2(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.relu(F.batch_norm(_same(F.conv2d, x, w, stride=2), m, v, s, t))


def _same_norm_silu(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.silu(F.batch_norm(_same(F.conv2d, x, w), m, v, s, t))


def _same_norm_silu_2(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return F.silu(F.batch_norm(_same(F.conv2d, x, w, stride=2), m, v, s, t))


def _same_norm_residual(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor, r: Tensor) -> Tensor:
    return F.relu(F.batch_norm(_same(F.conv2d, x, w), m, v, s, t) + r)


def _same_bias_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(_same(F.conv2d, x, w, b))


def _same_bias_silu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(_same(F.conv2d, x, w, b))


def _same_residual(x: Tensor, w: Tensor, b: Tensor, s: Tensor, r: Tensor) -> Tensor:
    return r + _same(F.conv2d, x, w, b) * s[:, None, None]


def _same_two(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y = _same(F.conv2d, x, w, b)
    return y, F.silu(y)


def _same_dilated(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(_same(F.conv2d, x, w, b, dilation=2))


def _norm_before_same(x: Tensor, w: Tensor, m: Tensor, v: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return _same(F.conv2d, F.relu(F.batch_norm(x, m, v, s, t)), w)


def _same_volume(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(_same(F.conv3d, x, w, b))


def _same_row(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(_same(F.conv1d, x, w, b))


def _drawn_overlapping(count: int) -> list[ConvolutionCase]:
    """Cases drawn by random.Random(15): 1 to 64 images of 7 to 112 points by as many, 8 to 256 channels by 8, windows
    of 3 or 5, of at most 2^35 products.
    """
    draw = random.Random(SEED + 1)
    found: list[ConvolutionCase] = []
    while len(found) < count:
        sizes = draw.randint(1, 64), 8 * draw.randint(1, 32), 8 * draw.randint(1, 32), draw.randint(7, 112)
        window = draw.choice((3, 3, 3, 5))
        if math.prod(sizes) * sizes[3] * window**2 > 2**35:
            continue
        name, function, operands = (("silu", _same_bias_silu, "xwb"), ("residual", _same_residual, "xwbsr"))[
            len(found) % 2
        ]
        name = f"drawn {window}x{window}, bias, {name}"
        found.append(ConvolutionCase(name, function, operands, (*sizes, window), margin=window // 2))
    return found


OVERLAPPING: Sequence[ConvolutionCase] = (
    ConvolutionCase("stem 7x7 by 2, norm, relu", _same_norm_relu_2, "xwmvst", (32, 3, 64, 224, 7), 2, margin=3),
    ConvolutionCase("stem 3x3 by 2, norm, silu", _same_norm_silu_2, "xwmvst", (32, 3, 32, 224, 3), 2, margin=1),
    ConvolutionCase("3x3 of 8 to 64, bias, silu", _same_bias_silu, "xwb", (16, 8, 64, 128, 3), margin=1),
    ConvolutionCase("5x5 of 48, bias, silu", _same_bias_silu, "xwb", (4, 48, 48, 150, 5), margin=2),
    ConvolutionCase("3x3 of 16, bias, relu", _same_bias_relu, "xwb", (32, 16, 16, 112, 3), margin=1),
    ConvolutionCase("3x3 of 16, norm, residual, relu", _same_norm_residual, "xwmvstr", (128, 16, 16, 32, 3), margin=1),
    ConvolutionCase("3x3 of 32, norm, silu", _same_norm_silu, "xwmvst", (32, 32, 32, 112, 3), margin=1),
    ConvolutionCase("3x3 of 32 by 2, norm, silu", _same_norm_silu_2, "xwmvst", (32, 32, 64, 112, 3), 2, margin=1),
    ConvolutionCase("3x3 of 64, norm, relu", _same_norm_relu, "xwmvst", (32, 64, 64, 56, 3), margin=1),
    ConvolutionCase("3x3 of 64, norm, residual, relu", _same_norm_residual, "xwmvstr", (32, 64, 64, 56, 3), margin=1),
    ConvolutionCase("3x3 of 64, bias, two outputs", _same_two, "xwb", (32, 64, 64, 56, 3), margin=1),
    ConvolutionCase("3x3 of 64, bias, relu, one image", _same_bias_relu, "xwb", (1, 64, 64, 128, 3), margin=1),
    ConvolutionCase("3x3 of 64 by 2, norm, relu", _same_norm_relu_2, "xwmvst", (32, 64, 128, 56, 3), 2, margin=1),
    ConvolutionCase("3x3 of 128, norm, relu", _same_norm_relu, "xwmvst", (32, 128, 128, 28, 3), margin=1),
    ConvolutionCase(
        "3x3 of 128, norm, residual, relu", _same_norm_residual, "xwmvstr", (32, 128, 128, 28, 3), margin=1
    ),
    ConvolutionCase("3x3 of 256, norm, relu", _same_norm_relu, "xwmvst", (32, 256, 256, 14, 3), margin=1),
    ConvolutionCase("3x3 of 512, norm, relu", _same_norm_relu, "xwmvst", (32, 512, 512, 7, 3), margin=1),
    ConvolutionCase("norm, relu, 3x3 of 128 to 32", _norm_before_same, "xwMVST", (32, 128, 32, 56, 3), margin=1),
    ConvolutionCase("3x3 of 64 with gaps, bias, relu", _same_dilated, "xwb", (8, 64, 64, 64, 3), margin=2, gap=2),
    ConvolutionCase("3x3x3, bias, relu", _same_volume, "xwb", (4, 32, 32, 32, 3), dims=3, margin=1),
    ConvolutionCase("3 of 256, bias, gelu", _same_row, "xwb", (16, 256, 256, 1024, 3), dims=1, margin=1),
    ConvolutionCase(
        "f32 3x3 of 64, norm, relu", _same_norm_relu, "xwmvst", (32, 64, 64, 56, 3), dtype=torch.float32, margin=1
    ),
    *_drawn_overlapping(8),
)
"""What models do around a convolution whose windows overlap: stems, the blocks of ResNet, DenseNet, EfficientNet and
U-Net, and drawn ones.
"""
