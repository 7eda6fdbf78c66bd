"""Products of matrices in bf16 as contractions of ours, beside cuBLAS; and with what is around them, beside
TorchInductor: on a CUDA device. `make bench-products`.

    make bench-products                        forty shapes, drawn by a rule
    make bench-products ARGS="--single"        and ten more, in f32, of which nothing is rounded
    make bench-products ARGS="--fused"         products, and convolutions that are some, with what is around them, in
                                               their default modes
    make bench-products ARGS="--fused --autotune"      and in max-autotune

Every row is one process's: all sides are compiled, checked against float64, and called in turns, between writes that
empty the device's cache. Times are medians of events around a call, ratios medians of those of the same rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

import cuesta
from benchmarks.attention import error_of
from benchmarks.product_cases import CASES, CONVOLUTIONS, RULE, SIZES, Case, ConvolutionCase, Shape, drawn_shapes
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.core.machine import Machine, state_machine
from cuesta.lowering.schedule.tune_kernels import TuneKernelsPass, fuse, variants_of
from cuesta.machine import detect
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.products.products import products_of
from cuesta.tuning import Tuner, cuda_timer

FLUSHED = 512 << 20
"""Bytes written between two calls, so that no call finds its arguments in the cache, and the device is never ahead of
the host.
"""
MICROSECONDS = 12_000.0
"""What the calls of one side take together, about."""
FEWEST, MOST = 7, 25
"""Rounds of each row."""
CLOSE = 2.0
"""How many times the library's error ours may be."""


def question_of(shape: Shape, machine: Machine) -> list[ModuleOp]:
    """Programs at the level `loops`, ready to schedule: with the library's call, and with each of the contractions of
    which `max-autotune` takes the fastest; the first is what is taken without measuring.
    """
    module = CuestaParser(make_context(), shape.text(), str(shape)).parse_module()
    module.verify()
    state_machine(module, machine)
    stages = default_stages()
    labels = [stage.label for stage in stages]
    run_pipeline(make_context(), module, stages[labels.index("eliminate-views") : labels.index("spread-rows") + 1])
    (product,) = products_of(entry_block(module), precision="bf16x6")
    found = [module]
    for number in range(len(variants_of(product, machine))):
        copy = module.clone()
        (product,) = products_of(entry_block(copy), precision="bf16x6")
        fuse(product, variants_of(product, machine), number + 1, TuneKernelsPass())
        found.append(copy)
    return found


def tuner() -> Tuner:
    """What compiles questions, as `max-autotune` does."""
    stages = default_stages(tune=True)
    labels = [stage.label for stage in stages]
    return Tuner(stages[labels.index("tune-kernels") + 1 :], cuda_timer)


def choices_of(program: ModuleOp) -> dict[str, int]:
    """What its contraction is to do."""
    found = [dict(op.choices) for op in entry_block(program).ops if isinstance(op, loops.NestOp)]
    return next((one for one in found if "depth" in one), {})


def timed(sides: dict[str, Callable[[], Any]], most: int = MOST) -> dict[str, list[float]]:
    """Microseconds of every round, by side; all take turns."""
    flushed = torch.empty(FLUSHED, dtype=torch.int8, device="cuda")

    def run(call: Callable[[], Any]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        flushed.zero_()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        return begin, end

    first: dict[str, float] = {}
    for name, call in sides.items():
        call()
        events = run(call)
        torch.cuda.synchronize()
        first[name] = events[0].elapsed_time(events[1]) * 1e3
    rounds = min(most, max(FEWEST, int(MICROSECONDS / max(1.0, statistics.fmean(first.values())))))
    names = list(sides)
    every: list[dict[str, tuple[torch.cuda.Event, torch.cuda.Event]]] = []
    for number in range(rounds):
        turn = number % len(names)
        every.append({name: run(sides[name]) for name in names[turn:] + names[:turn]})
    torch.cuda.synchronize()
    return {name: [one[name][0].elapsed_time(one[name][1]) * 1e3 for one in every] for name in names}


def ratio_of(other: Sequence[float], ours: Sequence[float]) -> float:
    """How many times as fast ours is: the median over rounds."""
    return statistics.median(a / b for a, b in zip(other, ours, strict=True))


def measure_plain(shape: Shape, question: Sequence[ModuleOp], built: Sequence[Callable[..., Any] | None]) -> Any:
    """A row of the first part."""
    a, b = shape.inputs("cuda")
    library = torch.bmm if shape.batch else torch.mm
    truth = library(a.double(), b.double()).float()
    row: dict[str, Any] = {"shape": str(shape), "sizes": [shape.rows, shape.columns, shape.points, shape.batch]}
    row["off"] = {"cublas": error_of(library(a, b), truth)}
    row["choices"], row["failed"] = [choices_of(program) for program in question[1:]], []
    sides: dict[str, Callable[[], Any]] = {"cublas": lambda: library(a, b)}
    for number, function in enumerate(built[1:]):
        name = str(number)
        if function is None:
            row["failed"].append(number)
            continue

        def call(function: Callable[..., Any] = function) -> Any:
            return function([a, b])

        try:
            off = row["off"][name] = error_of(call()[0], truth)
            torch.cuda.synchronize()
        except RuntimeError as error:
            row["failed"].append(f"{number}: {error}"[:200])
            continue
        if not off <= CLOSE * row["off"]["cublas"] + 1e-7:
            row["failed"].append(f"{number}: off by {off:.2e}, cuBLAS by {row['off']['cublas']:.2e}")
        sides[name] = call
    del truth
    times = timed(sides)
    row["us"] = {name: statistics.median(one) for name, one in times.items()}
    ours = {name: ratio_of(times["cublas"], one) for name, one in times.items() if name != "cublas"}
    if ours:
        row["best"] = max(ours, key=ours.__getitem__)
        row["ratio"] = ours[row["best"]]
        row["default"] = ours.get("0", 0.0)
    return row


def told(choices: dict[str, int]) -> str:
    """Choices in short: `128x256x64 w8 s3`."""
    names = ("rows", "columns", "depth")
    rest = " ".join(f"{key}={one}" for key, one in choices.items() if key not in (*names, "warps", "stages", "group"))
    short = "x".join(str(choices.get(name, 0)) for name in names)
    return f"{short} w{choices.get('warps')} s{choices.get('stages')} {rest}".strip()


def plain(shapes: Sequence[Shape], rounds: int, keep: Callable[[list[Any]], None]) -> None:
    """The first part: every shape, then the means."""
    machine = detect(["cuda:0"])
    print(RULE)
    start = perf_counter()
    questions = [question_of(shape, machine) for shape in shapes]
    compiler = tuner()
    lowered = compiler.lowered(questions)
    print(f"compiled {sum(map(len, questions))} programs in {perf_counter() - start:.0f} s", flush=True)
    rows: list[Any] = []
    for shape, question, modules in zip(shapes, questions, lowered, strict=True):
        built = [None, *(None if module is None else compiler.build(module) for module in modules[1:])]
        if rounds == 0:
            continue
        row = measure_plain(shape, question, built)
        rows.append(row)
        keep(rows)
        best = row["choices"][int(row["best"])] if "best" in row else {}
        rate = shape.operations / row["us"]["cublas"] / 1e6
        print(
            f"{shape!s:44} cuBLAS {row['us']['cublas']:8.1f} µs ({rate:4.0f} T/s, off {row['off']['cublas']:.1e})  "
            f"ours {row['us'].get(row.get('best'), math.nan):8.1f} = {row.get('ratio', 0):.2f}  "
            f"default {row.get('default', 0):.2f}  {told(best)} (off {row['off'].get(row.get('best'), 0):.1e})"
            f" {row['failed'] or ''}",
            flush=True,
        )
    for key in ("ratio", "default"):
        found = [row[key] for row in rows if row.get(key)]
        if found:
            worst = min(found)
            print(f"{key}, cuBLAS's time over ours: geometric mean {statistics.geometric_mean(found):.3f}", end="")
            print(f" of {len(found)} of {len(rows)} rows, worst {worst:.2f}")
    print(f"{perf_counter() - start:.0f} s in all")


# Products with what is around them


AnyCase = Case | ConvolutionCase


def sides_of(case: AnyCase, autotune: bool) -> dict[str, Callable[..., Any]]:
    """The compilers, by name; each compiles at its first call."""
    torch._dynamo.reset()

    def compiled(**options: Any) -> Callable[..., Any]:
        return torch.compile(case.function, fullgraph=True, dynamic=False, **options)

    found = {"inductor": compiled(), "cuesta": compiled(backend="cuesta")}
    if autotune:
        found["inductor-max"] = compiled(mode="max-autotune-no-cudagraphs")
        found["cuesta-max"] = compiled(backend="cuesta", options={"max_autotune": True})
    return found


def as_tuple(results: Any) -> tuple[Tensor, ...]:
    """Results of a call, also of one result."""
    return results if isinstance(results, tuple) else (results,)


def measure_fused(case: AnyCase, sizes: tuple[int, ...], autotune: bool, rounds: int) -> Any:
    """A row of the second part."""
    inputs = case.inputs(*sizes, device="cuda")
    exact = [one.double() if one.is_floating_point() else one for one in inputs]
    row: dict[str, Any] = {"case": case.name, "sizes": sizes, "errors": {}, "off": {}, "launches": {}, "us": {}}
    truth = as_tuple(_without_casts(case)(*exact))
    del exact
    sides: dict[str, Callable[[], Any]] = {}
    for name, function in sides_of(case, autotune).items():
        cuesta.clear_records()
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                results = as_tuple(function(*inputs))
            row["off"][name] = max(error_of(a, b) for a, b in zip(results, truth, strict=True))
            if name.startswith("cuesta"):
                row["launches"][name] = [(record.kernels, record.library_calls) for record in cuesta.records]
        except Exception as error:  # noqa: BLE001 # whatever a compiler raises belongs in the table
            row["errors"][name] = f"{type(error).__name__}: {error}"[:300]
            continue
        sides[name] = lambda function=function: function(*inputs)
    del truth
    if not rounds:
        return row
    with torch.no_grad():
        times = timed(sides, rounds)
    row["us"] = {name: statistics.median(one) for name, one in times.items()}
    pairs = [("inductor", "cuesta"), ("inductor-max", "cuesta"), ("inductor-max", "cuesta-max")]
    row["ratios"] = {f"{a}/{b}": ratio_of(times[a], times[b]) for a, b in pairs if a in times and b in times}
    return row


def _without_casts(case: AnyCase) -> Callable[..., Any]:
    """The same function where everything is float64: what it casts to narrower types it leaves alone."""
    from torch.utils._python_dispatch import TorchDispatchMode

    narrow = (torch.bfloat16, torch.float32)

    class Wide(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("dtype") in narrow:
                kwargs["dtype"] = torch.float64
            return func(*args, **kwargs)

    def function(*inputs: Tensor) -> Any:
        with torch.no_grad(), Wide():
            return case.function(*inputs)

    return function


def fused(
    wanted: Sequence[tuple[AnyCase, tuple[int, ...]]],
    autotune: bool,
    rounds: int,
    seconds: float,
    keep: Callable[[list[Any]], None],
) -> None:
    """The second part: the rows, as far as `seconds` last, then the means."""
    start = perf_counter()
    torch._dynamo.config.recompile_limit = 1000
    rows: list[Any] = []
    for case, sizes in wanted:
        if perf_counter() - start > seconds:
            print(f"{len(wanted) - len(rows)} rows left out: {seconds:.0f} s are over")
            break
        torch.set_float32_matmul_precision("high" if getattr(case, "dtype", None) is torch.float32 else "highest")
        row = measure_fused(case, sizes, autotune, rounds)
        rows.append(row)
        keep(rows)
        times = " ".join(f"{name} {one:7.1f}" for name, one in row["us"].items())
        ratios = " ".join(f"{name} {one:.2f}" for name, one in row.get("ratios", {}).items())
        off = " ".join(f"{one:.1e}" for one in row["off"].values())
        print(
            f"{case.name:30} {'x'.join(map(str, sizes)):16} {times} µs  {ratios}  [{off}] {row['launches']} "
            f"{row['errors'] or ''}",
            flush=True,
        )
    for pair in ("inductor/cuesta", "inductor-max/cuesta", "inductor-max/cuesta-max"):
        found = [row["ratios"][pair] for row in rows if pair in row.get("ratios", {})]
        if found:
            mean, least = statistics.geometric_mean(found), min(found)
            print(f"time of {pair}: geometric mean {mean:.3f} of {len(found)} rows, least {least:.2f}")
    print(f"{perf_counter() - start:.0f} s in all")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fused", action="store_true", help="the second part")
    parser.add_argument("--single", action="store_true", help="the first part in f32")
    parser.add_argument("--autotune", action="store_true", help="with max-autotune, of both compilers")
    parser.add_argument("--turn", action="store_true", help="each case in one of the sizes, in turn")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no row of the second part begins later")
    parser.add_argument("--only", default="", help="kinds of shapes, or parts of names of cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=MOST, help="0 only compiles, and fills caches")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)

    def keep(rows: list[Any]) -> None:
        if given.json:
            given.json.write_text(json.dumps(rows))

    names = [one for one in given.only.split(",") if one]
    if given.fused:
        cases = [case for case in CASES if not names or any(name in case.name for name in names)]
        wanted: list[tuple[AnyCase, tuple[int, ...]]] = [(case, sizes) for case in cases for sizes in SIZES]
        if given.turn:
            wanted = [(case, SIZES[number % len(SIZES)]) for number, case in enumerate(cases)]
        wanted += [(case, case.sizes) for case in CONVOLUTIONS if not names or any(one in case.name for one in names)]
        fused(wanted, given.autotune, given.rounds, given.seconds, keep)
    else:
        shapes = drawn_shapes("f32" if given.single else "bf16")
        plain([one for one in shapes if not names or one.kind in names], given.rounds, keep)


if __name__ == "__main__":
    main()
