"""What a machine can do at most, measured once in a process: the roof of the roofline."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import torch

from cuesta.explain.model import Machine

COPIED: Final = {"cpu": 64 << 20, "cuda": 512 << 20}
"""Bytes of what is copied to find the speed of memory: more than caches hold."""
EDGE: Final = {"cpu": 1024, "cuda": 8192}
"""Of the square matrices that are multiplied to find the speed of arithmetic."""
FEWEST, MOST, SECONDS = 5, 50, 0.2
"""How often each is done: often enough, and for so long."""


@functools.lru_cache(maxsize=32)
def machine_at(device: str) -> Machine:
    """The machine behind a device, measured in half a second."""
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
    launch = _best(lambda: single.zero_(), place)
    how = f"memory by copying {COPIED[kind] >> 20} MB, arithmetic by products of matrices of {EDGE[kind]}{_busy()}"
    return Machine(device, _name(place), 2 * COPIED[kind] / copy, found[0][1], how, found, launch * 1e6)


def _products(place: torch.device, kind: str, dtype: torch.dtype) -> float:
    edge = EDGE[kind]
    a, b = (torch.ones(edge, edge, dtype=dtype, device=place) for _ in range(2))
    return 2 * edge**3 / _best(lambda: a @ b, place)


def _best(call: Callable[[], Any], place: torch.device) -> float:
    """The least seconds that a call takes, of many, after it was called once: others may use the machine, too."""
    call()
    best, repeated = float("inf"), 0
    deadline = perf_counter() + SECONDS
    while repeated < FEWEST or (repeated < MOST and perf_counter() < deadline):
        best = min(best, _seconds(call, place))
        repeated += 1
    return max(1e-9, best)


def _seconds(call: Callable[[], Any], place: torch.device) -> float:
    if place.type != "cuda":
        start = perf_counter()
        call()
        return perf_counter() - start
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    call()
    last.record()
    torch.cuda.synchronize(place)
    return first.elapsed_time(last) / 1e3


def _busy() -> str:
    """That others use the machine, if they do: then what is measured is worth little."""
    try:
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
    except OSError:
        return ""
    return f"; the machine is busy, with a load of {load:.1f} on {processors} processors" if load > processors else ""


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
