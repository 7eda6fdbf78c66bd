"""`cuesta repro`: a graph that fails, or is wrong, packed into one folder that somebody else can run.

The folder is a dump: its texts and inputs are where `cuesta run`, `cuesta diff` and `cuesta.load` look for them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cuesta.programs.inputs_of import InputsError, copies_of
from cuesta.programs.kept_inputs import FOLDER, INDEX, read_inputs, write_inputs
from cuesta.programs.stages import Program
from cuesta.replaying.replay import replay, texts_in
from cuesta.versions import versions

if TYPE_CHECKING:
    from cuesta.programs.capturing import CapturedGraph

SCRIPT = '''\
"""Repeats what was packed here: `python run.py`, with cuesta {version}. README.md says what it was."""

import sys
from pathlib import Path

from cuesta.command import main

sys.exit(main(["run", str(Path(__file__).parent), "--check", *{arguments!r}, *sys.argv[1:]]))
'''


class ReproError(ValueError):
    """There is nothing to pack, or no room to pack it in."""


@dataclass
class Case:
    """What goes into a folder."""

    files: dict[str, str]
    """Texts by name: the graph, the program before its first stage, the last that was good."""
    about: dict[str, Any]
    """Options, versions, the kind of graph."""
    error: str = ""
    """What was raised, or which results are wrong; empty when nothing is known to be."""
    good: str = ""
    """The last stage after which the program was good."""
    inputs: Sequence[Any] | None = None
    weights: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list[str])


def pack_dump(source: Path, target: Path, *, weights: bool = False, random: bool = False, seed: int = 0) -> Case:
    """Packs what is in the folder of a graph's dump, or of the only graph that failed in a folder of dumps.

    Kept inputs go with it, unless they are to be `random`; a model's own tensors are random ones with the same mean,
    deviation and ends, unless `weights` are wanted as they are.
    Errors: ReproError, OSError. Nothing is left behind then.
    """
    folder = _graph_in(source)
    texts = texts_in(folder)
    failed = sorted(folder.glob("[0-9][0-9]_before_*.mlir"))
    wanted = dict.fromkeys([texts[0], texts[-1], *failed]) if failed else dict.fromkeys([texts[0]])
    names = [path.name for path in wanted]
    case = Case(
        {name: _read(folder / name) for name in [*names, "fx.py"] if (folder / name).is_file()},
        _json(folder / "about.json"),
        error=_read(folder / "error.txt"),
        good=texts[-1].stem[3:] if failed else "",
    )
    if not random and (folder / FOLDER / INDEX).is_file():
        try:
            kept = read_inputs(folder)
            case.inputs, case.weights = kept.values, kept.weights
        except InputsError as error:
            case.notes.append(f"The inputs that were kept cannot be read ({error}): random ones stand for them.")
    _write(case, target, weights=weights, seed=seed)
    return case


def pack_model(
    fn: Any,
    inputs: Sequence[Any],
    target: Path,
    *,
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    training: bool = False,
    weights: bool = False,
    random: bool = False,
    seed: int = 0,
    graph: int | None = None,
) -> Case:
    """Captures one call of a function, and packs the first graph that cannot be compiled, or does not compute what
    the reference interpreter does; `graph` says which, by its number. Inputs and weights are as for `pack_dump`.

    Errors: ReproError when no graph fails and there are several; what capturing raises.
    """
    from cuesta.programs.capturing import captured_calls

    captors = captured_calls(fn, inputs, kwargs, options=options, training=training, fullgraph=False)
    found = [one for one in captors.found if one.arguments is not None]
    if not found:
        refused = f": cuesta would run it in eager, {captors.refused}" if captors.refused else ""
        raise ReproError(f"no graph was captured{refused}")
    if graph is not None and not 0 <= graph < len(found):
        raise ReproError(f"there is no graph {graph}: they are numbered from 0 to {len(found) - 1}")
    cases = [_case_of(one, options or {}, seed) for one in (found if graph is None else [found[graph]])]
    case = next((one for one in cases if one.error), cases[0] if len(cases) == 1 else None)
    if case is None:
        raise ReproError(f"none of the {len(cases)} graphs fails, or is wrong: say with --graph which is to be packed")
    if random:
        case.inputs = None
    _write(case, target, weights=weights, seed=seed)
    return case


def _case_of(captured: CapturedGraph, options: Mapping[str, Any], seed: int) -> Case:
    """Goes down the stages with a graph, as far as it gets."""
    program = captured.program().taking_arguments()
    values = copies_of(captured.arguments or [])
    about = {"kind": captured.kind, "options": {name: str(value) for name, value in options.items()}}
    case = Case({"fx.py": captured.fx, "00_aten.mlir": _text_of(program)}, about, inputs=values)
    case.weights = captured.weights
    current, number = program, 0
    try:
        while current.remaining:
            following = current.next()
            _ = following.text  # the stage runs
            current, number = following, number + 1
        done = replay(program, values, check=True, seed=seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is packed
        case.error = f"{type(error).__name__}: {error}"
        if current.remaining:
            case.files[f"{number:02d}_{current.stage}.mlir"] = _text_of(current)
            case.good = current.stage
    else:
        case.error = "\n".join(str(one) for one in done.comparisons or () if not one.passes)
    return case


def _text_of(program: Program) -> str:
    from cuesta.dialects.core.locations import print_text

    return f"{program.header}{print_text(program.module, locations=True)}"


def _graph_in(source: Path) -> Path:
    if not source.is_dir():
        raise ReproError(f"there is no folder {source}: a dump is packed, or a Python file that defines a model")
    if texts_in(source):
        return source
    graphs = sorted(one for one in source.iterdir() if one.is_dir() and texts_in(one))
    failed = [one for one in graphs if (one / "error.txt").is_file()] or graphs
    if len(failed) != 1:
        names = ", ".join(one.name for one in failed) or "none"
        raise ReproError(f"{source} holds the dumps of these graphs: {names}; say which is to be packed")
    return failed[0]


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _json(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(_read(path) or "{}")
    except ValueError as error:
        raise ReproError(f"{path} cannot be read: {error}") from error
    return said if isinstance(said, dict) else {}


# -- the folder -------------------------------------------------------------------------------------------------------


@contextmanager
def _whole(target: Path) -> Generator[Path]:
    """The `with` block that fills a folder, which is there at its end, or not at all."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ReproError(f"{target} is there already, and is no empty folder")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(case: Case, target: Path, *, weights: bool, seed: int) -> None:
    arguments = ["--seed", str(seed)]
    with _whole(target) as folder:
        if case.inputs is not None:
            values = case.inputs if weights else like_weights(case.inputs, case.weights, seed)
            write_inputs(values, folder / FOLDER, weights=case.weights)
        else:
            arguments.append("--random")
        for name, text in case.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        about = {**case.about, "packed with": versions()}
        (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if case.error:
            (folder / "error.txt").write_text(case.error.rstrip() + "\n", encoding="utf-8")
        script = SCRIPT.format(version=versions()["cuesta"], arguments=arguments)
        (folder / "run.py").write_text(script, encoding="utf-8")
        (folder / "README.md").write_text(_readme(case, weights=weights, seed=seed), encoding="utf-8")


def _readme(case: Case, *, weights: bool, seed: int) -> str:
    made = case.about.get("versions") or versions()
    told = ", ".join(f"{name} {value}" for name, value in made.items())
    options = {name: value for name, value in case.about.get("options", {}).items() if not name.startswith("dump")}
    if case.inputs is None:
        inputs = f"random ones of the types that the first text declares, seed {seed}"
    elif not case.weights or weights:
        inputs = "those of the call, in `inputs/`"
    else:
        count = len(case.weights)
        inputs = f"those of the call, in `inputs/`; {count} weights are random, with the same mean, deviation and ends"
    lines = [
        "# A graph that cuesta was given",
        "",
        "`python run.py` repeats it: it compiles the graph, runs it, and compares with the reference interpreter.",
        "",
        f"* kind: {case.about.get('kind', 'unknown')}; options: {options or 'none'}",
        f"* inputs: {inputs}",
        f"* made with: {told}",
    ]
    if case.good:
        lines.append(f"* the last stage after which the program was good: `{case.good}`; its text is here too")
    lines += [f"* {note}" for note in case.notes]
    if case.error:
        lines += ["", "## What went wrong", "```", case.error.rstrip(), "```"]
    else:
        lines += ["", "Nothing failed where it was packed."]
    lines += ["", "## Files", *(f"* `{name}`" for name in case.files)]
    return "\n".join(lines) + "\n"


def like_weights(values: Sequence[Any], weights: frozenset[int], seed: int) -> list[Any]:
    """The values, those at the positions `weights` with random numbers in their place: of floats, with the same mean,
    deviation and ends; of integers, within the same ends; of booleans, as often true. Memory that they share with
    others is random there too.
    """
    generator = torch.Generator().manual_seed(seed)
    copies = copies_of(values)
    for position in sorted(weights):
        value = copies[position]
        if isinstance(value, torch.Tensor) and value.numel():
            extent = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
            flat = value.as_strided((extent,), (1,), value.storage_offset())
            flat.copy_(_random_like(value, extent, generator))
    return copies


def _random_like(value: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    value = value.cpu()
    if value.dtype is torch.bool:
        return torch.rand(count, generator=generator) < value.double().mean()
    if value.dtype.is_complex:
        real = _random_like(value.real.float(), count, generator)
        return torch.complex(real, _random_like(value.imag.float(), count, generator))
    if not value.dtype.is_floating_point:
        low, high = int(value.long().min()), int(value.long().max())
        return torch.randint(low, high, (count,), generator=generator) if high > low else torch.full((count,), low)
    wide = value.double()
    finite = wide[wide.isfinite()]
    if not finite.numel():
        return torch.zeros(count)
    deviation = finite.std() if finite.numel() > 1 else torch.zeros((), dtype=torch.float64)
    made = torch.randn(count, generator=generator, dtype=torch.float64) * deviation + finite.mean()
    return made.clamp(finite.min(), finite.max())


def told(case: Case, target: Path) -> str:
    """What to say of a folder that was packed."""
    lines = [f"{target}: python {target / 'run.py'} repeats it"]
    if case.error:
        lines.append("\n".join(case.error.strip().splitlines()[:6]))
    else:
        lines.append("nothing failed here; the folder has the whole graph")
    return "\n".join(lines)


__all__ = ["Case", "ReproError", "like_weights", "pack_dump", "pack_model", "told"]
