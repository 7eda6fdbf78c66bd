"""Explanations of what ran before: from a record, and from the folder of a dump.

The stages are run again, on the text that the dump has of the beginning, and looked at; nothing is built or run. So
everything is known but what only a run tells.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.explain.graphs import graph_of
from cuesta.explain.measuring import Measured
from cuesta.explain.model import CompileStage, Explanation, Graph, Unseen
from cuesta.explain.nodes import TracedGraph
from cuesta.explain.watch import WHY, Watch, Watched
from cuesta.observing import observed
from cuesta.options import Options
from cuesta.programs.loading import read, read_text
from cuesta.record import DUMP, CompileRecord
from cuesta.staging import run_stages

NO_TIMES = "it is explained from what is left of it, and does not run"


def explain_record(record: CompileRecord) -> Explanation:
    """What a record of a finished compilation lets know: all but times of runs where `options["dump"]` kept the texts,
    and the stages and their times where it did not. What is missing is in `unseen`.
    """
    if record.dump is not None:
        try:
            return _explanation(record.dump, _of_dump(Path(record.dump), record))
        except (OSError, CuestaError, ParseError) as error:
            return _explanation(record.dump, _of_record(record, f"its dump cannot be read: {error}"))
    why = "the record kept no texts: compile with options={'dump': FOLDER}, or ask cuesta.explain(model, *inputs)"
    return _explanation("a record", _of_record(record, why))


def explain_dump(folder: str | os.PathLike[str]) -> Explanation:
    """What the folder of one graph's texts lets know, as `options["dump"]` made it; or the folder of such a folder.

    Errors: ReplayError for a folder that holds no dump, or those of several graphs; OSError, CuestaError and ParseError
    for what is no dump, or was edited wrongly: they name file and line.
    """
    from cuesta.replaying.replay import text_in

    place = text_in(folder).parent
    kind = place.name.partition("_")[2]
    record = CompileRecord("forward" if kind == "forward" else "backward" if kind == "backward" else "inference")
    return _explanation(str(place), _of_dump(place, record))


def _of_dump(folder: Path, record: CompileRecord) -> Graph:
    texts = sorted(folder.glob("[0-9]*.mlir"))
    if not texts:
        raise FileNotFoundError(f"{folder} holds no program: there is no .mlir in it")
    path = str(texts[0])
    text = read_text(path)
    module, _, stages = read(text, path, Options(), given={})
    traced = TracedGraph(text=_text_of(folder / "fx.py"))
    again = CompileRecord(record.kind, aten_ops=record.aten_ops)
    watch = Watch()
    watched = watch.adopt(again, Watched(again, perf_counter(), traced))
    with observed(watch):
        run_stages(module, Options(), again, None, stages)
    watched.module = module
    for file in sorted(folder.iterdir()):
        if file.suffix in (".ll", ".py") and file.name != "fx.py":
            watched.texts[file.name] = _text_of(file)
    if record.seconds:
        again.seconds = dict(record.seconds)
    again.capture_seconds = record.capture_seconds
    graph = graph_of(watched, 0, Measured(why=NO_TIMES))
    if record.seconds:
        return graph
    return _with_unseen(graph, Unseen("compile times of code generation", "the dump has the stages' texts only"))


def _with_unseen(graph: Graph, *more: Unseen) -> Graph:
    return replace(graph, unseen=(*graph.unseen, *more))


def _of_record(record: CompileRecord, why: str) -> Graph:
    start = 0.0
    stages: list[CompileStage] = []
    for name, seconds in record.seconds.items():
        if name != DUMP:
            stages.append(CompileStage(name, WHY.get(name, ""), start, seconds))
            start += seconds
    outcome = "eager" if record.in_eager else "cached" if record.from_cache else "compiled"
    fallbacks = ", ".join(f"{name} ×{count}" for name, count in record.fallbacks.items()) or "none"
    known = f"{record.kernels} launches of kernels, {record.library_calls} library calls, fallbacks: {fallbacks}"
    return Graph(
        number=0,
        kind=record.kind,
        outcome=outcome,
        why=record.in_eager or "",
        stages=tuple(stages),
        capture_seconds=record.capture_seconds,
        own_seconds=record.own_seconds,
        extensions=record.extensions,
        cuda_graph=record.cuda_graph,
        unseen=(Unseen("kernels, calls, memory and levels", f"{why}. All that is known: {known}"),),
    )


def _explanation(name: str, graph: Graph) -> Explanation:
    return Explanation(name, cuesta.__version__, str(torch.__version__), graph.kind != "inference", (graph,))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


__all__ = ["explain_dump", "explain_record"]
