"""What a machine can do at most, measured once in a process: the roof of the roofline."""

from __future__ import annotations

import functools
import platform
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import torch

from cuesta.explain.model import Machine

COPIED: Final = {"cpu": 64 << 20, "cuda": 512 << 20}
"""Bytes of what is copied to find the speed of memory: more than caches hold."""
EDGE: Final = {"cpu": 1024, "cuda": 8192}
"""Of the square matrices that are multiplied to find the speed of arithmetic."""
REPEATED: Final = 5


@functools.lru_cache(maxsize=32)
def machine_at(device: str) -> Machine:
    """The machine behind a device, measured: a quarter of a second on a CPU, some milliseconds on a GPU."""
    place = torch.device(device)
    kind = place.type
    if kind not in COPIED:
        return Machine(device, kind, None, None, f"no probe is written for devices of the type {kind}")
    try:
        if kind == "cuda":
            torch.cuda.get_device_properties(place)
        with torch.no_grad():
            return _probed(device, place, kind)
    except (RuntimeError, AssertionError) as error:  # out of memory, or a device that is gone
        return Machine(device, _name(place), None, None, f"it could not be measured: {str(error).splitlines()[0]}")


def _probed(device: str, place: torch.device, kind: str) -> Machine:
    elements = COPIED[kind] // 4
    source, target = torch.ones(elements, device=place), torch.ones(elements, device=place)
    copy = _best(lambda: target.copy_(source), place)
    rates = [("f32", torch.float32)]
    if kind == "cuda":
        rates += [("bf16", torch.bfloat16), ("f16", torch.float16)]
    elif getattr(torch.cpu, "_is_amx_tile_supported", bool)():  # without, products of bf16 are no faster
        rates += [("bf16", torch.bfloat16)]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        found = tuple((name, _products(place, kind, dtype)) for name, dtype in rates)
    finally:
        torch.set_float32_matmul_precision(before)
    single = torch.zeros(1, device=place)
    launch = _best(lambda: single.zero_(), place, repeated=50)
    how = (
        f"memory by copying {COPIED[kind] >> 20} MB, arithmetic by products of matrices of {EDGE[kind]}: the best of "
        f"{REPEATED}"
    )
    return Machine(device, _name(place), 2 * COPIED[kind] / copy, found[0][1], how, found, launch * 1e6)


def _products(place: torch.device, kind: str, dtype: torch.dtype) -> float:
    edge = EDGE[kind]
    a, b = (torch.ones(edge, edge, dtype=dtype, device=place) for _ in range(2))
    return 2 * edge**3 / _best(lambda: a @ b, place)


def _best(call: Callable[[], Any], place: torch.device, repeated: int = REPEATED) -> float:
    """The least seconds that a call takes, after it was called once."""
    call()
    times: list[float] = []
    for _ in range(repeated):
        if place.type == "cuda":
            first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            first.record()
            call()
            last.record()
            torch.cuda.synchronize(place)
            times.append(first.elapsed_time(last) / 1e3)
        else:
            start = perf_counter()
            call()
            times.append(perf_counter() - start)
    return max(1e-9, min(times) if repeated == REPEATED else statistics.median(times))


def _name(place: torch.device) -> str:
    if place.type == "cuda":
        try:
            return torch.cuda.get_device_name(place)
        except (RuntimeError, AssertionError):
            return "a CUDA device that is not there"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            line = next(line for line in stream if line.startswith("model name"))
        return f"{line.partition(':')[2].strip()}, {torch.get_num_threads()} threads"
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
