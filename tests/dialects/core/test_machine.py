"""The machine that a program is compiled for: its text, and each way to get it wrong."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from xdsl.utils.exceptions import ParseError

from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.core.machine import ATTRIBUTE, REFERENCE, Machine, MachineAttr, machine_of, state_machine

EMPTY = "builtin.module {\n  func.func @main() {\n    func.return\n  }\n}"


def module(text: str = EMPTY):
    return CuestaParser(make_context(), text, "<text>").parse_module()


def test_a_text_that_states_none_means_the_reference_machine() -> None:
    assert machine_of(module()) is REFERENCE
    assert (REFERENCE.lanes, REFERENCE.processors) == (8, 132)


@pytest.mark.parametrize("machine", [REFERENCE, Machine(lanes=16, processors=114), Machine(cache=1, cache_cost=0.5)])
def test_what_is_stated_comes_back(machine: Machine) -> None:
    program = module()
    state_machine(program, machine)
    text = print_text(program)
    assert f"#cuesta.machine<lanes = {machine.lanes}, processors = {machine.processors}" in text
    assert machine_of(module(text)) == machine
    assert print_text(module(text)) == text


def test_every_fact_is_printed_where_it_is_not_the_reference_machines() -> None:
    other = replace(REFERENCE, **{field.name: getattr(REFERENCE, field.name) * 2 for field in fields(REFERENCE)})
    assert str(other).count(" = ") == len(fields(Machine))
    assert str(REFERENCE).count(" = ") == 2
    program = module()
    state_machine(program, other)
    assert machine_of(module(print_text(program))) == other


def test_a_program_keeps_the_machine_that_it_states() -> None:
    program = module()
    state_machine(program, Machine(lanes=4))
    state_machine(program, Machine(lanes=16))
    assert machine_of(program).lanes == 4


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("lane = 8", "a machine has no lane; it has lanes, line"),
        ("lanes = 6", "lanes = 6, which is not a power of two"),
        ("lanes = 0", "lanes = 0, which is not a positive number"),
        ("processors = 1.5", "processors = 1.5, which is not a whole number"),
        ("cache = -1", "cache = -1, which is not a positive number"),
    ],
)
def test_a_wrong_machine_is_refused(said: str, message: str) -> None:
    text = EMPTY.replace("module", f"module attributes {{{ATTRIBUTE} = #cuesta.machine<{said}>}}", 1)
    with pytest.raises(ParseError, match=message):
        module(text)
    with pytest.raises(CuestaError, match=message):
        Machine.parse(said.replace(" ", ""))


def test_what_is_no_machine_is_refused() -> None:
    text = EMPTY.replace("module", f"module attributes {{{ATTRIBUTE} = 8 : i64}}", 1)
    with pytest.raises(CuestaError, match="which is no #cuesta"):
        machine_of(module(text))
    with pytest.raises(CuestaError, match="'lanes' is no fact of a machine"):
        Machine.parse("lanes")


def test_the_command_line_takes_spaces_and_commas() -> None:
    assert Machine.parse("lanes=4, processors=80 cache_cost=0.25") == Machine(lanes=4, processors=80, cache_cost=0.25)
    assert Machine.parse("") == REFERENCE
    assert MachineAttr(Machine(lanes=4)) == MachineAttr(Machine(lanes=4))
