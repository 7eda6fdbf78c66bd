"""Random programs through packages: what a package gives, changes and differentiates is what eager does.

`make test` tries 10, `make test-thorough` other 40; `make fuzz` as many as it is told.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, note, reject, settings

import cuesta
from cuesta.testing import assert_close_to_float64
from tests.fuzz.programs import Program, programs
from tests.fuzz.test_programs import has_gradients
from tests.support.differential import copied

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}
NOT_PACKAGED = (
    "an input has the negative or the conjugate bit",
    "no input's size tells what",
    "what eager would run cannot be packaged",
    # torch's own words: it cannot take a view of what torch.export wrote as one and another view has changed since.
    "Cannot view a tensor with shape",
    # torch.export's, of an update that eager leaves out because it changes nothing.
    "more than one element of the written-to tensor",
)
"""What is refused by name: such programs are not counted."""


def check_packaged(program: Program) -> None:
    """The program through a package, for training where eager can differentiate it."""
    note(f"\n--- the program:\n{program.reproducer()}---")
    inputs = program.arguments()
    for one, value in zip(program.inputs, inputs, strict=True):
        may_be_leaf = one.name not in program.written and value.is_leaf and value.is_contiguous()
        value.requires_grad_(value.dtype == torch.float32 and may_be_leaf)
    try:
        program.function()(*copied(inputs))
    except RuntimeError:
        reject()  # eager refuses it, and torch.export with the same words
    training = has_gradients(program, inputs)
    if not training:
        for value in inputs:
            value.requires_grad_(False)
    shapes = tuple(dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO) for value in inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cuesta"
        try:
            cuesta.package(
                program.function(),
                tuple(copied(inputs)),
                path,
                training=training,
                dynamic_shapes=shapes if program.dynamic else None,
            )
        except (RuntimeError, ValueError) as error:
            if str(error).startswith(NOT_PACKAGED):
                reject()
            raise
        loaded = cuesta.load_package(path)
    assert_close_to_float64(loaded, program.function(), inputs, strides=False)


@settings(max_examples=4, derandomize=True, database=None, **COMMON)
@given(programs(most_statements=6))
def test_a_few_programs(program: Program) -> None:
    check_packaged(program)


@pytest.mark.slow
@settings(max_examples=10, derandomize=True, database=None, **COMMON)
@given(programs())
def test_programs(program: Program) -> None:
    check_packaged(program)


@pytest.mark.slow
@pytest.mark.thorough
@settings(max_examples=EXAMPLES or 40, derandomize=not EXAMPLES, print_blob=True, **COMMON)
@given(programs())
def test_more_programs(program: Program) -> None:
    check_packaged(program)
