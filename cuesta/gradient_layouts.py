"""Gradients that a backward pass is given, read as they lie.

AOTAutograd traces a backward pass before anybody knows how the gradients of its results will lie: it guesses that each
lies as its result does, and copies one that does not, all of it, before the pass runs. So it goes where a result lies
channels last and what comes behind gives a row-major gradient, and with `y.sum().backward()`, whose gradient is one
number (strides 0): all bytes are written and read again, which eager does not do.

Here AOTAutograd is told to hand over what comes (`take_as_they_lie`), and a backward pass is compiled for the gradients
that come, when they first come (`Layouts`). For others that come later it is compiled again, a few times; then
they are copied as AOTAutograd would. The graph is the same but for a copy in front, which fusion takes away
(`lowering/capture/gradient_layouts.py`).

Source: `coerce_to_expected_memory_format` of torch/_functorch/_aot_autograd/runtime_wrappers.py, in torch 2.11 to 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from cuesta.lowering.capture.gradient_layouts import (
    Kept,
    Lie,
    axes_told,
    format_of,
    is_dense,
    is_of_symbols,
    lying_so,
    strides_in,
)
from cuesta.lowering.capture.memory_ranges import overlaps
from cuesta.lowering.capture.undefined_gradients import tangents_of
from cuesta.undefined_gradients import in_this_context

BoxedFunction = Callable[[list[Any]], Any]
Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]
LEAST_BYTES: Final = 1 << 15
"""Of a gradient that is read as it lies, in bytes: smaller ones are copied as before, which takes little more than the
call.

Source: measured on one thread, 32 KiB of f32 as one number: 69 us copied, 67 as it lies (a step without the copy: 54).
"""
MOST: Final = 4
"""How often a backward pass is compiled for gradients that lie in various ways, beside the way that was guessed.

Source: chosen; a gradient comes row-major, as its result lies, or as one number.
"""
_REMEMBERED: Final = 64
"""How many strides of gradients that came are remembered.

Source: chosen: more than MOST, as strides of axes with one element may be any.
"""


@contextmanager
def no_element_twice() -> Generator[None]:
    """Lets AOTAutograd guess in a `with` block that the gradient of a result of which elements are one in memory
    (`x.unfold(0, 2, 1)`) lies row-major: where the gradient of each is another, it cannot lie as the result does.

    The gradient that comes was copied to memory that lies so, in silence, and the last element that was copied was that
    of all (torch 2.13).

    Source: `MemoryFormatMeta.from_tensor` of torch/_functorch/_aot_autograd/schemas.py.
    """
    from torch._functorch._aot_autograd.schemas import MemoryFormatMeta

    formats: Any = MemoryFormatMeta
    guess = formats.from_tensor

    def from_tensor(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        if tensor.layout is torch.strided and not is_traceable_wrapper_subclass(tensor) and overlaps(tensor):
            return MemoryFormatMeta(memory_format=torch.contiguous_format)
        return guess(tensor, *arguments, **named)

    formats.from_tensor = staticmethod(from_tensor)
    try:
        yield
    finally:
        formats.from_tensor = staticmethod(guess)


def open_places(backward: torch.fx.GraphModule) -> list[int]:
    """Which of the gradients that a backward graph is given may come as they lie, by their numbers."""
    values = [node.meta.get("val") for node in tangents_of(backward.graph)]
    return [number for number, value in enumerate(values) if _may_lie(value)]


def _may_lie(value: object) -> bool:
    from torch._subclasses import FakeTensor

    if type(value) is not FakeTensor or value.layout is not torch.strided or not value.dim():
        return False
    return _hint(value.numel()) * value.element_size() >= LEAST_BYTES and is_dense(value)


def _hint(number: Any) -> int:
    """A size, or what it was when the graph was traced; of one that only the data says, many."""
    if type(number) is int:
        return number
    hint = number.node.hint if hasattr(number.node, "hint") else None
    return LEAST_BYTES if hint is None else int(hint)


class _Any:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def take_as_they_lie(made: Any, numbers: Collection[int]) -> None:
    """Lets a function of autograd's that AOTAutograd has made be given these of the gradients that come, by their
    numbers, as they lie. For compiled autograd, which takes a backward graph to pieces, all stays as it was.
    """
    from torch._functorch._aot_autograd.schemas import MemoryFormatMeta, PlainTensorMeta

    if not numbers:
        return
    expected = made.metadata.subclass_tangent_meta
    chosen = [expected[number] for number in numbers if number < len(expected)]
    chosen = [one for one in chosen if isinstance(one, PlainTensorMeta) and one.memory_format is not None]
    before = [one.memory_format for one in chosen]
    whatever = MemoryFormatMeta(size=cast("Any", _Any()), stride=cast("Any", _Any()))
    for one in chosen:
        one.memory_format = whatever
    key = made._compiled_autograd_key

    def asked(node: Any) -> Any:
        for one, guess in zip(chosen, before, strict=True):
            one.memory_format = guess
        return key(node)

    made._compiled_autograd_key = staticmethod(asked)


class _Static:
    """A gradient of known sizes: what the graph says of it, and what is done with one that comes."""

    def __init__(self, place: int, value: torch.Tensor, told: Collection[int]) -> None:
        self.place, self.sizes = place, cast("tuple[int, ...]", tuple(value.shape))
        self.strides = cast("tuple[int, ...]", value.stride())
        self.told, self.empty = told, 0 in self.sizes
        self.known: dict[tuple[int, ...], Lie | None] = {}
        """By the strides of those that came."""

    def lie(self, given: torch.Tensor) -> Lie | None:
        """How one lies that does not lie as was guessed; strides of axes with one element count for nothing."""
        strides = given.stride()
        if strides == self.strides or self.empty:
            return None
        if (found := self.known.get(strides, self)) is not self:
            return cast("Lie | None", found)
        known = zip(strides, self.strides, self.sizes, strict=True)
        lie = tuple(guess if size == 1 else stride for stride, guess, size in known)
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        self.known[strides] = found = None if lie == self.strides else lie
        return found

    def lying(self, given: torch.Tensor, lie: Lie | None) -> torch.Tensor:
        """The gradient, as the program takes it that is compiled for this."""
        strides = self.strides if lie is None else lie
        if lie is not None and 0 in lie:
            return given.as_strided(_narrowed(self.sizes, strides, self.told), strides)
        if given.stride() == strides:
            return given
        return self.copied(given) if self.empty else given.as_strided(self.sizes, strides)

    def copied(self, given: torch.Tensor) -> torch.Tensor:
        """A copy that lies as was guessed."""
        return torch.empty_strided(given.shape, self.strides, dtype=given.dtype, device=given.device).copy_(given)


class _Symbolic:
    """The same of one whose sizes are symbols: it lies without gaps, in some order of its axes, or is copied."""

    def __init__(self, place: int, value: torch.Tensor, told: Collection[int]) -> None:
        self.place, self.format, self.told = place, format_of(value) or torch.contiguous_format, told

    def lie(self, given: torch.Tensor) -> Lie | None:
        """The axes that are not expanded, the outermost first; None if it lies as was guessed, or is to be copied."""
        if given.is_contiguous(memory_format=self.format):
            return None
        sizes, strides = given.shape, given.stride()
        axes = [axis for axis, size in enumerate(sizes) if size == 1 or strides[axis]]
        order = tuple(sorted(axes, key=lambda axis: (sizes[axis] != 1, -strides[axis])))
        pairs = zip(strides, strides_in(order, sizes), sizes, strict=True)
        return order if all(one == other or size == 1 for one, other, size in pairs) else None

    def lying(self, given: torch.Tensor, lie: Lie | None) -> torch.Tensor:
        """The gradient, as the program takes it that is compiled for this."""
        if lie is None:
            return self.copied(given)
        strides = strides_in(lie, given.shape)
        if len(lie) < len(strides):
            return given.as_strided(_narrowed(given.shape, strides, self.told), strides)
        return given if given.stride() == strides else given.as_strided(given.shape, strides)

    def copied(self, given: torch.Tensor) -> torch.Tensor:
        """The gradient, or a copy that lies as was guessed."""
        return given.contiguous(memory_format=self.format)


def _narrowed(sizes: Sequence[int], strides: Sequence[int], axes: Collection[int]) -> list[int]:
    """Sizes with one element along those of the axes that are expanded."""
    return [
        1 if not stride and axis in axes else size
        for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    ]


class Layouts:
    """A backward pass, compiled for how the gradients that it is given lie, when they first come so."""

    def __init__(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any], numbers: Collection[int], compile: Compile
    ) -> None:
        self.kept, self.untouched = Kept(gm), [gm]
        self.inputs, self.compile = list(inputs), compile
        self.context = in_this_context()
        placeholders = gm.graph.find_nodes(op="placeholder")
        tangents = [placeholders.index(node) for node in tangents_of(gm.graph)]
        self.open: list[_Static | _Symbolic] = []
        for number in numbers:
            place = tangents[number]
            kind = _Symbolic if is_of_symbols(self.inputs[place]) else _Static
            self.open.append(kind(place, self.inputs[place], axes_told(gm.graph, placeholders[place])))
        self.made: dict[tuple[Lie | None, ...], BoxedFunction] = {}

    def __call__(self, arguments: list[Any]) -> Any:
        """Its results, whatever way the gradients lie."""
        lies: list[Lie | None] = []
        for one in self.open:
            given = arguments[one.place]
            if given is None:  # a gradient that nobody has
                lies.append(None)
                continue
            if given.is_neg() or given.is_conj():
                given = arguments[one.place] = given.resolve_conj().resolve_neg()
            lies.append(one.lie(given))
        program, taken = self._program(tuple(lies))
        for one, lie, as_taken in zip(self.open, lies, taken, strict=True):
            given = arguments[one.place]
            if given is not None:
                arguments[one.place] = one.lying(given, lie) if lie == as_taken else one.copied(given)
        return program(arguments)

    def _program(self, lies: tuple[Lie | None, ...]) -> tuple[BoxedFunction, tuple[Lie | None, ...]]:
        """What runs for gradients that lie so, and how it takes them."""
        if (found := self.made.get(lies)) is not None:
            return found, lies
        guessed = (None,) * len(lies)
        if lies != guessed and len(self.made) - (guessed in self.made) >= MOST:
            return self._program(guessed)
        given = {one.place: lie for one, lie in zip(self.open, lies, strict=True) if lie is not None}
        try:
            gm = self.untouched.pop()  # compiling changes it
        except IndexError:
            gm = self.kept.made()
        with self.context():
            self.made[lies] = self.compile(gm, lying_so(gm.graph, self.inputs, given))
        return self.made[lies], lies


__all__ = ["Layouts", "open_places", "take_as_they_lie"]
