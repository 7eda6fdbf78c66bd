"""Convolutions whose windows overlap, with what is around them: as the pass chooses, with all of them left to the
library, under `max-autotune`, and by TorchInductor, in turns, on a CUDA device: `make bench-convolved`.

Processes compile side by side; times are taken afterwards, by one process at a time. Beside every row is what was
predicted, and what `max-autotune` measured of each tile beside what is predicted of it: what the constants of
`transforms/products/tiles.py` and `product_plans.py` are to be fitted to.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import queue
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.attention import error_of
from benchmarks.product_cases import OVERLAPPING, ConvolutionCase

WORKERS = 12
"""Processes that compile.

Source: a choice: a machine with one H100 has 16 cores.
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
def noted(row: dict[str, Any], lock: AbstractContextManager[Any]) -> Iterator[None]:
    """In the `with` block the row is told what is predicted, and what tuning measures, while it has the device."""
    from cuesta import tuning
    from cuesta.lowering.schedule import tune_kernels
    from cuesta.transforms.products import choose_products
    from cuesta.transforms.products.product_plans import around
    from cuesta.transforms.products.tiles import estimates

    plan_of, variants_of, timer = choose_products.plan_of, tune_kernels.variants_of, tuning.cuda_timer

    def planned(product: Any, machine: Any) -> Any:
        plan = plan_of(product, machine)
        if plan is not None and product.windows is not None:
            row["predicted"] = {"together": plan.together, "apart": plan.apart, "tile": plan.tile, "taken": plan.pays}
        return plan

    def variants(product: Any, machine: Any, rows: Any = None) -> Any:
        found = variants_of(product, machine, rows)
        row["variants"] = []
        for one in found:
            done = around(product, one.prologues, one.beside)
            times = estimates(product.sizes, product.batch, product.bits, machine, done)
            row["variants"].append((one.tile, one.prologues, next(us for us, tile in times if tile == one.tile)))
        return found

    def timed(functions: Sequence[Any], arguments: Sequence[Any]) -> list[float]:
        with lock:
            times = timer(functions, arguments)
        row.setdefault("tuned", []).append(times)
        return times

    with (
        patch.object(choose_products, "plan_of", planned),
        patch.object(tune_kernels, "variants_of", variants),
        patch.object(tuning, "cuda_timer", timed),
    ):
        yield


def compilers(row: dict[str, Any], lock: AbstractContextManager[Any], names: Sequence[str]) -> dict[str, Any]:
    """For `torch.compile`: what each side is given."""
    from cuesta.backend import cuesta

    def chosen(graph: Any, inputs: Any) -> Any:
        with noted(row, nullcontext()):
            return cuesta(graph, inputs)

    def off(graph: Any, inputs: Any) -> Any:
        with left_to_the_library():
            return cuesta(graph, inputs)

    def tuned(graph: Any, inputs: Any) -> Any:
        with noted(row, lock):
            return cuesta(graph, inputs, options={"max_autotune": True})

    every: dict[str, Mapping[str, Any]] = {
        "inductor": {},
        "cuesta": {"backend": chosen},
        "off": {"backend": off},
        "cuesta-max": {"backend": tuned},
        "inductor-max": {"mode": "max-autotune-no-cudagraphs"},
    }
    return {name: every[name] for name in names}


def prepared(
    case: ConvolutionCase, lock: AbstractContextManager[Any], names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """A row without times, and what is to be timed; all that compiles and agrees with float64 closely enough."""
    import cuesta
    from benchmarks.products import as_tuple

    torch._dynamo.reset()
    torch.set_float32_matmul_precision("high" if case.dtype is torch.float32 else "highest")
    inputs = case.inputs(*case.sizes, device="cuda")
    row: dict[str, Any] = {"case": case.name, "sizes": case.sizes, "off": {}, "errors": {}, "launches": {}, "us": {}}
    with torch.no_grad():
        truth = as_tuple(case.function(*(one.double() for one in inputs)))
    sides: dict[str, Callable[[], Any]] = {}
    for name, given in compilers(row, lock, names).items():
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
    return row, sides


def work(number: int, names: Sequence[str], cases: Sequence[int], lock: Any, ready: Any, rows: Any) -> None:
    """What a process does: compiles cases, waits for the others, and times when it is its turn."""
    from benchmarks.products import ratio_of, timed

    torch.set_num_threads(1)
    made = [prepared(OVERLAPPING[one], lock, names) for one in cases]
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    ready.wait()
    with lock, torch.no_grad():
        for row, sides in made:
            times = timed(sides)
            row["us"] = {name: statistics.median(one) for name, one in times.items()}
            row["ratios"] = {
                f"{a}/{b}": ratio_of(times[a], times[b])
                for a in times
                for b in ("cuesta", "cuesta-max")
                if b in times and a != b
            }
            rows.put(row)
        torch.cuda.empty_cache()
    rows.put(None)


def told(row: Mapping[str, Any]) -> str:
    """A row as a line, and one for each tile that was measured."""
    times = " ".join(f"{name} {one:.1f}" for name, one in row["us"].items())
    ratios = " ".join(f"{name} {one:.2f}" for name, one in row["ratios"].items())
    errors = " ".join(f"{one:.1e}" for one in row["off"].values())
    found = row.get("predicted", {})
    guess = f"{found['together']:.1f} against {found['apart']:.1f}" if found else "nothing"
    lines = [
        f"{row['case']:34} {'x'.join(map(str, row['sizes'])):18} {times} µs  {ratios}  [{errors}]  predicted {guess}"
        f"{' (taken)' if found.get('taken') else ''} {row['launches']} {row['errors'] or ''}"
    ]
    tuned = next((one for one in row.get("tuned", ()) if len(one) == len(row.get("variants", ())) + 1), None)
    if tuned is not None:
        lines.append(f"    {tuned[0]:8.1f} µs apart")
        for us, (tile, prologues, guessed) in zip(tuned[1:], row["variants"], strict=True):
            said = " ".join(f"{key}={one}" for key, one in tile.items() if key != "group")
            lines.append(f"    {us:8.1f} µs, predicted {guessed:.1f}: {said}{' with what is before' * prologues}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolved", description=__doc__)
    parser.add_argument("--only", default="", help="parts of names of cases, separated by commas")
    parser.add_argument("--sides", default="inductor,cuesta,off,cuesta-max", help="and inductor-max")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes that compile")
    parser.add_argument("--json", type=Path, help="a file for all that was measured")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device")
    start = perf_counter()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    wanted = [one for one in given.only.split(",") if one]
    cases = [number for number, case in enumerate(OVERLAPPING) if not wanted or any(one in case.name for one in wanted)]
    count = min(given.workers, len(cases))
    # Every compiler compiles in the process that asks: there are as many as cores.
    os.environ.update({"CUESTA_CACHE": "0", "CUESTA_COMPILE_WORKERS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"})
    context = multiprocessing.get_context("spawn")
    lock, ready, rows = context.Lock(), context.Barrier(count), context.Queue()
    processes = [
        context.Process(target=work, args=(k, given.sides.split(","), cases[k::count], lock, ready, rows))
        for k in range(count)
    ]
    for process in processes:
        process.start()
    found: list[Any] = []
    left = count
    while left:
        try:
            row = rows.get(timeout=5)
        except queue.Empty:
            if any(one.exitcode not in (None, 0) for one in processes):
                ready.abort()  # who waits for one that has died would wait for ever
            if not any(one.is_alive() for one in processes):
                break
            continue
        if row is None:
            left -= 1
            continue
        if not found:
            print(f"compiled in {perf_counter() - start:.0f} s", flush=True)
        found.append(row)
        print(told(row), flush=True)
        if given.json:
            given.json.write_text(json.dumps(found))
    for process in processes:
        process.join()
    for pair in sorted({pair for row in found for pair in row["ratios"]}):
        every = [row["ratios"][pair] for row in found if pair in row["ratios"]]
        mean = math.exp(statistics.fmean(map(math.log, every)))
        print(f"time of {pair}: geometric mean {mean:.3f} of {len(every)} rows, least {min(every):.2f}")
    print(f"{perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
