"""Standard input, watched: whether anybody reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

_READING: Final = frozenset({"buffer", "detach", "fileno", "read", "readline", "readlines", "reconfigure", "seek"})


class WatchedInput:
    """A stream in place of another, which tells when that is about to be read."""

    def __init__(self, stream: Any, tell: Callable[[], None]) -> None:
        self._stream, self._tell = stream, tell

    def __getattr__(self, name: str) -> Any:
        if name in _READING:
            self._tell()
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        self._tell()
        return iter(self._stream)

    def __next__(self) -> str:
        self._tell()
        return next(self._stream)


__all__ = ["WatchedInput"]
