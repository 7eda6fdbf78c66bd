"""Random kernels over windows for hypothesis: strides, padding, dilation, reversed images, lanes, rows shared among
programs; and random calls of PyTorch whose kernels are such.

Every load has a mask that keeps it within its image, said in one of many ways: whatever is drawn is a right program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows along an axis: element k of window w lies at first + w · stride + k · dilation of `size` elements."""

    size: int
    windows: int
    length: int
    stride: int
    dilation: int
    first: int

    def position(self, window: str, offset: str) -> str:
        """The position, as an index expression."""
        return f"{window} * {self.stride} + {offset} * {self.dilation} + {self.first}"

    def positions(self) -> list[int]:
        """All of them."""
        windows, offsets = range(self.windows), range(self.length)
        return [self.first + w * self.stride + k * self.dilation for w in windows for k in offsets]


@st.composite
def axes(draw: Draw) -> Axis:
    """Some windows leave the image on either side, some never meet it; a negative stride reads it in reverse."""
    size, length = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    stride, dilation = draw(st.sampled_from([1, 1, 2, 3, -1, -2])), draw(st.sampled_from([1, 1, 2, 3]))
    windows = draw(st.integers(1, 48))
    first = draw(st.integers(-6, 6)) + (size - 1 if stride < 0 else 0)
    return Axis(size, windows, length, stride, dilation, first)


@dataclass
class _Lines:
    """The lines of a loop's body."""

    lines: list[str]
    count: int = 0

    def value(self, text: str) -> str:
        """A line that gives a value; its name."""
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {text}")
        return name


def _conditions(draw: Draw, body: _Lines, axis: Axis, position: str, kind: str) -> list[str]:
    """Bools that say that a position is in the image; what holds of all of them may be left out."""
    found: list[str] = []
    index = body.value(f"kernel.index [{position}] : {kind}")
    for limit, words in ((0, (("ge", 0), ("gt", -1))), (axis.size - 1, (("le", 0), ("lt", 1)))):
        holds = all(p >= 0 if limit == 0 and words[0][0] == "ge" else p < axis.size for p in axis.positions())
        if holds and draw(st.booleans()):
            continue
        word, off = draw(st.sampled_from(words))
        number = body.value(f"elem.constant {limit + off} : {kind}")
        mirrored = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}[word]
        turned = draw(st.booleans())
        operands = f"{number}, {index}" if turned else f"{index}, {number}"
        found.append(body.value(f"elem.{mirrored if turned else word} {operands} : {kind}"))
    return found


def _all_of(body: _Lines, bools: Sequence[str], kind: str) -> str | None:
    """Their conjunction."""
    result: str | None = None
    for one in bools:
        result = one if result is None else body.value(f"elem.and {result}, {one} : {kind}")
    return result


@st.composite
def kernels(draw: Draw) -> str:
    """A program of one kernel: a reduction over the windows of an image, or a load at each point."""
    rows, columns = draw(axes()), draw(axes())
    lanes = draw(st.sampled_from([1, 4, 8, 16]))
    programs = draw(st.sampled_from([1, 1, 2, 5]))
    share = -(-rows.windows // programs)
    windowed = draw(st.booleans())
    shape = f"vector<{lanes}x" if lanes > 1 else ""
    value, index, flag = (f"{shape}{one}>" if shape else one for one in ("f32", "i64", "i1"))
    other = draw(st.sampled_from(["-inf", "0.0", "1.5"]))
    body = _Lines([])
    i, j, v, w = "%i", "%j", *(("%v", "%w") if windowed else ("0", "0"))
    row, column = rows.position(i, v), columns.position(j, w)
    outer = _all_of(body, _conditions(draw, body, rows, row, "i64"), "i1")
    inner = _all_of(body, _conditions(draw, body, columns, column, index), flag)
    if outer is not None and lanes > 1:
        outer = body.value(f"kernel.broadcast {outer} : i1 to {flag}")
    mask = _all_of(body, [one for one in (outer, inner) if one is not None], flag)
    rest = "" if mask is None else f" if {mask} else {body.value(f'elem.constant {other} : {value}')}"
    loaded = body.value(f"kernel.load %x[({row}) * {columns.size} + {column}]{rest} : {value}")
    lines = body.lines
    if windowed:
        kind = draw(st.sampled_from(["maximum", "sum", "minimum"]))
        lines = [f"  {line}" for line in [*lines, f"kernel.yield {loaded} : {value}"]]
        loaded = "%m"
        lines = [
            f"%m = kernel.reduce {kind} (%v = 0 to {rows.length}, %w = 0 to {columns.length}) {{",
            *lines,
            f"}} : {value}",
        ]
    lines.append(f"kernel.store {loaded}, %o[%i * {columns.windows} + %j] : {value}")
    lower, upper = ("0", str(rows.windows)) if programs == 1 else (
        f"%p * {share}", f"min(%p * {share} + {share}, {rows.windows})"
    )  # fmt: skip
    loop = f"kernel.for (%i = {lower} to {upper}, %j = 0 to {columns.windows}{f' lanes {lanes}' if lanes > 1 else ''})"
    text = "\n".join(f"    {line}" for line in lines)
    image = f"tensor<{rows.size}x{columns.size}xf32>"
    result = f"tensor<{rows.windows}x{columns.windows}xf32>"
    grid, program = ("[]", "") if programs == 1 else (f"[{programs}]", "  %p = kernel.program_id 0\n")
    return (
        "kernel.func @windows(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)\n"
        f"    schedule #kernel.schedule<grid = {grid}> {{\n{program}  {loop} {{\n{text}\n  }}\n}}\n"
        f"func.func @main(%x : {image}) -> {result} {{\n"
        f"  %y = kernel.launch @windows(%x) : ({image}) -> ({result})\n"
        f"  func.return %y : {result}\n}}\n"
    )


@dataclass(frozen=True, slots=True)
class Call:
    """A call of PyTorch on windows, as text, and its input."""

    text: str
    sizes: tuple[int, ...]

    def function(self) -> Callable[[Tensor], Any]:
        """The function of one tensor."""
        return eval(f"lambda x: {self.text}", {"F": F, "torch": torch})


@st.composite
def calls(draw: Draw) -> Call:
    """Pooling and padding in two dims, of images that the windows fit into."""
    window = [draw(st.integers(1, 4)) for _ in range(2)]
    stride = [draw(st.integers(1, 3)) for _ in range(2)]
    padding = [draw(st.integers(0, one // 2)) for one in window]
    dilation = [draw(st.integers(1, 3)) for _ in range(2)]
    spread = [(one - 1) * d + 1 for one, d in zip(window, dilation, strict=True)]
    sizes = (draw(st.integers(1, 3)), *(one + draw(st.integers(0, 30)) for one in spread))
    around = [draw(st.integers(0, 5)) for _ in range(4)]
    less = [draw(st.integers(-min(one, 2), 5)) for one in (sizes[2] - 1, sizes[2] - 1, sizes[1] - 1, sizes[1] - 1)]
    text = draw(
        st.sampled_from(
            [
                f"F.max_pool2d(x, {window}, {stride}, {padding}, {dilation})",
                f"F.max_pool2d(x, {window}, {stride}, {padding}, {dilation}, ceil_mode=True)",
                f"F.avg_pool2d(x, {window}, {stride}, {padding})",
                f"F.avg_pool2d(x, {window}, {stride}, {padding}, ceil_mode=True, count_include_pad=False)",
                f"F.max_pool2d(F.pad(x, {around}), {window}, {stride}, 0, {dilation})",
                f"F.pad(x, {around}).exp()",
                f"F.pad(x, {less}, value=2.5) * 2",
                f"F.avg_pool2d(F.pad(x, {around}).flip(2), {window}, {stride})",
            ]
        )
    )
    return Call(text, sizes)
