"""Random convolutions of all forms, and their gradients, for hypothesis: grouped, transposed, with steps, gaps and
places that are added; of images in one to three dimensions, channels first and last, and of sizes down to 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]
FORMS = (
    "grouped",
    "transposed, every step 1",
    "gradient of images, every step 1",
    "transposed",
    "gradient of images",
    "gradient of images, transposed",
    "gradient of the weight",
    "gradient of the weight, transposed",
)
MOST = 1 << 19
"""Multiplications of one.

Source: a bound: the interpreters do so many in a second.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """A convolution, or a gradient of one, and whether something follows."""

    name: str
    images: int
    groups: int
    channels: int
    """Of a group of what is read forwards."""
    made: int
    """Of a group of the result."""
    sizes: tuple[int, ...]
    window: tuple[int, ...]
    steps: tuple[int, ...]
    margins: tuple[int, ...]
    gaps: tuple[int, ...]
    added: tuple[int, ...]
    dtype: torch.dtype
    last: bool
    """Whether images lie channels last."""
    follows: bool

    @property
    def is_transposed(self) -> bool:
        return "transposed" in self.name

    @property
    def places(self) -> list[int]:
        """The sizes of the result."""
        found: list[int] = []
        every = zip(self.sizes, self.window, self.steps, self.margins, self.gaps, self.added, strict=True)
        for size, length, step, margin, gap, more in every:
            reach = gap * (length - 1)
            if self.is_transposed:
                found.append((size - 1) * step - 2 * margin + reach + 1 + more)
            else:
                found.append((size + 2 * margin - reach - 1) // step + 1)
        return found

    @property
    def arguments(self) -> list[Any]:
        """Those of the operator behind its tensors."""
        lists = [list(one) for one in (self.steps, self.margins, self.gaps)]
        return [*lists, self.is_transposed, list(self.added), self.groups]

    def function(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The program."""
        if "gradient" in self.name:
            wanted = ["images" in self.name, "weight" in self.name, False]
            every: Sequence[Tensor | None] = torch.ops.aten.convolution_backward(*inputs, None, *self.arguments, wanted)
        else:
            x, w, b = inputs
            every = [torch.ops.aten.convolution(x, w, b if self.follows else None, *self.arguments)]
        return tuple(torch.relu(one) + 1 if self.follows else one for one in every if one is not None)

    def inputs(self) -> list[Tensor]:
        """Its arguments, random and always the same ones."""
        generator = torch.Generator().manual_seed(0)

        def drawn(*sizes: int, scale: float = 1.0) -> Tensor:
            one = (torch.randn(sizes, generator=generator) * scale).to(self.dtype)
            return one.movedim(1, -1).contiguous().movedim(-1, 1) if self.last else one

        read, made = self.groups * self.channels, self.groups * self.made
        sides = (read, self.made) if self.is_transposed else (made, self.channels)
        x = drawn(self.images, read, *self.sizes)
        w = drawn(*sides, *self.window, scale=(self.channels * math.prod(self.window)) ** -0.5)
        if "gradient" in self.name:
            return [drawn(self.images, made, *self.places), x, w]
        return [x, w, torch.randn(made, generator=generator).to(self.dtype)]


@st.composite
def forms(draw: Draw, name: str) -> Form:
    """One of a form. Some windows lie in the margin wholly, some places of a result are given by none."""
    rank = draw(st.sampled_from([1, 2, 2, 3]))

    def each(*every: int) -> tuple[int, ...]:
        return tuple(draw(st.sampled_from(every)) for _ in range(rank))

    window, margins, gaps = each(1, 2, 3, 4), each(0, 1, 2), each(1, 1, 2, 3)
    steps = (1,) * rank if "every step 1" in name else each(1, 2, 2, 3)
    added = (0,) * rank
    if "transposed" in name:
        added = tuple(draw(st.integers(0, max(step, gap) - 1)) for step, gap in zip(steps, gaps, strict=True))
    least = [
        -(-(2 * margin - gap * (length - 1) - more) // step) + 1
        if "transposed" in name
        else gap * (length - 1) + 1 - 2 * margin
        for length, margin, gap, step, more in zip(window, margins, gaps, steps, added, strict=True)
    ]
    found = Form(
        name,
        draw(st.integers(1, 3)),
        draw(st.sampled_from([2, 3] if name == "grouped" else [1, 1, 2])),
        draw(st.sampled_from([1, 2, 3, 8, 16])),
        draw(st.sampled_from([2, 4, 5, 16])),
        tuple(max(1, one) + draw(st.sampled_from([0, 1, 2, 5])) for one in least),
        window,
        steps,
        margins,
        gaps,
        added,
        draw(st.sampled_from([torch.bfloat16, torch.float16, torch.float32])),
        draw(st.booleans()),
        draw(st.booleans()),
    )
    work = found.images * math.prod(found.sizes) * math.prod(window) * found.channels * found.made * found.groups
    assume(min(found.places) > 0 and work <= MOST)
    return found


__all__ = ["FORMS", "Form", "forms"]
