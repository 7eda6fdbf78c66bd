"""What eager runs of a compiled graph, and what it costs: named once, with `CUESTA_LOG=fallbacks`.

A graph whose fallbacks are watched is measured in a few of its first calls: how long each took, of the whole call. From
then on it runs as ever. On a device, the measured calls wait for it before and after each fallback.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from cuesta.dialects.core.structs import struct
from cuesta.logs import FALLBACKS, say, topics

if TYPE_CHECKING:
    from cuesta.targets.host.runtime import Wrapper

LEAST_SHARE: Final = 0.01
"""Of a call: what costs less is not named. Source: a definition."""
WARM_CALLS: Final = 2
"""Calls that are not measured: what a library does once. Source: a definition."""
MEASURED_CALLS: Final = 5
"""Source: a definition."""


@struct
class Fallback:
    """An overload that eager runs. Units: ms, of all its calls in one run of the graph."""

    overload: str
    kind: str
    """`inference`, `forward` or `backward`: the graph that it is in."""
    milliseconds: float
    whole: float
    """What the run of the graph takes."""

    @property
    def share(self) -> float:
        """Its part of the graph's time."""
        return self.milliseconds / self.whole if self.whole else 0.0

    def __str__(self) -> str:
        times = f"{self.milliseconds:.3g} of {self.whole:.3g} ms"
        return f"{self.overload} runs in eager: {self.share:.0%} of a call ({times}, {self.kind})"


Tell = Callable[[Fallback], None]

_told: Final = set[str]()
"""What has been named by `CUESTA_LOG`."""
_listeners: Final[list[Tell]] = []


@contextmanager
def watching(tell: Tell) -> Iterator[None]:
    """Graphs that are compiled in a `with` block tell of each fallback that costs more than `LEAST_SHARE` of a call."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.remove(tell)


def watched(function: Wrapper, overloads: Mapping[str, str], kind: str) -> Wrapper:
    """A graph's function, which tells of its fallbacks if somebody wants to know; `overloads` by the function's names.

    Errors: OptionError.
    """
    tell = [*_listeners, *([_say_once] if FALLBACKS in topics() else [])]
    names = {name: overload for name, overload in overloads.items() if _is_fallback(overload)} if tell else {}
    return _Watch(function, names, kind, tell) if names else function


def _is_fallback(overload: str) -> bool:
    from cuesta.lowering.aten.library_calls import is_library_call
    from cuesta.targets.host.eager_text import OPERATOR

    name = overload.removeprefix(OPERATOR)
    helps = name.partition(".")[0] in ("operator", "builtins", "math", "torch") or name == "aten.copy_.default"
    return not helps and not is_library_call(name)


def _say_once(found: Fallback) -> None:
    if found.overload not in _told:
        _told.add(found.overload)
        say(f'{found}; options={{"trace": True}} says why')


class _Watch:
    """The first calls of a graph's function, with a clock at each fallback."""

    def __init__(self, function: Any, names: Mapping[str, str], kind: str, tell: list[Tell]) -> None:
        self.function, self.names, self.kind, self.tell = function, names, kind, tell
        self.calls = 0
        self.whole = 0.0
        self.seconds = defaultdict[str, float](float)
        self.plain = {name: function.__globals__[name] for name in names}

    def __call__(self, args: list[Any]) -> Any:
        """The function's result."""
        if self.calls >= WARM_CALLS + MEASURED_CALLS:
            return self.function(args)
        if self.calls == WARM_CALLS:
            self.function.__globals__.update({name: _Clock(self, name) for name in self.names})
        _wait()
        start = perf_counter()
        result = self.function(args)
        _wait()
        if self.calls >= WARM_CALLS:
            self.whole += perf_counter() - start
        self.calls += 1
        if self.calls == WARM_CALLS + MEASURED_CALLS:
            self.function.__globals__.update(self.plain)
            self.report()
        return result

    def report(self) -> None:
        """Tells of what costs enough, the most expensive first."""
        runs = MEASURED_CALLS / 1e3
        for overload, spent in sorted(self.seconds.items(), key=lambda item: -item[1]):
            found = Fallback(overload, self.kind, spent / runs, self.whole / runs)
            if found.share > LEAST_SHARE:
                for tell in self.tell:
                    tell(found)


class _Clock:
    """A fallback's function, with a clock; for whoever looks closer it is that function."""

    def __init__(self, watch: _Watch, name: str) -> None:
        self.watch, self.plain, self.overload = watch, watch.plain[name], watch.names[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _wait()
        start = perf_counter()
        result = self.plain(*args, **kwargs)
        _wait()
        self.watch.seconds[self.overload] += perf_counter() - start
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


def _wait() -> None:
    """Until the devices have done what they were told; not while that is being captured."""
    import torch

    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
