"""Cuesta: a `torch.compile` backend that walks a model down one readable level at a time.

`torch.compile(model, backend="cuesta")` is all that most users need; torch finds the backend through its entry point.
Importing this package costs nothing: what needs torch is loaded when it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuesta import backend, build
    from cuesta.explain.explaining import explain
    from cuesta.extensions import extended
    from cuesta.packages.building import package
    from cuesta.packages.loading import load_package
    from cuesta.programs.capturing import lower
    from cuesta.programs.loading import load
    from cuesta.record import CompileRecord, Statistics, clear_records, records, statistics

__version__ = "0.1.0.dev0"
"""As pyproject.toml has it."""

__all__ = [
    "CompileRecord",
    "Statistics",
    "backend",
    "build",
    "clear_records",
    "explain",
    "extended",
    "load",
    "load_package",
    "lower",
    "package",
    "records",
    "statistics",
]

_PLACES = {
    "load": "cuesta.programs.loading",
    "lower": "cuesta.programs.capturing",
    "extended": "cuesta.extensions",
    "package": "cuesta.packages.building",
    "load_package": "cuesta.packages.loading",
}
"""Where what is loaded on demand is, but for what `cuesta.record` has."""


def __getattr__(name: str) -> Any:
    if name in ("backend", "build", "explain"):  # modules; some can be called
        return importlib.import_module(f"cuesta.{name}")
    if name in __all__:
        return getattr(importlib.import_module(_PLACES.get(name, "cuesta.record")), name)
    raise AttributeError(f"module 'cuesta' has no attribute '{name}'")
