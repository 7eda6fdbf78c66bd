"""A random program through a package: what that gives, changes and differentiates is what eager does.

torch.export captures it, which refuses what Dynamo leaves to Python, and knows of results no more than their numbers:
which of them is a view of what, and how they lie, is compared where `torch.compile` captures.
"""

from __future__ import annotations

import re
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import cuesta
from cuesta.packages.signature import InputError
from tests.fuzz.calls.outcomes import SEED, Call, Make, Raised

Loaded = Callable[..., Any]


def packaged_outcomes(
    make: Make, program: Callable[..., Any], calls: Sequence[tuple[int, ...]], backward: str, through: str = "cuesta"
) -> Iterator[tuple[Call, Any]]:
    """The calls of a program, and what each leaves behind through one package, or through what `torch.export` gives;
    none where it cannot be packaged.
    """
    loaded = _loaded(make, program, calls, training=bool(backward), through=through)
    if loaded is None:
        return
    for sizes in calls:
        call = Call(program, make, sizes, backward)
        made = call.compiled(loaded)
        if not (isinstance(made, Raised) and isinstance(made.error, InputError)):  # what it is not for
            yield call, made


def is_of_numbers(problem: str) -> bool:
    """Whether what is off is of numbers, and no other property of a tensor. (A `torch.Size` comes back as a tuple.)"""
    name = problem.split(": ", 1)[0]
    others = r" (strides|shares memory with|begins|is|version|autograd|type|moved)$"
    return name != "structure" and re.search(others, name) is None


def _loaded(
    make: Make, program: Callable[..., Any], calls: Sequence[tuple[int, ...]], *, training: bool, through: str
) -> Loaded | None:
    inputs, _ = make(*calls[0])
    tensors = [one for one in inputs if isinstance(one, Tensor)]
    shapes = tuple(dict.fromkeys(range(one.dim()), torch.export.Dim.AUTO) for one in tensors)
    dynamic = shapes if len(calls) > 1 and len(tensors) == len(inputs) else None
    torch.manual_seed(SEED)
    try:
        if through == "torch.export":
            module = torch.nn.Module()
            module.forward = types.MethodType(lambda self, *arguments: program(*arguments), module)
            return torch.export.export(module, tuple(inputs), dynamic_shapes={"arguments": dynamic}).module()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.cuesta"
            cuesta.package(program, tuple(inputs), path, training=training, dynamic_shapes=dynamic)
            return cuesta.load_package(path)
    except Exception:  # noqa: BLE001 - of torch.export, of eager, or one of ours that says why
        return None


__all__ = ["is_of_numbers", "packaged_outcomes"]
