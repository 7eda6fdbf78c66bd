"""The machine that a program is compiled for: facts of its processors that schedules and rewrites are chosen by.

    builtin.module attributes {cuesta.machine = #cuesta.machine<lanes = 16, processors = 114>} { … }

The pipeline is given one, and the text states it: whoever compiles the text again, elsewhere, gets the same kernels.
A text that says nothing means `REFERENCE`. Facts only: what one *does* with them is a constant of who does it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Data, Dialect, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cuesta.dialects.core.architectures import FIRST_WITH_DESCRIPTORS
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.structs import struct

ATTRIBUTE = "cuesta.machine"
"""The attribute of a module that states its machine."""


@struct
class Machine:
    """A processor and a GPU. The defaults are the reference machine: a processor with AVX2, and an H100 or H200.

    A cost in bytes is what the memory could have moved in that time.
    """

    # The processor
    lanes: int = 8
    """The f32 that a vector register holds, a power of two."""
    line: int = 64
    """Bytes of a line of its caches."""
    latency: int = 4
    """Steps until a sum can be added to again."""
    waking: int = 65536
    """The work, in float adds and accesses, that takes as long as waking the other threads."""
    onednn: float = 1.0
    """How many times as fast oneDNN multiplies matrices of f32 as the library that PyTorch calls for it."""
    onednn_call: float = 3e6
    """The additions and products of f32 that all threads do in the time that a call of oneDNN takes longer."""
    products: float = 1.0
    """How many times as fast as that library our own kernels multiply such matrices, when one lies as they read it."""
    products_bf16: float = 1.0
    """The same of matrices of bf16."""
    products_i8: float = 1.0
    """How many times as fast as the library our own kernels multiply matrices of int8, with sums of i32."""
    wide_bf16: float = 1.0
    """How many times as fast that library multiplies f32 as bf16."""
    wide_f16: float = 1.0
    """The same of f16."""

    # The GPU
    processors: int = 132
    """Its multiprocessors."""
    cache: int = 40 << 20
    """Bytes of the second-level cache that rows can count on."""
    cache_cost: float = 0.4
    """What reading there costs, next to memory."""
    share: int = 2
    """A processor can take in at most so many times its share of the memory's speed."""
    launch: int = 63550
    """The bytes that each processor could move while a kernel begins and ends."""
    waiting: float = 0.1
    """What a program waits at a meeting, in launches, for every power of two of programs that meet."""
    work: float = 0.12
    """Bytes, while a program that loads nothing meanwhile computes as much as a float add."""
    sector: int = 32
    """Bytes that are read together."""
    segment: int = 128
    """Bytes of a line of its caches."""
    vector: int = 16
    """Bytes that one load of a thread takes at most."""
    memory_rate: float = 18.0
    """Bytes from memory, for each of its processors in a clock."""
    cache_rate: float = 32.0
    """Bytes from the second-level cache, for each of its processors in a clock."""
    load_rate: float = 32.0
    """Threads whose loads or stores a processor does in a clock, when they lie together."""
    instruction_rate: float = 128.0
    """Instructions of threads that a processor does in a clock."""
    warps: int = 32
    """The most warps of a program."""
    registers: int = 255
    """The most registers of a thread."""
    shared: int = 227 << 10
    """The most bytes of shared memory of a program."""
    architecture: int = 90
    """What its instructions are: 90 for sm_90."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value > 0 and math.isfinite(value)):
                raise CuestaError(Diagnostic(f"a machine has {field.name} = {value}, which is not a positive number"))
        if self.lanes & (self.lanes - 1):
            raise CuestaError(Diagnostic(f"a machine has lanes = {self.lanes}, which is not a power of two"))

    @property
    def launch_bytes(self) -> int:
        """The bytes that all processors could move while a kernel begins and ends."""
        return self.launch * self.processors

    @property
    def has_descriptors(self) -> bool:
        """Whether its GPU loads tiles by tensor descriptors."""
        return self.architecture >= FIRST_WITH_DESCRIPTORS

    @classmethod
    def of(cls, facts: Mapping[str, int | float]) -> Machine:
        """The reference machine but for these facts.

        Errors: CuestaError for a fact that machines do not have, with those they have, or for a value without meaning.
        """
        is_whole = {field.name: isinstance(field.default, int) for field in fields(cls)}
        for name, value in facts.items():
            if name not in is_whole:
                raise CuestaError(Diagnostic(f"a machine has no {name}; it has {', '.join(is_whole)}"))
            if is_whole[name] and not isinstance(value, int):
                raise CuestaError(Diagnostic(f"a machine has {name} = {value}, which is not a whole number"))
        values: dict[str, Any] = {name: value if is_whole[name] else float(value) for name, value in facts.items()}
        return replace(REFERENCE, **values)

    @classmethod
    def parse(cls, text: str) -> Machine:
        """From `lanes=4 processors=80`, separated by spaces or commas. Errors: as `of`."""
        facts: dict[str, int | float] = {}
        for part in text.replace(",", " ").split():
            name, _, value = part.partition("=")
            try:
                facts[name] = int(value) if value.lstrip("-").isdigit() else float(value)
            except ValueError:
                raise CuestaError(
                    Diagnostic(f"{part!r} is no fact of a machine; write lanes=4 processors=80")
                ) from None
        return cls.of(facts)

    def __str__(self) -> str:
        stated = [
            field.name for field in fields(self) if field.name in _ALWAYS or getattr(self, field.name) != field.default
        ]
        return ", ".join(f"{name} = {getattr(self, name)}" for name in stated)


REFERENCE = Machine()
"""What a text means that states no machine, and what facts that nobody measured are taken to be."""

_ALWAYS = ("lanes", "processors")
"""Facts that are stated also where they are the reference machine's: these differ from machine to machine."""


@irdl_attr_definition
class MachineAttr(Data[Machine]):
    """A machine: the facts in which it differs from the reference machine, and those that differ most."""

    name = "cuesta.machine"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Machine:
        """Parses `<lanes = 16, processors = 114>`."""
        facts: dict[str, int | float] = {}

        def fact() -> None:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            facts[name] = parser.parse_number(allow_boolean=False)

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, fact)
        try:
            return Machine.of(facts)
        except CuestaError as error:
            parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        """Prints `<lanes = 16, processors = 114>`."""
        printer.print_string(f"<{self.data}>")


CUESTA = Dialect("cuesta", [], [MachineAttr])
"""What belongs to programs at every level."""


def machine_of(module: ModuleOp) -> Machine:
    """The machine that a program states, or the program that it is a piece of; the reference machine where none does.

    Errors: CuestaError when the attribute is something else.
    """
    current: Operation | None = module
    found = None
    while current is not None and found is None:
        found = current.attributes.get(ATTRIBUTE)
        current = current.parent_op()
    if found is None:
        return REFERENCE
    if not isinstance(found, MachineAttr):
        raise CuestaError(Diagnostic(f"{ATTRIBUTE} of the module is {found}, which is no #{MachineAttr.name}<…>"))
    return found.data


def state_machine(module: ModuleOp, machine: Machine) -> None:
    """Lets a program state its machine, unless it states one already."""
    if ATTRIBUTE not in module.attributes:
        module.attributes[ATTRIBUTE] = MachineAttr(machine)


__all__ = ["ATTRIBUTE", "CUESTA", "REFERENCE", "Machine", "MachineAttr", "machine_of", "state_machine"]
