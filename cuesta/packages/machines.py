"""Which machines a package is for: the processor and the devices that its machine code was made for, and torch."""

from __future__ import annotations

import functools
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cuesta.packages.graph import PackageError

_USED = (
    "abm", "amx", "avx", "bmi", "cmov", "cx", "f16c", "fma", "gfni", "lzcnt", "movbe", "popcnt", "sse", "ssse",
    "vpclmul",
)  # fmt: skip
"""How the names of those features of a processor begin that code is made of when nobody asks for them by name."""


def machine_of(devices: Sequence[str]) -> dict[str, Any]:
    """What a package says of this machine, which it is made on and for."""
    from cuesta.targets.cpu.features import host_features

    # LLVM has names of its own for a few: nothing can be said of these elsewhere.
    features = {one.replace("-", "_").replace(".", "_") for one in host_features().enabled}
    return {
        "torch": torch.__version__.partition("+")[0],
        "system": f"{sys.platform} {platform.machine()}",
        "processor": sorted(one for one in features & _processor_flags() if one.startswith(_USED)),
        "devices": {device: _device(device) for device in devices},
    }


def check_machine(machine: Mapping[str, Any], device: str, path: object) -> None:
    """That programs for a device run here. Errors: PackageError."""
    here = torch.__version__.partition("+")[0]
    if machine["torch"] != here:
        raise PackageError(f"{path} was made with torch {machine['torch']}, and this is torch {here}: make it again")
    system = f"{sys.platform} {platform.machine()}"
    if machine["system"] != system:
        raise PackageError(f"{path} is for {machine['system']}, and this is {system}")
    if lacking := [flag for flag in machine["processor"] if flag not in _processor_flags()]:
        raise PackageError(f"{path} was made for a processor with {', '.join(lacking)}, which this one does not have")
    kind = torch.device(device).type
    if kind == "cpu":
        return
    if not torch.get_device_module(kind).is_available():
        raise PackageError(f"{path} is for a device {device}, and there is none here")
    made, found = machine["devices"][device], _device(device)
    if made != found:
        raise PackageError(f"{path} was made for {device} with {made}, and here it is one with {found}")


def _device(device: str) -> str:
    """What machine code for a device depends on."""
    place = torch.device(device)
    if place.type != "cuda":
        return place.type
    index = place.index or 0
    if index >= torch.cuda.device_count():
        return "nothing there"
    major, minor = torch.cuda.get_device_capability(index)
    return f"compute capability {major}.{minor}"


@functools.cache
def _processor_flags() -> frozenset[str]:
    """What the processor can do, by the names that the system has for it; empty where it does not say."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()
