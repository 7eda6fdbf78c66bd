"""What a result depends on besides the program: versions of what is installed, and what the machine can do."""

from __future__ import annotations

import importlib.metadata
import platform

PACKAGES = ("torch", "triton", "llvmlite", "xdsl", "numpy", "sympy")


def versions() -> dict[str, str]:
    """The versions of Cuesta, Python and the packages below it, the processor and, where there is one, the GPU."""
    from cuesta import __version__

    found = {"cuesta": __version__, "python": platform.python_version(), "system": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found | _machine()


def _machine() -> dict[str, str]:
    import torch

    from cuesta.targets.cpu.features import host_features

    features = host_features()
    found = {"processor": f"{features.triple} {features.cpu_name}, {features.f32_lanes} lanes of f32"}
    if torch.cuda.is_available():
        found["gpu"] = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return found


__all__ = ["versions"]
