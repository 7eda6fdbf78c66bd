"""Random programs for hypothesis: PyTorch functions as Python text, and inputs for them.

A program is drawn statement by statement; each is run in eager as it is drawn, so that every program is one that eager
accepts. What is drawn is text, because what a failure has to show is text: see `Program.reproducer`.

What statements are made of: `expressions.py`. Values are written to as well, also inputs and what shares memory with
them; and some have the negative bit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from cuesta.testing import assert_close_to_float64
from tests.fuzz.expressions import MAKERS, MOST_ELEMENTS, WRITERS, Value
from tests.support.differential import check_call, compiled_of

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
DTYPES = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)


@dataclass(frozen=True, slots=True)
class Input:
    """One argument: `make` is an expression that gives it anew, always with the same numbers."""

    name: str
    make: str

    def tensor(self) -> Tensor:
        """The argument."""
        return eval(self.make, {"torch": torch, "numbers": numbers})


@dataclass(slots=True)
class Program:
    """A function of the inputs, as text."""

    inputs: list[Input] = field(default_factory=list[Input])
    statements: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    dynamic: bool = False
    written: set[str] = field(default_factory=set[str])
    """The inputs that it changes."""
    writes: bool = False
    """Whether it changes any value."""

    @property
    def source(self) -> str:
        """The function `program`."""
        arguments = ", ".join(one.name for one in self.inputs)
        body = "\n".join([*self.statements, f"return {', '.join(self.results)},"])
        return f"def program({arguments}):\n{textwrap.indent(body, '    ')}\n"

    def function(self) -> Callable[..., tuple[Tensor, ...]]:
        """The function, made anew: no other has been compiled from its code."""
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, f"<fuzz {abs(hash(self.source))}>", "exec"), scope)
        return scope["program"]

    def arguments(self) -> list[Tensor]:
        """The inputs, made anew."""
        return [one.tensor() for one in self.inputs]

    def reproducer(self) -> str:
        """A script that shows the failure by itself."""
        inputs = "\n".join(f"{one.name} = {one.make}" for one in self.inputs)
        names = ", ".join(one.name for one in self.inputs)
        return f"""\
import torch
from tests.fuzz.programs import compare, numbers

{self.source}
{inputs}
compare(program, [{names}], {self.dynamic}, strides={not self.writes})
"""


def numbers(seed: int, dtype: torch.dtype, *sizes: int) -> Tensor:
    """Numbers of moderate size, none near a point where a function of the list below has a pole; integers 0 to 7."""
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(0, 8, sizes, generator=generator).to(dtype)
    # Multiples of 1/8: exact in every dtype, so that ties occur.
    return (torch.randint(-24, 25, sizes, generator=generator) / 8).to(dtype)


def compare(function: Callable[..., Any], inputs: list[Tensor], dynamic: bool, *, strides: bool = True) -> None:
    """Compiled against eager in every respect (strides only if asked), and against float64.

    Strides of dimensions of size 1 do not count: AOTAutograd makes some views anew, with others than eager's.
    """
    compiled = compiled_of(function, dynamic=dynamic or None)
    check_call(compiled, function, *inputs, unit_strides=False, strides=strides)
    assert_close_to_float64(compiled, function, inputs, strides=False)


def _writes(rng: Random, pool: list[Value], program: Program) -> bool:
    """Draws a statement that changes a value, and does it; False when eager refuses."""
    made = rng.choice(WRITERS)(rng, pool)
    if made is None:
        return False
    text, target, exact = made
    try:
        exec(text, {"torch": torch, **{value.name: value.tensor for value in pool}})
    except (RuntimeError, IndexError, TypeError):
        return False
    memory = target.tensor.untyped_storage()._cdata
    inputs = {one.name for one in program.inputs}
    for position, value in enumerate(pool):
        if value.tensor.untyped_storage()._cdata == memory:
            pool[position] = Value(value.name, value.tensor, value.exact and exact)
            program.written |= {value.name} & inputs
    program.statements.append(text)
    program.writes = True
    return True


@st.composite
def programs(draw: Callable[[st.SearchStrategy[Any]], Any], *, most_statements: int = 12) -> Program:
    """Programs over one to three inputs, some of them strided, with one to three results."""
    rng = draw(st.randoms(use_true_random=False))
    program = Program(dynamic=rng.randint(0, 3) == 0)
    pool: list[Value] = []
    sizes = [rng.choice(SIZES) for _ in range(rng.randint(1, 3))]
    for number in range(rng.randint(1, 3)):
        # Inputs share sizes, so that they meet.
        own = sizes[rng.randint(0, len(sizes) - 1) :] if number else sizes
        dtype = rng.choice(DTYPES) if number else torch.float32
        make = f"numbers({rng.randint(0, 99)}, {dtype}, {', '.join(map(str, own))})"
        layout = rng.choice(["", "", "", "transposed", "strided", "negated"])
        if layout == "transposed" and len(own) > 1:
            turned = (*own[:-2], own[-1], own[-2])
            make = f"numbers({rng.randint(0, 99)}, {dtype}, {', '.join(map(str, turned))}).transpose(-1, -2)"
        elif layout == "strided":
            make = f"numbers({rng.randint(0, 99)}, {dtype}, {', '.join(map(str, own))}, 2)[..., 1]"
        elif layout == "negated":
            make = f"torch._neg_view({make})"
        one = Input("xyz"[number], make)
        program.inputs.append(one)
        pool.append(Value(one.name, one.tensor(), True))
    for _ in range(rng.randint(1, most_statements)):
        if rng.randint(0, 7) == 0 and _writes(rng, pool, program):
            continue
        made = rng.choice(MAKERS)(rng, pool)
        if made is None:
            continue
        text, exact = made
        try:
            result = eval(text, {"torch": torch, **{value.name: value.tensor for value in pool}})
        except (RuntimeError, IndexError, TypeError):
            continue
        finite = not result.is_floating_point() or bool(result.isfinite().all() and (result.abs() < 1e4).all())
        if result.numel() > MOST_ELEMENTS or not finite:
            continue
        name = f"v{len(program.statements)}"
        program.statements.append(f"{name} = {text}")
        pool.append(Value(name, result, exact))
    own_values = [value.name for value in pool if value.name.startswith("v")] or [pool[0].name + " + 1"]
    program.results = list(dict.fromkeys([own_values[-1], *rng.choices(own_values, k=rng.randint(0, 2))]))
    return program
