"""Looks for a GPU on which a schedule is wrong: random problems on random machines, run by Triton's interpreter.

    python -m tests.fuzz.machines --programs 500 --seed 1 --workers 2

What a schedule does follows from a machine's facts: how many processors there are, how large a cache is, what a launch
costs. On a machine with two processors a tensor of a hundred kilobytes is split, met over, walked and tiled as one of a
hundred megabytes is on an H200, and the interpreter is done with it in a second. The problems are those that the search
for cliffs draws (`benchmarks/random_programs.py`), only smaller. The measure is float64.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from types import FrameType
from typing import Any
from unittest import mock

import torch
from xdsl.dialects.builtin import ModuleOp

import cuesta.compiler
from benchmarks import random_programs
from benchmarks.case import Prepared
from cuesta.dialects.aten import AtenOp
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import ATTRIBUTE, Machine, MachineAttr
from cuesta.programs.inputs_of import copies_of
from cuesta.targets.reference import run as run_reference
from cuesta.targets.reference.program import run_and_write
from cuesta.testing import compare
from tests.support.triton_interpreter import ask, on_cuda, parse, restart, to_host

EXTENT = random_programs.Extent(2**8, 2**19, 2**21, 10**8)
"""Of the problems: what the interpreter does in seconds."""
FACTS: dict[str, tuple[int | float, ...]] = {
    "processors": (1, 2, 3, 4, 8, 16, 132),
    "cache": (1 << 10, 1 << 14, 1 << 18, 40 << 20),
    "launch": (16, 256, 4096, 63550),
    "waiting": (0.01, 0.1),
    "work": (0.01, 0.12, 0.5),
    "warps": (4, 8, 32),
    "shared": (32 << 10, 227 << 10),
}
"""What a random machine is made of."""
KINDS = ("operator", "operator", "odd", "neighbourhood")
HANG = 120
"""Seconds for one problem."""
FACTOR, ULPS = 4.0, 32.0
"""How much further from float64 than the program as it is meant a result may be, and how far in any case: sums of tens
of thousands of numbers, in other orders.
"""


@dataclass(frozen=True)
class Drawn:
    """A problem, and the facts of a machine."""

    line: str
    facts: dict[str, int | float]


@dataclass(frozen=True)
class Judged:
    """What became of a seed: `right`, `wrong`, `raises`, `hangs`, or `refused`, by eager; and what is to be said."""

    seed: int
    verdict: str
    drawn: Drawn
    what: str = ""


def drawn(seed: int) -> Drawn:
    """The problem and the machine of a seed."""
    rng = random.Random(seed)
    facts = {name: rng.choice(values) for name, values in FACTS.items()}
    with mock.patch.dict(random_programs.EXTENTS, cuda=EXTENT):
        return Drawn(str(random_programs.draw(rng.choice(KINDS), seed)), facts)


def complaints(one: Drawn) -> list[str] | None:
    """What is wrong with the results of a problem's graphs, each on the inputs that it gets; None where eager refuses
    the problem. Errors: what a compiler or the interpreter raises.
    """
    prepared = Prepared(random_programs.Program.parse(one.line).case("cpu"))
    found: list[str] = []

    def compile_module(module: ModuleOp, *rest: Any) -> Any:
        module = module.clone()
        if asks_for_equality(module):
            return lambda arguments: list(run_reference(module, _taken(arguments)))
        moved = on_cuda(module)
        moved.attributes[ATTRIBUTE] = MachineAttr(Machine.of(one.facts))
        host = print_text(to_host(moved))

        def call(arguments: list[Any]) -> list[Any]:
            taken = _taken(arguments)
            found.extend(_complaints(module, host, taken))
            return list(run_reference(module, taken))

        return call

    torch._dynamo.reset()
    with torch.set_grad_enabled(prepared.case.training), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prepared.step(prepared.function)()
        except (RuntimeError, NotImplementedError):
            return None
        with mock.patch.object(cuesta.compiler, "compile_module", compile_module):
            compiled = torch.compile(prepared.function, backend="cuesta", dynamic=False, options={"cache": False})
            prepared.step(compiled)()
    return found


def asks_for_equality(module: ModuleOp) -> bool:
    """Whether a graph compares floats for equality, as gradients of extremes do: with numbers of another graph, which
    another interpreter has computed, a digit apart.
    """
    return any(
        isinstance(op, AtenOp) and op.overload in ("aten.eq.Tensor", "aten.ne.Tensor") and op.results[0].uses
        for op in module.walk()
    )


def _taken(arguments: list[Any]) -> list[Any]:
    taken = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
    arguments.clear()
    return taken


def _complaints(module: ModuleOp, host: str, inputs: Sequence[Any]) -> list[str]:
    expected = _joined(run_and_write(module, copies_of(inputs)))
    truth = _joined(run_and_write(module, copies_of(inputs), precise=True))
    actual = _joined(ask("run_and_write", host, copies_of(inputs)))
    compared = (
        compare(f"result {position}", *three, factor=FACTOR, ulps=ULPS)
        for position, three in enumerate(zip(actual, expected, truth, strict=True))
    )
    return [str(one) for one in compared if not one.passes]


def _joined(effects: tuple[list[Any], list[Any]]) -> list[Any]:
    """Results, and what inputs have become. How what is saved for a gradient lies depends on the machine."""
    return [value.contiguous() if isinstance(value, torch.Tensor) else value for each in effects for value in each]


def judged(seed: int) -> Judged:
    """What becomes of a seed; raises nothing."""
    one = drawn(seed)
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(HANG)
    try:
        found = complaints(one)
    except TimeoutError:
        restart()
        return Judged(seed, "hangs", one)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with the seed
        return Judged(seed, "raises", one, f"{type(error).__name__}: {error}"[-1500:])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if found is None:
        return Judged(seed, "refused", one)
    return Judged(seed, "wrong" if found else "right", one, "\n".join(found[:3]))


def _too_long(_: int, frame: FrameType | None) -> None:
    raise TimeoutError


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is found; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the next ones follow")
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.seed, chosen.seed + chosen.programs)
    verdicts: Counter[str] = Counter()
    start = time.monotonic()
    os.environ["OMP_NUM_THREADS"] = "1"
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(chosen.workers, mp_context=spawn) as workers:
        for one in workers.map(judged, seeds):
            verdicts[one.verdict] += 1
            if one.verdict not in ("right", "refused"):
                print(f"{one.seed}: {one.verdict}\n  {one.drawn.line}\n  {one.drawn.facts}\n  {one.what}", flush=True)
    told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    print(f"{len(seeds)} programs in {time.monotonic() - start:.0f} s: {told}")
    return 0 if verdicts.keys() <= {"right", "refused"} else 1


__all__ = ["Drawn", "Judged", "ModuleOp", "complaints", "drawn", "judged", "main", "parse", "print_text", "to_host"]


if __name__ == "__main__":
    sys.exit(main())
