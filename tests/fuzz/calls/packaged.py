"""A random program through a package: what that gives, changes and differentiates is what eager does.

torch.export captures it, which refuses what Dynamo leaves to Python, and knows of results no more than their numbers:
which of them is a view of what, and how they lie, is compared where `torch.compile` captures.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

import cuesta
from cuesta.packages.graph import PackageError
from cuesta.packages.signature import InputError
from tests.fuzz.calls.outcomes import SEED, Call, Make, Raised

Loaded = Callable[..., Any]
NOT_PACKAGED = (
    "what eager would run cannot be packaged",
    "what eager runs cannot be packaged",
    "what torch.export does not see cannot be packaged",
    "an input has the negative or the conjugate bit",
    "no input's size tells what",
    "inputs that share memory",
    "a result that is a view of sizes that only the data says",
    "a result that is a part of an input's memory as",
    "a program of tensors with the layout",
    "a program of which torch.export takes what it computes for a constant",
    "a program that changes the sizes, strides or memory of an input",
    "an operator writes to a view of an input by its place in memory",
)
"""Why a program cannot be packaged, as docs/packages.md has it."""
SHARED = "two inputs share memory, and the program changes one of them"
"""Why a package refuses inputs of the sizes that it was made for. Others it may refuse in any case."""


def packaged_outcomes(
    make: Make, program: Callable[..., Any], calls: Sequence[tuple[int, ...]], backward: str, through: str = "cuesta"
) -> Iterator[tuple[Call, Any]]:
    """The calls of a program, and what each leaves behind through one package, or through what `torch.export` gives;
    none where it cannot be packaged for a reason that the documentation has, or `torch.export` or eager has another.
    """
    every = [Call(program, make, sizes, backward) for sizes in calls]
    try:
        loaded = _loaded(make, program, calls, training=bool(backward), through=through)
    except Exception as error:  # noqa: BLE001 - of torch.export, of eager, or one of ours that says why
        if through == "cuesta" and not _is_expected(error, every[0], calls):
            yield every[0], Raised(error)
        return
    for call in every:
        made = call.compiled(loaded)
        if through != "cuesta" and isinstance(made, dict) and any(isinstance(one, FakeTensor) for one in made.values()):
            made = Raised(TypeError("a fake tensor comes out of torch.export"))
        is_refused = isinstance(made, Raised) and isinstance(made.error, InputError)
        if not (is_refused and (call is not every[0] or SHARED in str(made))):
            yield call, made


def _is_expected(error: Exception, call: Call, calls: Sequence[tuple[int, ...]]) -> bool:
    """Whether a program cannot be packaged for a good reason."""
    if isinstance(error, PackageError):
        return any(reason in str(error) for reason in NOT_PACKAGED)
    if isinstance(call.eager, Raised):
        return True
    try:
        _loaded(call.make, call.program, calls, training=bool(call.backward), through="torch.export")
    except Exception:  # noqa: BLE001 - whatever it is, it is torch's own
        return True
    return False


def is_of_numbers(problem: str) -> bool:
    """Whether what is off is of numbers, and no other property of a tensor. (A `torch.Size` comes back as a tuple.)"""
    name = problem.split(": ", 1)[0]
    others = r" (strides|shares memory with|begins|is|version|autograd|type|moved)$"
    return name != "structure" and re.search(others, name) is None


def _loaded(
    make: Make, program: Callable[..., Any], calls: Sequence[tuple[int, ...]], *, training: bool, through: str
) -> Loaded:
    inputs, _ = make(*calls[0])
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    shapes = tuple(dict.fromkeys(range(one.dim()), torch.export.Dim.AUTO) for one in tensors)
    dynamic = shapes if len(calls) > 1 and len(tensors) == len(inputs) else None
    torch.manual_seed(SEED)
    if through == "torch.export":
        module = type("Function", (torch.nn.Module,), {"forward": staticmethod(program)})()
        with nullcontext() if training else torch.no_grad():
            return torch.export.export(module, tuple(inputs), dynamic_shapes=dynamic).module()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.cuesta"
        cuesta.package(program, tuple(inputs), path, training=training, dynamic_shapes=dynamic)
        return cuesta.load_package(path)


__all__ = ["is_of_numbers", "packaged_outcomes"]
