"""CUDA devices by number: a program that was compiled for `cuda:1`, as one for `cuda:3`.

The processes of a job run equal graphs, each on a device of its own. So a graph's name in the cache counts the devices
in order of appearance (`graph_key.py`), an entry says which ones those were, and who finds it has the text of the
wrapper, and the launches, name its own. Machine code names no device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from cuesta.caching.graph_key import graph_text
from cuesta.targets.program import Program

if TYPE_CHECKING:
    from torch.fx import GraphModule

_NUMBERS: Final = re.compile(r"(?<=\bempty_cuda_)\d+(?=\()|(?<=\bcurrent_stream\()\d+(?=\))|(?<='cuda:)\d+(?=')")
"""Where the text of a wrapper has the number of a device: in what allocates, in what finds a stream, in a name."""


def name_of_graph(gm: GraphModule) -> tuple[str, tuple[int, ...]]:
    """The text of a graph for its key, and the numbers of the CUDA devices that it counts; none where these stand in
    the text: if the devices here are not alike, or a string in the graph may be about one.

    Errors: UnkeyableError.
    """
    numbers: dict[int, int] = {}
    text = graph_text(gm, numbers)
    if numbers and ("cuda:" in text or not _are_alike()):
        return graph_text(gm), ()
    return text, tuple(numbers)


def _are_alike() -> bool:
    """Whether machine code for one CUDA device, and what was measured there, is right for all."""
    if not torch.cuda.is_available():
        return True
    found: list[Any] = [cast("Any", torch.cuda).get_device_properties(k) for k in range(torch.cuda.device_count())]
    facts = [(one.name, one.major, one.minor, one.multi_processor_count, one.total_memory) for one in found]
    return len(set(facts)) <= 1


def on_devices(program: Program, before: Sequence[int], now: Sequence[int]) -> Program:
    """The program with the CUDA devices `now` in the places of those `before`."""
    if tuple(before) == tuple(now):
        return program
    numbers: Mapping[int, int] = dict(zip(before, now, strict=True))
    return replace(
        program,
        source=_NUMBERS.sub(lambda found: str(numbers.get(int(found[0]), found[0])), program.source),
        device_kernels=tuple(
            replace(one, device=numbers.get(one.device, one.device)) for one in program.device_kernels
        ),
        device_runs=tuple(replace(one, device=numbers.get(one.device, one.device)) for one in program.device_runs),
    )


__all__ = ["name_of_graph", "on_devices"]
