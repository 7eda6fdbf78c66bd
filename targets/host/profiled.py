"""A wrapper while a profiler looks on: its calls of kernels are ranges that name the kernels, and lines of the model.

A wrapper asks at each call whether PyTorch's profiler is on, which takes as long as reading two variables. Only then
its twin is made: the same code, whose runs of kernels are wrapped in `torch.profiler.record_function`. What opens
ranges for NVTX (`torch.autograd.profiler.emit_nvtx`) turns the same profiler on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Final

from cuesta.targets.program import Label

PROFILER, TWIN = "profiler", "profiled"
"""What a wrapper calls PyTorch's module, and the function that runs instead of it."""
GUARD: Final = f"if {PROFILER}._is_profiler_enabled: return {TWIN}(args)"
"""The first line of a wrapper."""
MOST_LINES: Final = 3
"""Of the model, that a range names. Source: a definition; a trace viewer shows some sixty characters."""


def range_name(label: Label) -> str:
    """`cuesta: tanh_7 (activations.py:66)`."""
    lines = [f"{os.path.basename(file)}:{line}" for file, _, line in (one.rpartition(":") for one in label.lines)]
    shown = list(dict.fromkeys(lines))
    said = ", ".join(shown[:MOST_LINES]) + (", …" if len(shown) > MOST_LINES else "")
    return f"cuesta: {', '.join(label.kernels)}" + (f" ({said})" if said else "")


class Profiled:
    """Calls the twin of a wrapper, which is made at the first call. Boxed, as the wrapper is."""

    def __init__(self, labels: Sequence[Label]) -> None:
        self.labels = labels
        self.wrapper: FunctionType | None = None
        self.twin: FunctionType | None = None

    def __call__(self, args: list[Any]) -> Any:
        """What the wrapper gives."""
        from torch.profiler import record_function

        if self.twin is None:
            assert self.wrapper is not None
            self.twin = _twin(self.wrapper, self.labels)
        with record_function("cuesta: graph"):
            return self.twin(args)


def _twin(wrapper: FunctionType, labels: Sequence[Label]) -> FunctionType:
    plain = wrapper.__globals__
    namespace = dict(plain)
    # Its own first line must not send it here again.
    namespace[PROFILER] = SimpleNamespace(_is_profiler_enabled=False)
    for label in labels:
        if label.function in plain:
            namespace[label.function] = _ranged(plain[label.function], range_name(label))
    for name, value in plain.items():  # the functions of the text: they call each other
        if isinstance(value, FunctionType) and value.__globals__ is plain:
            namespace[name] = FunctionType(value.__code__, namespace, name)
    return FunctionType(wrapper.__code__, namespace, wrapper.__name__)


def _ranged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    from torch.profiler import record_function

    def call(*arguments: Any) -> Any:
        with record_function(name):
            return function(*arguments)

    return call
