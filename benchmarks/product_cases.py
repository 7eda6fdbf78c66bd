"""Products that `make bench-products` measures: shapes drawn by a rule, and what is done around a product."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
  turned   as `layer`, both factors transposed"""


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

    def __str__(self) -> str:
        batch = f"{self.batch} of " if self.batch else ""
        turned = f"{'T' if self.left_turned else 'N'}{'T' if self.right_turned else 'N'}"
        return f"{self.kind:8} {batch}{self.rows} x {self.columns} x {self.points} {turned}"

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.columns * self.points * max(1, self.batch)

    def inputs(self, device: str, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
        """Both factors, normal."""
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
            return f'tensor<{batch}{rows}x{columns}xbf16, #aten.layout<{strides}device = "{device}">>'

        a = tensor(self.rows, self.points, self.left_turned)
        b = tensor(self.points, self.columns, self.right_turned)
        y = tensor(self.rows, self.columns)
        call = f'"aten.{"bmm" if self.batch else "mm"}.default"(%a, %b)'
        return (
            f"func.func @main(%a : {a}, %b : {b}) -> {y} {{\n"
            f"  %y = loops.extern pure {call} : ({a}, {b}) -> {y}\n"
            f"  func.return %y : {y}\n}}"
        )


def drawn_shapes() -> list[Shape]:
    """The forty, as `RULE` says."""
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
    return found


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
