"""Looks for kernels that depend on dimensions of one element: the same problem with and without such dimensions.

    python -m tests.fuzz.ones --seeds 0-400

A tensor of 1048575 by 32 and one of 1048575 by 32 by 1 by 1 lie in memory alike, and what reduces or scans an axis of
one is that of the other. A pattern that looks for an index and finds the constant 0 of a dimension of one element does
not fire, though, and nobody sees why: running sums from the end of such a tensor took 330 us on an H200, 73 without
those dimensions. No device is needed: kernels are compared as texts.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.on_cuda import on_cuda
from benchmarks.random_nests import traced
from benchmarks.random_programs import draw
from cuesta.lowering.capture.fx_to_aten import import_graph
from tests.support.triton_kernels import texts_of

ALONG_AXES = (
    *("sum", "mean", "amax", "amin", "sum_kept", "mean_kept", "amin_kept", "norm", "variance", "logsumexp"),
    *("argmax", "argmin", "cumsum", "cumsum_back", "cummax", "softmax", "log_softmax", "l1_norm", "l2_norm"),
    *("min_vector", "max_vector", "gelu", "silu", "scale"),
)
"""Steps whose numbers, if they have any, are axes."""
LARGEST = 3000
"""Sizes of a problem at most: parts of reductions are chosen, and nothing takes long."""

Kernel = tuple[int, ...]
"""Warps; loads, stores and loops of a text."""


@dataclass(frozen=True)
class Problem:
    """A step along some axes of a tensor, no dimension of which has one element."""

    dtype: str
    sizes: tuple[int, ...]
    step: str
    axes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {'x'.join(map(str, self.sizes))} | {' '.join([self.step, *map(str, self.axes)])}"

    def with_one(self, position: int) -> Problem:
        """The same with a dimension of one element before that of this number."""
        sizes = (*self.sizes[:position], 1, *self.sizes[position:])
        return Problem(self.dtype, sizes, self.step, tuple(axis + (axis >= position) for axis in self.axes))

    def variants(self) -> Iterator[Problem]:
        """With one more dimension in each place, and with two at the end."""
        rank = len(self.sizes)
        yield from (self.with_one(position) for position in range(rank + 1))
        yield self.with_one(rank).with_one(rank)


def drawn(seed: int) -> Problem | None:
    """The problem of a seed; None where the step that is drawn says something else than axes."""
    matched = re.fullmatch(r"(\S+) (\S+)(?: last)?(?: train)? \| (\w+)((?: \d+)*)", str(draw("operator", seed)))
    if matched is None or matched[3] not in ALONG_AXES:
        return None
    sizes = tuple(min(int(size), LARGEST) for size in matched[2].split("x") if size != "1")[:3]
    if not sizes:
        return None
    return Problem(
        matched[1], sizes, matched[3], tuple(sorted({min(int(axis), len(sizes) - 1) for axis in matched[4].split()}))
    )


def kernels(problem: Problem) -> list[Kernel]:
    """What is made of a problem for a GPU."""
    module = on_cuda(import_graph(traced(str(problem), "cpu")).module)
    return [
        (text.warps, *(text.source.count(word) for word in ("tl.load(", "tl.store(", " for ")))
        for text in texts_of(module)
    ]


def complaints(problem: Problem) -> list[str]:
    """The variants of which other kernels are made."""
    expected = kernels(problem)
    found = [(variant, kernels(variant)) for variant in problem.variants()]
    return [f"{problem}: {expected}; {variant}: {made}" for variant, made in found if made != expected]


def main(arguments: Sequence[str] | None = None) -> None:
    """Searches. Ends with status 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.ones", description=__doc__)
    parser.add_argument("--seeds", default="0-400")
    first, _, last = parser.parse_args(arguments).seeds.partition("-")
    warnings.simplefilter("ignore")
    seeds = range(int(first), int(last or first) + 1)
    problems = [problem for problem in map(drawn, seeds) if problem is not None]
    found = [told for problem in problems for told in complaints(problem)]
    print("\n".join([*found, f"{len(problems)} problems, {len(found)} variants with other kernels"]))
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
