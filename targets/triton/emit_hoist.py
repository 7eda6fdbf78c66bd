"""What in the body of a `kernel.fold` does not change from point to point is written before the loop.

    for c in range(0, 4):
        q = tl.load(q + …)
        s = tl.dot(q, tl.load(k + c * …))
    →
    q = tl.load(q + …)
    for c in range(0, 4):
        …

Exact: expressions have no effects. Where the loop may have no point, what is loaded before it is masked by that: then
nothing may be there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_LOAD = "tl.load("
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!=)")


@dataclass(frozen=True, slots=True)
class Loop:
    """A fold that is being written: how many blocks of text are around its body, and the test whether it has a point;
    empty where it always has.
    """

    depth: int
    test: str


@dataclass
class Hoisting:
    """Where the names of a text are defined, and so how far out an expression of them can stand."""

    homes: dict[str, int] = field(default_factory=dict[str, int])
    """For every name, the block that it is defined in; arguments of the function are not here."""
    loops: list[Loop] = field(default_factory=list[Loop])

    def depth(self, text: str, at: int) -> int:
        """The block that an expression which is needed in block `at` is to be defined in."""
        if not self.loops:
            return at
        home = max((self.homes.get(name, 0) for name in _NAME.findall(text)), default=0)
        for loop in reversed(self.loops):
            # A loop in between may have no point: what it loads stays there.
            if home < loop.depth <= at and (loop.depth == at or _LOAD not in text):
                at = loop.depth - 1
        return at

    def guards(self, text: str, at: int) -> list[str]:
        """The tests that must be true where something that is needed in block `at` is loaded."""
        return [loop.test for loop in self._crossed(text, at) if loop.test]

    def places(self, text: str, at: int) -> tuple[int, int]:
        """The block that an expression which is needed in block `at` is to be defined in, and the one in which it has
        this value: what is masked by whether a loop has a point is known in that loop only.
        """
        depth = self.depth(text, at)
        guarded = [loop.depth for loop in self._crossed(text, at) if loop.test and _LOAD in text]
        return depth, max(guarded, default=depth)

    def _crossed(self, text: str, at: int) -> list[Loop]:
        to = self.depth(text, at)
        return [loop for loop in self.loops if to < loop.depth <= at]

    def anonymous(self, text: str, depth: int, *names: str) -> str:
        """A text with numbers for `names`, and for those that are defined further in than block `depth`."""
        numbers: dict[str, str] = {}

        def number(found: re.Match[str]) -> str:
            name = found.group()
            if name not in names and self.homes.get(name, 0) <= depth:
                return name
            return numbers.setdefault(name, f"%{len(numbers)}")

        return _NAME.sub(number, text)


__all__ = ["Hoisting", "Loop"]
