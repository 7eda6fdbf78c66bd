"""`kernel.reduce` as Triton text: of one tile at once, or with accumulators around loops."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from cuesta.dialects import kernel
from cuesta.dialects.core.reductions import EXTREMES, REDUCTIONS, identity
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.dialects.kernel.shapes import Shape
from cuesta.targets.triton.emit_types import constant_text, dtype_text, number_text

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


class Accumulator:
    """What a reduction carries around its loops."""

    hints: tuple[str, ...] = ("acc",)

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        self.emitter = emitter
        self.op = op
        self.scalar: Attribute = scalar_of(op.yielded.type)
        self.dtype = dtype_text(self.scalar)
        self.dim = op.dim if op.lanes > 1 else None
        self.place = emitter.place(op.dim)
        self.shape: Shape = ()
        self.results: list[tuple[str, Shape]] = []

    @cached_property
    def names(self) -> list[str]:
        """The names of what is carried."""
        return [self.emitter.fresh(hint) for hint in self.hints]

    # What the kinds say

    def identities(self) -> list[str]:
        """For every name the text of a scalar to begin with."""
        raise TypeError("an accumulator has identities")

    def update(self, value: str, mask: str | None) -> None:
        """Writes the lines that take in a value, where the mask is true."""
        raise TypeError("an accumulator can be updated")

    def across(self) -> list[str]:
        """The texts of the results when the lanes of the names come together."""
        raise TypeError("an accumulator brings lanes together")

    def whole(self, value: str, mask: str | None) -> list[str]:
        """The texts of the results of one tile; unless a kind knows better, as of a loop of one round."""
        for name, text in self.initial():
            self.emitter.line(f"{name} = {text}")
        self.update(value, mask)
        return self.across()

    # What the emitter calls

    def take_whole(self, op: kernel.ReduceOp) -> None:
        """Reduces the tile that the body yields."""
        value, mask = self.tile(op.yielded)
        self.done(self.whole(value, mask))

    def take(self, op: kernel.ReduceOp) -> None:
        """Takes in what the body yields."""
        value, mask = self.tile(op.yielded)
        self.update(value, mask)

    def initial(self) -> list[tuple[str, str]]:
        """Names and texts before the loop; after the body was emitted, when its shape is known."""
        texts = self.identities()
        if self.shape:
            texts = [filled(text, self.shape) for text in texts]
        return list(zip(self.names, texts, strict=True))

    def finish(self) -> None:
        """Writes what comes after the loop."""
        if self.dim is None:
            self.results = [(name, self.shape) for name in self.names[: len(self.op.results)]]
        else:
            self.done(self.across())

    def tile(self, value: SSAValue) -> tuple[str, str | None]:
        """The yielded value, varying along the lanes at least, and the mask of those."""
        emitter = self.emitter
        text, real = emitter.name(value), emitter.real_of(value)
        if self.dim is None:
            self.shape = real
            if emitter.rank > 1 and not real:
                self.shape = (1,) * emitter.rank
            return text, None
        wanted = list(real or (1,) * emitter.rank)
        wanted[self.place] = self.op.lanes
        self.shape = tuple(wanted)
        if self.shape != real:
            text = emitter.bind(emitter.spread(f"tl.cast({text}, {self.dtype})", real, self.shape), "v")
        return text, emitter.masks.get(self.dim)

    def done(self, texts: list[str]) -> None:
        """Names the results."""
        assert self.dim is not None
        shape: Shape = ()
        if self.emitter.rank > 1:
            shape = tuple(1 if axis == self.place else size for axis, size in enumerate(self.shape))
        for text, result in zip(texts, self.op.results, strict=False):
            self.results.append((self.emitter.bind(text, result.name_hint or self.op.kind), shape))

    @property
    def axis(self) -> str:
        """The arguments of Triton's reductions after the value: the axis, and whether it is kept."""
        keep = ", keep_dims=True" if self.emitter.rank > 1 else ""
        return f"{self.place}{keep}"

    def reduced(self, values: str, function: str) -> str:
        """`tl.reduce` with a function of ours."""
        keep = ", keep_dims=True" if self.emitter.rank > 1 else ""
        return f"tl.reduce({values}, {self.place}, functions.{function}{keep})"


FEW_LANES = 8
"""So many lanes of a loop whose ends only the data knows come together in every step.

Source: an estimate: of four rows of 1024 a thread has 8 numbers to carry then, and 32 otherwise.
"""


def filled(text: str, shape: Shape) -> str:
    """The text of a scalar `tl.full([], …)` as one of a block."""
    return text.replace("tl.full([], ", f"tl.full({list(shape)}, ", 1)


_STEP = {
    "sum": "{a} + {b}",
    "prod": "{a} * {b}",
    "any": "{a} | {b}",
    "all": "{a} & {b}",
    "maximum": "functions.{f}({a}, {b})",
    "minimum": "functions.{f}({a}, {b})",
}


class SimpleAccumulator(Accumulator):
    """One associative, commutative operation: sum, prod, maximum, minimum, any, all."""

    @property
    def neutral(self) -> float | int:
        """The identity."""
        return identity(self.op.kind, self.scalar)

    def identities(self) -> list[str]:
        """The neutral element."""
        return [constant_text(self.neutral, self.scalar)]

    def masked(self, value: str, mask: str | None) -> str:
        """The value, with the neutral element where the mask is false."""
        if mask is None:
            return value
        plain = self.dtype == "tl.float32"
        other = number_text(self.neutral) if plain else constant_text(self.neutral, self.scalar)
        return f"tl.where({mask}, {value}, {other})"

    @property
    def function(self) -> str:
        """The device function of maximum or minimum."""
        kind = kind_of(self.scalar)
        if kind == "b":
            return "either" if self.op.kind == "maximum" else "both"
        return self.op.kind

    @cached_property
    def in_steps(self) -> bool:
        """Whether the lanes come together in every step: few of them, in few steps, which only the data counts. A
        thread has them all, or nearly; and it carries one number for them.
        """
        few = self.dim is not None and self.emitter.rank > 1 and self.op.lanes <= FEW_LANES
        return few and not isinstance(self.op.uppers.results[-1] - self.op.lowers.results[-1], int)

    def initial(self) -> list[tuple[str, str]]:
        """Of the lanes together, or of each."""
        if self.in_steps:
            self.shape = tuple(1 if axis == self.place else size for axis, size in enumerate(self.shape))
        return super().initial()

    def update(self, value: str, mask: str | None) -> None:
        """acc = acc ∘ value"""
        value = self.masked(value, mask)
        if self.in_steps:
            value = self.together(value)
        self.emitter.line(f"{self.names[0]} = {_STEP[self.op.kind].format(a=self.names[0], b=value, f=self.function)}")

    def across(self) -> list[str]:
        """The lanes together."""
        return [self.names[0] if self.in_steps else self.together(self.names[0])]

    def whole(self, value: str, mask: str | None) -> list[str]:
        """All of one tile."""
        return [self.together(self.masked(value, mask))]

    def together(self, value: str) -> str:
        """The text that reduces the lanes of a value."""
        kind = self.op.kind
        if kind == "sum":
            narrow = "" if self.dtype in ("tl.float32", "tl.float64", "tl.int32", "tl.int64") else f".to({self.dtype})"
            return f"tl.sum({value}, {self.axis}){narrow}"
        if kind in ("any", "all"):
            name = "max" if kind == "any" else "min"
            return f"(tl.{name}(({value}).to(tl.int32), {self.axis}) != 0)"
        if kind in ("maximum", "minimum") and kind_of(self.scalar) == "b":
            name = "max" if kind == "maximum" else "min"
            return f"(tl.{name}(({value}).to(tl.int32), {self.axis}) != 0)"
        return self.reduced(value, "multiply" if kind == "prod" else self.function)


def position_text(emitter: KernelEmitter, op: kernel.LoopOp) -> tuple[str, Shape]:
    """The row-major number of a point in the domain of a loop, and its shape."""
    text = ""
    for variable, low, high in zip(op.induction_variables, op.lowers.results, op.uppers.results, strict=True):
        own = emitter.names[variable]
        if low != 0:
            own = f"({own} - ({emitter.index(low, op.operands)[0]}))"
        text = f"({text} * ({emitter.index(high - low, op.operands)[0]}) + {own})" if text else own
    return text, emitter.joint([emitter.real_of(variable) for variable in op.induction_variables])


class ArgAccumulator(Accumulator):
    """Arg-reductions: the extreme and the first of its indices, or the last, as the kind says. NaN is the extreme."""

    hints = ("best", "where")

    def __init__(self, emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
        super().__init__(emitter, op)
        self.nowhere = constant_text(2**63 - 1, _i64) if emitter.wide else constant_text(2**31 - 1, _i32)

    def identities(self) -> list[str]:
        """Nothing yet: any element is better, since its index is less."""
        return [constant_text(identity(self.op.kind, self.scalar), self.scalar), self.nowhere]

    @property
    def in_two(self) -> bool:
        """Whether a tile is reduced twice, which is cheaper than pairs are. Of 0 and −0 the extreme may be either."""
        return not REDUCTIONS[self.op.kind].last_nan and kind_of(self.scalar) in "fiu"

    def pair(self, value: str, mask: str | None) -> tuple[str, str]:
        """The value and its index, where the mask is false the identities."""
        text, real = position_text(self.emitter, self.op)
        if not real:
            text = f"tl.cast({text}, {self.emitter.integer})"
        index = self.emitter.bind(self.emitter.spread(text, real, self.shape), "index")
        if mask is None:
            return value, index
        worst = constant_text(identity(self.op.kind, self.scalar), self.scalar)
        return f"tl.where({mask}, {value}, {worst})", f"tl.where({mask}, {index}, {self.nowhere})"

    def update(self, value: str, mask: str | None) -> None:
        """The better of what there is and what comes."""
        best, where = self.names
        value, index = self.pair(value, mask)
        step = f"functions.{self.op.kind}({best}, {where}, {value}, {index})"
        if self.in_two:  # what comes later has the greater index
            step = f"functions.later_{self.op.kind}({best}, {where}, {value}, {index}, {self.nowhere})"
        self.emitter.line(f"{best}, {where} = {step}")

    def across(self) -> list[str]:
        """The best of all lanes."""
        return self.named(self.names[0], self.names[1])

    def whole(self, value: str, mask: str | None) -> list[str]:
        """The best of one tile."""
        value, index = self.pair(value, mask)
        return self.named(value, index)

    def named(self, value: str, index: str) -> list[str]:
        """The texts of the results when the lanes of a pair come together."""
        best, where = (self.emitter.fresh(hint) for hint in self.hints)
        if self.in_two:
            self.emitter.line(f"{best} = {self.reduced(value, EXTREMES[self.op.kind])}")
            everywhere = self.emitter.spread(best, (), self.shape) if self.emitter.rank == 1 else best
            found = f"tl.where(functions.same({value}, {everywhere}), {index}, {self.nowhere})"
            self.emitter.line(f"{where} = {self.reduced(found, 'minimum')}")
        else:
            self.emitter.line(f"{best}, {where} = {self.reduced(f'({value}, {index})', self.op.kind)}")
        return [best, f"{where}.to(tl.int64)"]

    def finish(self) -> None:
        """Indices are i64 in the end."""
        if self.dim is None:
            where = self.emitter.bind(f"{self.names[1]}.to(tl.int64)", "index")
            self.results = [(self.names[0], self.shape), (where, self.shape)]
        else:
            super().finish()


class WelfordAccumulator(Accumulator):
    """Mean and Σ(v − mean)²; of one tile in two passes over its registers, else by Welford's update in every lane."""

    hints = ("mean", "square", "count")

    def identities(self) -> list[str]:
        """Of nothing: 0, 0, 0."""
        return [constant_text(0.0, self.scalar)] * 3

    def update(self, value: str, mask: str | None) -> None:
        """One more element in every lane where the mask is true."""
        mean, square, count = self.names
        if mask is None:
            self.emitter.line(f"{mean}, {square}, {count} = functions.welford_step({mean}, {square}, {count}, {value})")
        else:
            self.emitter.line(
                f"{mean}, {square}, {count} = functions.welford_step_masked({mean}, {square}, {count}, {value}, {mask})"
            )

    def across(self) -> list[str]:
        """The lanes' moments together."""
        results = [self.emitter.fresh(hint) for hint in self.hints]
        together = self.reduced(f"({', '.join(self.names)})", "welford")
        self.emitter.line(f"{', '.join(results)} = {together}")
        return results[:2]

    def whole(self, value: str, mask: str | None) -> list[str]:
        """Two passes: the mean, and then what is left."""
        emitter = self.emitter
        trip = self.op.uppers.results[-1] - self.op.lowers.results[-1]
        size, _ = emitter.index(trip, self.op.operands)
        zero = constant_text(0.0, self.scalar)
        taken = value if mask is None else f"tl.where({mask}, {value}, {zero})"
        count = constant_text(float(trip), self.scalar) if isinstance(trip, int) else f"tl.cast({size}, {self.dtype})"
        mean = emitter.bind(f"tl.sum({taken}, {self.axis}) / {count}", "mean")
        rest = emitter.bind(f"{value} - {mean}" if mask is None else f"tl.where({mask}, {value} - {mean}, {zero})")
        return [mean, f"tl.sum({rest} * {rest}, {self.axis})"]


_i32, _i64 = IntegerType(32), IntegerType(64)


def accumulator_for(emitter: KernelEmitter, op: kernel.ReduceOp) -> Accumulator:
    """The accumulator of a reduction."""
    if op.kind in EXTREMES:
        return ArgAccumulator(emitter, op)
    if op.kind == "welford":
        return WelfordAccumulator(emitter, op)
    return SimpleAccumulator(emitter, op)
