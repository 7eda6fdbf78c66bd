"""What a program computes by the reference interpreter, and whether two programs compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cuesta.dialects import func
from cuesta.dialects.core.diagnostics import CuestaError, verify_module
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.entry import entry_function, given_results, written_arguments
from cuesta.dialects.layout import is_tensor
from cuesta.replaying.comparing import keeps_bits
from cuesta.targets.reference.program import run_and_write
from cuesta.targets.reference.random_inputs import random_inputs
from cuesta.targets.reference.validate import difference

SEED = 0
"""Of random numbers that a program draws, and of random inputs."""


@dataclass(frozen=True)
class Outcome:
    """What one run gave: what `@main` returns and then what it writes to its arguments, or how it failed."""

    values: Sequence[Any] = ()
    error: Exception | None = None
    told: range = field(default_factory=lambda: range(0))
    """The results that may lie as the program likes: who gets them is told how."""
    one: frozenset[str] = frozenset()
    """Which results are not tensors of their own: what they are, too."""

    @property
    def failure(self) -> str:
        """The kind of the error, and its first line; empty without one."""
        return "" if self.error is None else f"{type(self.error).__name__}: {str(self.error).partition(chr(10))[0]}"


def inputs_for(module: ModuleOp, inputs: Sequence[Any] | None) -> Sequence[Any]:
    """The inputs, or else random ones: of the seed, within what the program's indices index."""
    if inputs is not None:
        return inputs
    from cuesta.programs.inputs_of import random_inputs_of

    try:
        return random_inputs_of(module, SEED, on_devices=False).values
    except (VerifyException, CuestaError):
        return random_inputs(module, SEED)


def run(module: ModuleOp, inputs: Sequence[Any], *, precise: bool = False) -> Outcome:
    """Interprets a program on copies of the inputs. What fails is an outcome, too."""
    copies = copied(inputs)
    try:
        main = entry_function(module)
        given = given_results(main)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            results, written = run_and_write(module, copies, precise=precise)
    except Exception as error:  # noqa: BLE001  # a wrong program fails in whatever way it likes
        return Outcome(error=error)
    values = [*results, *written]
    told = range(0) if given is None else range(given, len(values) - len(written_arguments(main)))
    return Outcome(values, None, told, _not_its_own(main))


def _not_its_own(main: Operation) -> frozenset[str]:
    """What is returned twice, or given back as it came: the caller, who may write to it, gets one tensor for two."""
    end = main.regions[0].block.last_op
    written = len(written_arguments(main)) if isinstance(end, func.ReturnOp) else 0
    operands = () if end is None else end.operands[: len(end.operands) - written]
    found: set[str] = set()
    first: dict[SSAValue, int] = {}
    for position, value in enumerate(operands):
        if not is_tensor(value):
            continue
        if isinstance(value, BlockArgument):
            found.add(f"result {position} is the argument {value.index}, not a tensor of its own")
        if (other := first.setdefault(value, position)) != position:
            found.add(f"results {other} and {position} are one tensor")
    return frozenset(found)


def copied(values: Sequence[Any]) -> list[Any]:
    """The values in memory of their own, on the CPU; those that share memory still do."""
    memories: dict[int, torch.Tensor] = {}
    found: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            if storage._cdata not in memories:
                memories[storage._cdata] = (
                    torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage).cpu().clone()
                )
            memory = torch.empty(0, dtype=value.dtype).set_(memories[storage._cdata].untyped_storage())
            value = memory.as_strided(value.size(), value.stride(), value.storage_offset())
        found.append(value)
    return found


def is_well_formed(module: ModuleOp) -> bool:
    """Whether a program verifies, and every value is defined before it is used."""
    try:
        verify_module(module)
        verify_dominance(module)
    except Exception:  # noqa: BLE001  # of a program that is cut to pieces a verifier may fall over anything
        return False
    return True


def how_they_differ(before: Outcome, after: Outcome, truth: Outcome | None) -> str | None:
    """How what came of a program differs from what it was before; None when it does not. With a `truth`, a run that
    rounds nothing, floats may differ by rounding; without, they may not.
    """
    if before.error is not None:
        same = after.error is not None and type(before.error) is type(after.error)
        return None if same else f"{before.failure} before, {after.failure or 'nothing is raised'} after"
    if after.error is not None:
        return after.failure
    if len(before.values) != len(after.values):
        return f"{len(before.values)} results before, {len(after.values)} after"
    if joined := after.one - before.one:
        return min(joined)
    true = before.values if truth is None or truth.error is not None else truth.values
    for position, (one, other, exact) in enumerate(zip(before.values, after.values, true, strict=True)):
        problem = difference(one, other, exact, truth is None, told=position in after.told)
        if problem is not None:
            return f"result {position}: {problem}"
    return None


def is_exact(stage: str, program: ModuleOp) -> bool:
    """Whether a stage keeps every rounding of a program, so that its results are compared bit by bit."""
    return keeps_bits(stage.partition("{")[0], program)
