"""A dumped program, run again: on the inputs of its call or on random ones, beside the reference interpreter, timed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from cuesta.programs.inputs_of import InputsError, copies_of, moved, random_inputs_of
from cuesta.programs.kept_inputs import FOLDER, INDEX, read_inputs
from cuesta.programs.stages import Program
from cuesta.replaying.comparing import INEXACT, Comparison, compare_exactly, compare_results
from cuesta.targets.reference import InterpreterError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

_SECONDS, _MOST_CALLS, _WARM_CALLS = 1.0, 1000, 3
"""How long a program is timed, at most how often, and the calls before that. Source: a definition."""


class ReplayError(ValueError):
    """A path that holds no program to run, or a wish that does not fit."""


def text_in(path: str | os.PathLike[str]) -> Path:
    """The text that a path means: a file; of the folder of a graph's dump, its first; of a folder in which there is one
    such folder, the first in that.

    Errors: ReplayError when there is none, or several.
    """
    given = Path(path)
    if not given.is_dir():
        if not given.exists():
            raise ReplayError(f"there is no {given}")
        return given
    if texts := texts_in(given):
        return texts[0]
    graphs = sorted(one for one in given.iterdir() if one.is_dir() and texts_in(one))
    if len(graphs) == 1:
        return texts_in(graphs[0])[0]
    if graphs:
        names = ", ".join(one.name for one in graphs)
        raise ReplayError(f"{given} holds the dumps of several graphs: say which of {names}")
    raise ReplayError(f"{given} holds no text of a program (NN_stage.mlir)")


def texts_in(folder: Path) -> list[Path]:
    """The texts in the folder of a dump, in order, but for that of a program before a stage that failed."""
    return [one for one in sorted(folder.glob("[0-9][0-9]_*.mlir")) if "_before_" not in one.name]


@dataclass(frozen=True)
class Inputs:
    """What a program is run on."""

    values: list[Any]
    """On the CPU."""
    told: str
    """Which they are, in a few lines."""


def inputs_for(
    path: Path,
    module: ModuleOp,
    *,
    file: str | os.PathLike[str] | None = None,
    random: bool = False,
    seed: int = 0,
    symbols: Mapping[str, int] | None = None,
) -> Inputs:
    """The inputs in `file`; without it those kept beside the text `path`, unless `random` ones are wanted, or none are.
    Random ones have the sizes `symbols`, then those of kept ones.

    Errors: InputsError.
    """
    if symbols and (file is not None or (not random and (path.parent / FOLDER / INDEX).exists())):
        raise InputsError("kept inputs have sizes of their own: sizes are for random ones")
    beside = path.parent / FOLDER
    if file is None and not random and (beside / INDEX).is_file():
        file = beside
    if file is not None:
        return Inputs(read_inputs(file).values, f"inputs of {file}")
    sizes = {**_sizes_of_kept(beside, module), **(symbols or {})}
    made = random_inputs_of(module, seed, symbols=sizes, on_devices=False)
    return Inputs(made.values, str(made))


def _sizes_of_kept(folder: Path, module: ModuleOp) -> dict[str, int]:
    """The symbolic sizes of the inputs that are kept in a folder; nothing, when there are none or they do not fit."""
    from cuesta.dialects.core.entry import entry_block, symbol_ranges
    from cuesta.targets.reference.bindings import bind

    declared = symbol_ranges(module)
    if not declared or not (folder / INDEX).is_file():
        return {}
    try:
        found = bind(None, [one.type for one in entry_block(module).args], read_inputs(folder).values)
    except (InputsError, InterpreterError):
        return {}
    return {name: found[name] for name in declared if name in found}


@dataclass(frozen=True)
class Timing:
    """How long calls took. Units: µs."""

    median: float
    least: float
    quartiles: tuple[float, float]
    calls: int

    def __str__(self) -> str:
        low, high = self.quartiles
        return (
            f"median {self.median:.1f} µs, half of {self.calls} calls within {low:.1f} to {high:.1f}, "
            f"least {self.least:.1f}"
        )


@dataclass(frozen=True)
class Replayed:
    """What a run gave."""

    results: list[Any]
    """What `@main` returns, then what it wrote to its arguments."""
    comparisons: list[Comparison] | None = None
    timing: Timing | None = None
    note: str = ""
    """What else there is to know of the comparison."""

    @property
    def agrees(self) -> bool:
        """Whether every result that was compared is right."""
        return all(one.passes for one in self.comparisons or ())


def replay(
    program: Program,
    values: Sequence[Any],
    *,
    until: str | None = None,
    check: bool = False,
    time: bool = False,
    seed: int = 0,
) -> Replayed:
    """Compiles a program by the stages that it has before it and runs it; with `until`, only goes on to that stage, and
    has what it is there interpreted. Random numbers are those of `seed`.

    With `check` the results are compared with those of the reference interpreter on the program as it was given:
    machine code as `comparing.compare_results` does, what is interpreted to the bit unless a stage between the
    two may change roundings. With `time` calls are timed.
    Errors: ReplayError, StageError, InputsError; as `cuesta.load` and its functions.
    """
    if until is not None and time:
        raise ReplayError("what is interpreted is not timed: --time is for programs that are compiled")
    module = program.module
    results, timing = _interpreted(program, values, until, seed), None
    if until is None:
        results, timing = _compiled(program, module, values, seed, time)
    if not check:
        return Replayed(results, None, timing)
    note = ""
    try:
        expected = _run(module, values, seed)
    except InterpreterError as error:
        if program.level != "aten":
            raise
        # Eager does not always give what its own metadata says; what we make of the call does.
        note = f"the text is not interpreted as it is, but after aten-to-loops: {error}"
        module = program.loops.module
        expected = _run(module, values, seed)
    names = _names(module, len(expected))
    if until is not None and not _changes_roundings(program, until):
        return Replayed(results, compare_exactly(results, expected, names=names), timing, note)
    truth = _run(module, values, seed, precise=True)
    return Replayed(results, compare_results(results, expected, truth, names=names, strides=False), timing, note)


def _changes_roundings(program: Program, until: str) -> bool:
    labels = program.remaining[: program.remaining.index(until) + 1] if until in program.remaining else ()
    return any(label.rpartition("-")[0] in INEXACT or label in INEXACT for label in labels)


def _interpreted(program: Program, values: Sequence[Any], until: str | None, seed: int) -> list[Any]:
    return [] if until is None else _run(program.until(until).module, values, seed)


def _run(module: ModuleOp, values: Sequence[Any], seed: int, *, precise: bool = False) -> list[Any]:
    """What a program returns, then what it writes, interpreted on copies."""
    from cuesta.targets.reference.program import run_and_write

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            results, written = run_and_write(module, copies_of(values), precise=precise)
        except (IndexError, RuntimeError) as error:
            raise _refused(error) from error
    return results + written


def _compiled(
    program: Program, module: ModuleOp, values: Sequence[Any], seed: int, time: bool
) -> tuple[list[Any], Timing | None]:
    from cuesta.dialects.core.entry import entry_function, written_arguments

    given = _checked(values, module)
    function = program.compile()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        try:
            results = list(function(*given))
        except (IndexError, RuntimeError) as error:
            raise _refused(error) from error
    results += [given[position] for position in written_arguments(entry_function(module))]
    results = copies_of(results)
    return results, _timed(function, given) if time else None


def _checked(values: Sequence[Any], module: ModuleOp) -> list[Any]:
    """Copies where the types of `@main` say. Errors: InputsError for values of other types."""
    from cuesta.programs.arguments import Arguments

    arguments = Arguments.of(module)
    try:
        if len(values) != len(arguments.types):
            arguments.check(values, "the inputs")
        given = moved(copies_of(values), module)
        arguments.check(given, "the inputs")
    except TypeError as error:
        raise InputsError(f"{error}") from error
    return given


def _refused(error: Exception) -> ReplayError:
    """What to say when the program itself raises: of an index, or of sizes that a library does not take."""
    kind = "IndexError" if isinstance(error, IndexError) else type(error).__name__
    said = "\n  ".join([str(error), *getattr(error, "__notes__", [])])
    return ReplayError(
        f"the program raises {kind}: {said}\n"
        "  on random inputs that may be their fault: --size chooses sizes, --inputs takes those of a call"
    )


def _timed(function: Any, given: Sequence[Any]) -> Timing:
    wait = torch.cuda.synchronize if any(isinstance(one, torch.Tensor) and one.is_cuda for one in given) else _nothing
    taken: list[float] = []
    with torch.no_grad():
        for _ in range(_WARM_CALLS):
            function(*given)
        wait()
        end = perf_counter() + _SECONDS
        while len(taken) < _MOST_CALLS and (len(taken) < 3 or perf_counter() < end):
            start = perf_counter()
            function(*given)
            wait()
            taken.append((perf_counter() - start) * 1e6)
    low, median, high = quantiles(taken, n=4)
    return Timing(median, min(taken), (low, high), len(taken))


def _nothing() -> None:
    pass


def _names(module: ModuleOp, count: int) -> list[str]:
    from cuesta.dialects.core.entry import entry_function, written_arguments

    written = written_arguments(entry_function(module))
    first = count - len(written)
    return [f"result {at}" for at in range(first)] + [f"argument {at}, afterwards" for at in written]


def described(value: Any) -> str:
    """A result in one line: its type, and what its numbers are like."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if value.device.type != "cpu":
        kind += f" on {value.device}"
    if not value.numel():
        return kind
    wide = value.detach().cpu()
    if wide.is_complex():
        return kind
    wide = wide.double()
    finite = wide[wide.isfinite()]
    told = (
        f"{kind}  least {wide.nan_to_num().min():.4g}, greatest {wide.nan_to_num().max():.4g}, mean {finite.mean():.4g}"
    )
    if lost := wide.numel() - finite.numel():
        told += f", {lost} not finite"
    return told


__all__ = [
    "Inputs",
    "ReplayError",
    "Replayed",
    "Timing",
    "described",
    "inputs_for",
    "replay",
    "text_in",
    "texts_in",
]
