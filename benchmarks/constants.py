"""What the numeric constants of the schedules and the fusion are worth: each is replaced by neighbours, and timed.

    make bench-constants                                    every row that this machine can measure
    make bench-constants ARGS='--only schedule_cpu.TILE'    those rows; the Source of the constant names this command
    make bench-constants ARGS='--device cuda --out FILE'    on the device machine; FILE then goes to `--write`
    make bench-constants ARGS='--write FILE…'               docs/results-constants.md from such files

A constant is an attribute of its module, read when a program is compiled. A case is captured once, and compiled with
each value by the stages of the compiler, in one process and without the cache. Where the kernels are the same text,
nothing is timed; otherwise the functions take turns, and the ratio is that of the medians: time with this value, by
time with the value that stands in the module. Above 1 the constant is right.
"""

from __future__ import annotations

import argparse
import fnmatch
import platform
import statistics
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TextIO

import torch

from benchmarks.constant_cases import CASES, Case
from benchmarks.constant_rows import ROWS, Row

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cuesta.dialects.core.machine import Machine

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results-constants.md"
SECONDS = 0.25
"""For which each side of a case on the CPU is sampled, about."""
ROUNDS = 21
"""Samples of each side of a case on a GPU."""
BETTER = 0.95
"""A value with which a case takes less than this share of its time is marked."""
SAME = "same kernel"

Call = Callable[[], object]


# --- Another value ----------------------------------------------------------------------------------------------------


@contextmanager
def overridden(row: Row, value: Any) -> Iterator[None]:
    """The `with` block in which a constant has another value."""
    module = import_module(row.module)
    before = getattr(module, row.name)
    setattr(module, row.name, value)
    _forget(module)
    try:
        yield
    finally:
        setattr(module, row.name, before)
        _forget(module)


def _forget(module: object) -> None:
    """Empties the caches of a module's functions, whose answers may have come of a constant."""
    for function in vars(module).values():
        if callable(clear := getattr(function, "cache_clear", None)):
            clear()


# --- From a case to kernels -------------------------------------------------------------------------------------------


class _Captured(Exception):
    """No error: the case has been captured."""


@dataclass(slots=True)
class Program:
    """A captured case: the program at the level `aten`, and what it is called with."""

    module: ModuleOp
    arguments: list[Any]
    fused: bool = False
    """As in `Case`."""
    lowered: dict[str, ModuleOp] = field(default_factory=dict[str, Any])
    """What was made of it, by the text of its kernels."""
    calls: dict[str, Call] = field(default_factory=dict[str, Call])

    def text(self, machine: Machine | None = None) -> str:
        """The kernels and launches that the compiler makes of it now."""
        from cuesta.dialects.core.locations import print_text

        module = lowered(self.module, machine, fused=self.fused)
        text = print_text(module)
        self.lowered.setdefault(text, module)
        return text

    def call(self, text: str) -> Call:
        """A call of the program with those kernels."""
        if text not in self.calls:
            from cuesta.compiler import compile_module
            from cuesta.options import Options
            from cuesta.record import CompileRecord

            record = CompileRecord(kind="inference")
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # a kernel that cannot be compiled would run in eager
                function = compile_module(self.lowered[text].clone(), Options(cache=False), record, stages=())
            self.calls[text] = lambda: function(list(self.arguments))
            self.calls[text]()  # what the first call does once
        return self.calls[text]


def captured(case: Case, device: str, *, empty: bool = False) -> Program:
    """A case as a program. With `empty` its tensors have whatever values: nothing will be run."""
    from torch._dynamo.backends.common import aot_autograd

    from cuesta.backend import Compilers, capturing, drop_aliases
    from cuesta.finishing import make_boxed
    from cuesta.lowering.capture.fx_to_program import import_program
    from cuesta.lowering.capture.plan import complete_metadata
    from cuesta.options import Options

    found: list[Program] = []

    def keep(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[[list[Any]], Any]:
        drop_aliases(gm)
        complete_metadata(gm)
        imported = import_program(gm)

        def stop(arguments: list[Any]) -> Any:
            constants = [value for _, value in imported.constants]
            found.append(Program(imported.module, [*arguments, *constants], case.fused))
            raise _Captured

        return make_boxed(stop)

    def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        settings = {**Compilers(Options(cache=False)).settings(), "inference_compiler": keep}
        with capturing():
            return aot_autograd(**settings)(gm, inputs)

    torch._dynamo.reset()
    function = torch.compile(case.function, backend=backend, dynamic=None if case.unknown else False, fullgraph=True)
    with torch.no_grad():
        try:
            function(*case.inputs(device, empty=empty))
        except _Captured:
            return found[0]
    raise RuntimeError("the case has nothing to compile")


def lowered(module: ModuleOp, machine: Machine | None = None, *, fused: bool = False) -> ModuleOp:
    """A copy of a program at the level `host`, for the machine at hand or for another. With `fused`, products are in
    one nest with what surrounds them, in the first tile that `tune-kernels` would try.
    """
    from cuesta.context import make_context
    from cuesta.dialects.core.machine import state_machine
    from cuesta.lowering.schedule.tune_kernels import measuring
    from cuesta.machine import machine_for
    from cuesta.pipeline import default_stages, run_pipeline

    copy = module.clone()
    state_machine(copy, machine_for(copy) if machine is None else machine)
    with measuring(_as_if_measured):
        run_pipeline(make_context(), copy, default_stages(tune=fused))
    return copy


def _as_if_measured(questions: Sequence[Sequence[ModuleOp]]) -> Sequence[Sequence[float]]:
    """What stands first is best, but for calls of a library."""
    from cuesta.dialects.loops import ExternOp

    return [
        [2.0 if any(isinstance(op, ExternOp) for op in one.walk()) else 1.0 for one in every] for every in questions
    ]


# --- A row ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Variants:
    """A row's case with every value: the text of the kernels, or what went wrong."""

    row: Row
    case: str
    program: Program | None
    current: Any
    texts: dict[Any, str | Exception]
    """By value, the one that stands in the module first."""


def variants(row: Row, case: str, program: Program, machine: Machine | None = None) -> Variants:
    """Compiles a case with every value of a row, as far as kernels."""
    current = row.current()
    texts: dict[Any, str | Exception] = {}
    for value in (current, *row.values):
        try:
            with overridden(row, value):
                texts[value] = program.text(machine)
        except Exception as error:  # noqa: BLE001 - it is told in the row's place
            texts[value] = error
    return Variants(row, case, program, current, texts)


@dataclass(frozen=True, slots=True)
class Line:
    """What is told of one value in one case."""

    constant: str
    value: Any
    case: str
    told: str
    """Time and ratio, `same kernel`, or an error."""
    is_better: bool = False

    def __str__(self) -> str:
        mark = "   <-- better" if self.is_better else ""
        return f"{self.constant:40}{self.value!s:>18}  {self.case:34}{self.told}{mark}"

    def as_markdown(self) -> str:
        mark = "**better**" if self.is_better else ""
        return f"| `{self.constant}` | {self.value} | {self.case} | {self.told} | {mark} |"


def measured(one: Variants, device: str) -> Iterator[Line]:
    """The lines of a row in one case. An error is a line."""
    told = partial(Line, one.row.key, case=one.case)
    baseline = one.texts[one.current]
    if one.program is None or isinstance(baseline, Exception):
        yield told(value=one.current, told=_error(baseline))
        return
    calls: dict[Any, Call] = {}
    lines: dict[Any, str] = {}
    for value, text in one.texts.items():
        if isinstance(text, Exception):
            lines[value] = _error(text)
        elif value != one.current and text == baseline:
            lines[value] = SAME
        else:
            try:
                calls[value] = one.program.call(text)
            except Exception as error:  # noqa: BLE001
                lines[value] = _error(error)
    times: dict[Any, float] = {}
    if len(calls) > 1 and one.current in calls:
        times = _medians(calls, device)
    for value in one.texts:
        if value == one.current:
            yield told(value=value, told=f"{times[value]:8.4f} ms, now" if value in times else "now")
        elif value in lines:
            yield told(value=value, told=lines[value])
        else:
            ratio = times[value] / times[one.current]
            yield told(value=value, told=f"{times[value]:8.4f} ms, {ratio:.2f}", is_better=ratio < BETTER)


def _error(error: object) -> str:
    return f"ERROR {type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")[:160]


def _medians(calls: dict[Any, Call], device: str) -> dict[Any, float]:
    """Milliseconds of every call, in turns."""
    named = {str(number): call for number, call in enumerate(calls.values())}
    if device == "cuda":
        from benchmarks.gpu_worker import device_times

        samples = device_times(named, ROUNDS)
    else:
        from benchmarks.timing import in_turns

        samples = in_turns(named, SECONDS).milliseconds
    return {value: statistics.median(samples[str(number)]) for number, value in enumerate(calls)}


def build_ahead(every: Iterable[Variants]) -> None:
    """Compiles all kernels for a GPU side by side; each then finds its code in this process."""
    from cuesta.dialects.kernel import FuncOp
    from cuesta.targets.lookup import target_of

    kernels: dict[str, FuncOp] = {}
    for one in every:
        for text in one.texts.values():
            if one.program is None or isinstance(text, Exception):
                continue
            for op in one.program.lowered[text].body.ops:
                if isinstance(op, FuncOp):
                    kernels[f"{len(kernels)}"] = op
    build = target_of("cuda").start(kernels, [(name, "cuda:0") for name in kernels])
    build.begin()
    build.finish()


# --- All rows ---------------------------------------------------------------------------------------------------------


def run(rows: Sequence[Row], device: str, tell: Callable[[Line], None]) -> None:
    """Measures the rows of one device; what fails is told in its place."""
    programs: dict[str, Program | Exception] = {}
    every: list[Variants] = []
    start = perf_counter()
    for row in rows:
        for name in row.cases:
            if name not in programs:
                try:
                    programs[name] = captured(CASES[name], device)
                except Exception as error:  # noqa: BLE001
                    programs[name] = error
            program = programs[name]
            if isinstance(program, Exception):
                every.append(Variants(row, name, None, row.current(), {row.current(): program}))
            else:
                every.append(variants(row, name, program))
            if device == "cpu":
                _tell(every.pop(), device, tell)
    if device == "cuda":
        print(f"{len(every)} cases of rows lowered in {perf_counter() - start:.0f} s; compiling", flush=True)
        try:
            build_ahead(every)
        except Exception:  # noqa: BLE001 - each is then compiled in its turn, and says what is wrong
            traceback.print_exc()
        print(f"compiled after {perf_counter() - start:.0f} s", flush=True)
        for one in every:
            _tell(one, device, tell)
    print(f"{device}: {perf_counter() - start:.0f} s", flush=True)


def _tell(one: Variants, device: str, tell: Callable[[Line], None]) -> None:
    try:
        lines = list(measured(one, device))
    except Exception as error:  # noqa: BLE001
        lines = [Line(one.row.key, one.current, one.case, _error(error))]
    for line in lines:
        tell(line)


def heading(device: str) -> list[str]:
    """What stands above the lines of a device."""
    from cuesta.machine import detect

    if device == "cuda":
        name = torch.cuda.get_device_name()
    else:
        name = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    facts = f"{name}; {detect([device])}; torch {torch.__version__}"
    return [f"## {device}", "", facts, "", "| constant | value | case | time, ratio | |", "|---|---|---|---|---|"]


PREAMBLE = """# What the constants of the schedules are worth

Written by `python -m benchmarks.constants --write FILE…` from what `--out FILE` kept of its runs; not by hand.
A *ratio* is the time with another value by the time with the value that stands in the module (*now*): below 0.95 the
other one is **better** in this case. `same kernel`: the value changes nothing here. What one case gains another may
lose: a constant stands for all of them.
"""


def write(sections: Iterable[str]) -> None:
    """Writes the document from what runs have kept."""
    RESULTS.write_text("\n".join([PREAMBLE, *(section.strip() + "\n" for section in sections)]), encoding="utf-8")
    print(f"written: {RESULTS}")


def chosen_rows(only: Sequence[str], device: str) -> list[Row]:
    """The rows of a device whose constants match one of the patterns; all without any."""
    return [
        row
        for row in ROWS
        if row.device == device and (not only or any(fnmatch.fnmatch(row.key, pattern) for pattern in only))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda", "all"], default="all")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help="such as 'schedule_cpu.*'")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the lines there, one by one")
    parser.add_argument(
        "--write", nargs="*", type=Path, metavar="FILE", help="make the document of what runs have kept"
    )
    parser.add_argument("--list", action="store_true", help="name the constants that have rows")
    chosen = parser.parse_args(arguments)
    devices = ["cpu", "cuda"] if chosen.device == "all" else [chosen.device]
    if chosen.list:
        for row in [row for device in devices for row in chosen_rows(chosen.only, device)]:
            print(f"{row.key:40}{row.device:6}{row.current()!s:>18}  {', '.join(map(str, row.values))}")
        return 0
    if chosen.write:
        write(file.read_text(encoding="utf-8") for file in chosen.write)
        return 0
    if chosen.only and not any(chosen_rows(chosen.only, device) for device in devices):
        parser.error(f"no row matches {' '.join(chosen.only)}; --list names them")
    out: TextIO | None = None if chosen.out is None else chosen.out.open("w", encoding="utf-8")
    kept: list[str] = []
    better: list[Line] = []
    failed = 0

    def keep(text: str) -> None:
        kept.append(text)
        if out is not None:
            print(text, file=out, flush=True)

    def tell(line: Line) -> None:
        nonlocal failed
        failed += line.told.startswith("ERROR")
        better.extend([line] if line.is_better else [])
        print(line, flush=True)
        keep(line.as_markdown())

    for device in devices:
        rows = chosen_rows(chosen.only, device)
        if not rows:
            continue
        if device == "cuda" and not torch.cuda.is_available():
            print(f"skipped: {len(rows)} constants of schedules for a GPU, as there is no CUDA device here")
            continue
        for text in heading(device):
            keep(text)
        run(rows, device, tell)
        keep("")
    if kept:
        print(f"\nin {len(better)} cases another value is better by more than 5 %{':' if better else ''}")
    for line in better:
        print(line)
    if failed:
        print(f"{failed} lines are errors")
    if out is not None:
        out.close()
    if chosen.write is not None:
        write(["\n".join(kept)])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
