"""Convolutions whose windows overlap, with what is around them: as the pass chooses, with all of them left to the
library, and by TorchInductor, in turns; then each of the tiles that `max-autotune` would try, beside the library with
what surrounds it. On a CUDA device: `make bench-convolved`.

Processes compile side by side, and have the device in turns: a row is there as soon as it is measured. Beside every
row, and every tile, is what was predicted: what the constants of `transforms/products/tiles.py` and `product_plans.py`
are to be fitted to.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import math
import multiprocessing
import os
import queue
import statistics
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.attention import error_of
from benchmarks.product_cases import OVERLAPPING, ConvolutionCase

WORKERS = 12
"""Processes that compile.

Source: a choice: a machine with one H100 has 16 cores.
"""
TILES = 6
"""How many tiles of a case are measured.

Source: a bound against the time that it takes.
"""


@contextmanager
def left_to_the_library() -> Iterator[None]:
    """In the `with` block no convolution whose windows overlap is taken for a product."""
    from cuesta.transforms.products import products

    windows_of = products.windows_of

    def others(call: Any) -> Any:
        found = windows_of(call)
        return found if isinstance(found, str) or not found.overlap else "windows that overlap are left out here"

    with patch.object(products, "windows_of", others):
        yield


@contextmanager
def noted(row: dict[str, Any]) -> Iterator[None]:
    """In the `with` block the row is told what is predicted."""
    from cuesta.transforms.products import choose_products

    plan_of = choose_products.plan_of

    def planned(product: Any, machine: Any) -> Any:
        plan = plan_of(product, machine)
        if plan is not None and product.windows is not None:
            row["predicted"] = {"together": plan.together, "apart": plan.apart, "tile": plan.tile, "taken": plan.pays}
        return plan

    with patch.object(choose_products, "plan_of", planned):
        yield


def compilers(row: dict[str, Any]) -> dict[str, Mapping[str, Any]]:
    """For `torch.compile`: what each side is given."""
    from cuesta.backend import cuesta

    def chosen(graph: Any, inputs: Any) -> Any:
        with noted(row):
            return cuesta(graph, inputs)

    def off(graph: Any, inputs: Any) -> Any:
        with left_to_the_library():
            return cuesta(graph, inputs)

    return {"cuesta": {"backend": chosen}, "off": {"backend": off}, "inductor": {}}


def measured(case: ConvolutionCase, lock: Any) -> dict[str, Any]:
    """A row of the first part: all that compiles, beside a wider type, and in turns."""
    import cuesta
    from benchmarks.products import as_tuple, ratio_of, timed

    torch._dynamo.reset()
    torch.set_float32_matmul_precision("high" if case.dtype is torch.float32 else "highest")
    row: dict[str, Any] = {"case": case.name, "sizes": case.sizes, "off": {}, "errors": {}, "launches": {}, "us": {}}
    with lock, torch.no_grad():
        inputs = case.inputs(*case.sizes, device="cuda")
        wide = torch.float64 if case.dtype is torch.float32 else torch.float32
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            truth = as_tuple(case.function(*(one.to(wide) for one in inputs)))
        torch.cuda.synchronize()
    sides: dict[str, Callable[[], Any]] = {}
    for name, given in compilers(row).items():
        function = torch.compile(case.function, fullgraph=True, dynamic=False, **given)
        cuesta.clear_records()
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                results = as_tuple(function(*inputs))
            row["off"][name] = max(error_of(a, b) for a, b in zip(results, truth, strict=True))
            row["launches"][name] = [(record.kernels, record.library_calls) for record in cuesta.records]
        except Exception as error:  # noqa: BLE001 # whatever a compiler raises belongs in the table
            row["errors"][name] = f"{type(error).__name__}: {error}"[:300]
            continue
        sides[name] = lambda function=function: function(*inputs)
    with lock, torch.no_grad():
        times = timed(sides)
        torch.cuda.empty_cache()
    row["us"] = {name: statistics.median(one) for name, one in times.items()}
    row["ratios"] = {
        f"{name}/cuesta": ratio_of(times[name], times["cuesta"])
        for name in ("inductor", "off")
        if {name, "cuesta"} <= {*times}
    }
    return row


class _AskedError(Exception):
    """Raised in the place of measuring: the question is what was wanted."""


def tiles_of(case: ConvolutionCase, lock: Any) -> dict[str, Any]:
    """A row of the second part: what `max-autotune` asks, and the answer."""
    from cuesta import tuning
    from cuesta.backend import cuesta
    from cuesta.lowering.schedule import tune_kernels
    from cuesta.transforms.products.product_plans import around
    from cuesta.transforms.products.tiles import estimates

    torch._dynamo.reset()
    torch.set_float32_matmul_precision("high" if case.dtype is torch.float32 else "highest")
    row: dict[str, Any] = {"case": case.name, "sizes": case.sizes, "variants": []}
    variants_of, timer, asked = tune_kernels.variants_of, tuning.cuda_timer, list[Any]()

    def variants(product: Any, machine: Any, rows: Any = None) -> Any:
        found = variants_of(product, machine, rows)
        plain = [one for one in found if not one.prologues and not one.beside]
        found = [*plain[:TILES], *(one for one in found if one.prologues)][:TILES]
        for one in found:
            done = around(product, one.prologues, one.beside)
            times = estimates(product.sizes, product.batch, product.bits, machine, done)
            row["variants"].append((one.tile, one.prologues, next(us for us, tile in times if tile == one.tile)))
        return found

    def ask(tuner: Any, questions: Any) -> Any:
        if row["variants"]:
            asked.append((tuner, [[program.clone() for program in question] for question in questions]))
            raise _AskedError
        return [[0.0 if k == 0 else math.inf for k in range(len(question))] for question in questions]

    def timed(*given: Any) -> Sequence[float]:
        with lock:
            return timer(*given)

    def tuned(graph: Any, inputs: Any) -> Any:
        return cuesta(graph, inputs, options={"max_autotune": True})

    with patch.object(tune_kernels, "variants_of", variants), patch.object(tuning.Tuner, "__call__", ask):
        inputs = case.inputs(*case.sizes, device="cuda")
        try:
            with torch.no_grad():
                torch.compile(case.function, fullgraph=True, dynamic=False, backend=tuned)(*inputs)
        except Exception as error:  # noqa: BLE001 # torch wraps it
            if not asked:
                row["error"] = f"{type(error).__name__}: {error}"[:300]
                return row
    if asked:
        tuner, questions = asked[0]
        tuner.timer = timed
        row["times"] = tuner.measured(questions[-1], tuner.lowered(questions[-1:])[0])
    return row


def work(cases: Sequence[int], parts: Sequence[str], lock: Any, until: float, rows: Any) -> None:
    """What a process does, as far as the time lasts."""
    torch.set_num_threads(1)
    if cases and cases[0] == 0 and until < math.inf:  # if nothing comes, where one is
        faulthandler.dump_traceback_later(max(1.0, (until - time()) / 2))
    rows.put({"case": f"process for {len(cases)} cases", "note": "is there"})
    for part in parts:
        for one in cases:
            if time() > until:
                break
            try:
                rows.put((measured if part == "rows" else tiles_of)(OVERLAPPING[one], lock))
            except Exception:  # noqa: BLE001 # told at once
                rows.put({"case": OVERLAPPING[one].name, "failed": traceback.format_exc()})
    rows.put(None)


def told(row: Mapping[str, Any]) -> str:
    """A row as a line, or one for each tile that was measured."""
    if "note" in row:
        return f"{row['case']} {row['note']}"
    if "failed" in row:
        return f"{row['case']}: {row['failed']}"
    name = f"{row['case']:34} {'x'.join(map(str, row['sizes'])):18}"
    if "variants" in row:
        times = row.get("times")
        if not times:
            return f"{name} no tiles: {row.get('error', '')}"
        lines = [f"{name} apart {times[0]:.1f} µs; best tile {min(times[1:]):.1f} = {times[0] / min(times[1:]):.2f}"]
        for us, (tile, prologues, guessed) in zip(times[1:], row["variants"], strict=True):
            said = " ".join(f"{key}={one}" for key, one in tile.items() if key != "group")
            lines.append(f"    {us:8.1f} µs, predicted {guessed:.1f}: {said}{' with what is before' * prologues}")
        return "\n".join(lines)
    times = " ".join(f"{side} {one:.1f}" for side, one in row["us"].items())
    ratios = " ".join(f"{pair} {one:.2f}" for pair, one in row["ratios"].items())
    errors = " ".join(f"{one:.1e}" for one in row["off"].values())
    found = row.get("predicted", {})
    guess = f"{found['together']:.1f} against {found['apart']:.1f}" if found else "nothing"
    return (
        f"{name} {times} µs  {ratios}  [{errors}]  predicted {guess}"
        f"{' (taken)' if found.get('taken') else ''} {row['launches']} {row['errors'] or ''}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolved", description=__doc__)
    parser.add_argument("--only", default="", help="parts of names of cases, separated by commas")
    parser.add_argument("--parts", default="rows,tiles", help="what is measured")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes that compile")
    parser.add_argument("--seconds", type=float, default=math.inf, help="then whatever is left is left out")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    start = time()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    wanted = [one for one in given.only.split(",") if one]
    cases = [number for number, case in enumerate(OVERLAPPING) if not wanted or any(one in case.name for one in wanted)]
    count = min(given.workers, len(cases))
    # Every compiler compiles in the process that asks: there are as many as cores.
    os.environ.update({"CUESTA_CACHE": "0", "CUESTA_COMPILE_WORKERS": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    context = multiprocessing.get_context("spawn")
    lock, rows = context.Lock(), context.Queue()
    until = start + given.seconds
    parts = given.parts.split(",")
    processes = [
        context.Process(target=work, args=(cases[k::count], parts, lock, until, rows), daemon=True)
        for k in range(count)
    ]
    for process in processes:
        process.start()
    found: list[Any] = []
    left = count
    while left and time() < until:
        try:
            row = rows.get(timeout=1)
        except queue.Empty:
            if not any(one.is_alive() for one in processes):
                break
            continue
        if row is None:
            left -= 1
            continue
        found.append(row)
        print(f"{time() - start:4.0f} s {told(row)}", flush=True)
        if given.json:
            given.json.write_text(json.dumps(found))
    for process in processes:
        process.kill()
    for pair in sorted({pair for row in found for pair in row.get("ratios", ())}):
        every = [row["ratios"][pair] for row in found if pair in row.get("ratios", ())]
        mean = math.exp(statistics.fmean(map(math.log, every)))
        print(f"time of {pair}: geometric mean {mean:.3f} of {len(every)} rows, least {min(every):.2f}")
    print(f"{len(found)} rows in {time() - start:.0f} s")


if __name__ == "__main__":
    main()
