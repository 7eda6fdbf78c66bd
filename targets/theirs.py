"""A target of an extension's, as we call it: what goes wrong in it says whose it is, and it is to return in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuesta.dialects.core.blame import accuse, blame, blame_late
from cuesta.targets.program import BoundSite, CudaError
from cuesta.targets.target import Build, Code, Run, Target

if TYPE_CHECKING:
    from cuesta.dialects.kernel import FuncOp


def as_ours(target: Target) -> Target:
    """The target of an extension in force, as one that can be asked like ours; equal for the same target.

    Errors: CuestaError from its methods, for what they raise (but for a CudaError) or give that is of another kind.
    """
    return _TheirTarget(target)


class _TheirTarget(Target):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.name, self.devices, self.traits, self.names = target.name, target.devices, target.traits, target.names
        self.takes_tensors, self.adds_offsets = target.takes_tensors, target.adds_offsets

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TheirTarget) and other.target is self.target

    def __hash__(self) -> int:
        return id(self.target)

    def obstacle(self, device: str) -> str | None:
        return self._ask("obstacle", str | None, device)

    def key_lines(self) -> Sequence[str]:
        return self._ask("key_lines", Sequence)

    def facts(self, device: str) -> Mapping[str, int | float]:
        return self._ask("facts", Mapping, device)

    def prepare(self, ops: int) -> None:
        self._ask("prepare", object, ops)

    def start(self, kernels: Mapping[str, FuncOp], wanted: Sequence[tuple[str, str]]) -> Build:
        return _TheirBuild(self.target, self._ask("start", Build, kernels, wanted))

    def call(self, run: str, arguments: Sequence[str]) -> str:
        return self._ask("call", str, run, arguments)

    def queue(self, device: str) -> str | None:
        return self._ask("queue", str | None, device)

    def stand_in(self, kernel: FuncOp) -> Callable[..., None]:
        return self._ask("stand_in", Callable, kernel)

    def _ask(self, method: str, kind: Any, *arguments: Any) -> Any:
        return _asked(self.target, self.target, method, kind, *arguments)


class _TheirBuild(Build):
    def __init__(self, target: Target, build: Build) -> None:
        self.target = target
        self.build = build

    def texts(self) -> Mapping[str, str]:
        return self._ask("texts", Mapping)

    def text_of(self, kernel: str) -> tuple[str, str] | None:
        return self._ask("text_of", tuple | None, kernel)

    def begin(self) -> None:
        self._ask("begin", object)

    def native(self, runs: Sequence[Run], sites: list[BoundSite]) -> str:
        return self._ask("native", str, runs, sites)

    def finish(self) -> Mapping[str, Exception]:
        return self._ask("finish", Mapping)

    def code(self, runs: Sequence[Run], sites: list[BoundSite]) -> Code:
        return self._ask("code", Code, runs, sites)

    def _ask(self, method: str, kind: Any, *arguments: Any) -> Any:
        return _asked(self.target, self.build, method, kind, *arguments)


def _asked(target: Target, of: Target | Build, method: str, kind: Any, *arguments: Any) -> Any:
    """What a method gives. Errors: CuestaError, CudaError."""
    with blame_late(), blame(target, passing=(CudaError,)):
        given = getattr(of, method)(*arguments)
    if not isinstance(given, kind):
        accuse(target, f"gives {given!r} for {type(of).__name__}.{method}()")
    return given


__all__ = ["as_ours"]
