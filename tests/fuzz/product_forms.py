"""Random products of matrices, however they are said and however their factors lie, for hypothesis: with sizes of 1 and
odd ones, strides of 0, factors that are turned, have gaps, or begin where no vector does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

Draw = Callable[[st.SearchStrategy[Any]], Any]
Said = Callable[[Tensor, Tensor, Tensor], Tensor]


def _by_hand(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return (a[..., :, :, None] * b[..., None, :, :]).sum(-2)


def _by_hand_in_f32(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    return (a[..., :, :, None].to(wide) * b[..., None, :, :].to(wide)).sum(-2)


MATRICES: dict[str, Said] = {
    "mm": lambda a, b, c: a @ b,
    "addmm": lambda a, b, c: torch.addmm(c, a, b),
    "addmm, scaled": lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=-1.5),
    "linear": lambda a, b, c: functional.linear(a, b.t(), c[0]),
    "einsum": lambda a, b, c: torch.einsum("ik,kj->ji", a, b),
    "by hand": _by_hand,
    "by hand in f32": _by_hand_in_f32,
}
BATCHED: dict[str, Said] = {
    "bmm": lambda a, b, c: a @ b,
    "baddbmm": lambda a, b, c: torch.baddbmm(c, a, b, beta=2.0, alpha=0.5),
    "einsum of batches": lambda a, b, c: torch.einsum("hik,hkj->ihj", a, b),
    "einsum of heads": lambda a, b, c: torch.einsum("hik,hkj->ij", a, b),
    "matmul of one": lambda a, b, c: a @ b[0],
    "by hand, batched": _by_hand,
}
AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "nothing": lambda y: y,
    "relu": lambda y: y.relu(),
    "gelu": functional.gelu,
    "scaled": lambda y: y * 0.5 + 1,
    "summed": lambda y: y.sum(-1),
}
LAYOUTS = ("plain", "turned", "gaps", "begins", "the same rows", "the same columns")
SIZES = (1, 2, 3, 7, 16, 17, 33, 40)


@dataclass(frozen=True, slots=True)
class Form:
    """A product: how it is said, of what, and what is done with it."""

    name: str
    after: str
    batch: int
    rows: int
    columns: int
    points: int
    lies: tuple[str, str, str]
    dtype: torch.dtype
    seed: int

    def function(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """The program."""
        return AFTER[self.after]((MATRICES | BATCHED)[self.name](a, b, c))

    def inputs(self) -> list[Tensor]:
        """Both factors, and what is added; as exactly as f32 has them, the factors as the type has them."""
        generator = torch.Generator().manual_seed(self.seed)
        sizes = ((self.rows, self.points), (self.points, self.columns), (self.rows, self.columns))
        return [self._lying(how, *one, generator) for how, one in zip(self.lies, sizes, strict=True)]

    def _lying(self, how: str, rows: int, columns: int, generator: torch.Generator) -> Tensor:
        batch = (self.batch,) if self.name in BATCHED else ()

        def drawn(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator).to(self.dtype)

        if how == "turned":
            return drawn(*batch, columns, rows).mT
        if how == "gaps":
            return drawn(*batch, rows, columns + 3)[..., :columns]
        if how == "begins":
            count = rows * columns * (self.batch if batch else 1)
            return drawn(count + 1)[1:].view(*batch, rows, columns)
        if how == "the same rows":
            return drawn(*batch, 1, columns).expand(*batch, rows, columns)
        if how == "the same columns":
            return drawn(*batch, rows, 1).expand(*batch, rows, columns)
        return drawn(*batch, rows, columns)


@st.composite
def forms(draw: Draw, name: str, dtypes: tuple[torch.dtype, ...]) -> Form:
    """One that is said so."""
    rows, columns, points = (draw(st.sampled_from(SIZES)) for _ in range(3))
    return Form(
        name,
        draw(st.sampled_from(sorted(AFTER))),
        draw(st.sampled_from((1, 2, 3))),
        rows,
        columns,
        points,
        (draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(LAYOUTS))),
        draw(st.sampled_from(dtypes)),
        draw(st.integers(0, 1 << 20)),
    )
