"""Calls made while something is compiled do not cost a system call each, however deep the stack is."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable

import pytest
import torch

from cuesta.backend import Compilers
from cuesta.room_for_frames import with_room

CALLS = 400
DEPTHS = range(200)


def called() -> int:
    """A frame that takes more room than one of `deeper`: at some depth it is the first that does not fit."""
    return max(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def pages_of_calls() -> int:
    """How many pages the system gives while functions are called, one at a time."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        called()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def deeper(depth: int, function: Callable[[], int]) -> int:
    """The function, called so many calls deeper."""
    return function() if depth == 0 else deeper(depth - 1, function)


@pytest.mark.skipif(not hasattr(resource, "RUSAGE_THREAD"), reason="the system counts no pages of a thread")
def test_calls_with_room_get_no_memory_from_the_system() -> None:
    """Without it there is a depth at which each of the calls does."""
    assert max(deeper(depth, pages_of_calls) for depth in DEPTHS) >= CALLS
    roomy = with_room(deeper)
    assert max(roomy(depth, pages_of_calls) for depth in DEPTHS) < CALLS


def test_what_is_compiled_is_compiled_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass, far down in Dynamo and AOTAutograd, and the backward pass, in autograd's calls."""
    rooms: list[int] = []
    compile = Compilers.compile

    def looking(self: Compilers, *arguments: object) -> object:
        frame = sys._getframe()
        largest = 0
        while frame is not None:
            largest, frame = max(largest, frame.f_code.co_stacksize), frame.f_back
        rooms.append(largest)
        return compile(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Compilers, "compile", looking)
    x = torch.randn(5, requires_grad=True)
    torch.compile(lambda x: (x.sin() * 3.25).sum(), backend="cuesta")(x).backward()
    assert len(rooms) == 2
    assert min(rooms) >= 2**16
