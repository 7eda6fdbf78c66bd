"""What an extension's move of fusion is given: a nest, one that it reads, and our own moves to make or to leave.

def recompute_exponentials(pair: Pair) -> NestOp | str | None:
    if has_exponential(pair.producer):
        return pair.inline()
    return None  # nothing to say: ours decide
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from cuesta.dialects import loops
from cuesta.dialects.core.structs import struct


@struct(frozen=False)
class Pair:
    """Two nests of which the consumer reads what the producer stores."""

    producer: loops.NestOp
    consumer: loops.NestOp
    loads: tuple[loops.LoadOp, ...]
    """Where the consumer reads one of the producer's results."""
    moves: tuple[Callable[[], loops.NestOp | str], Callable[[], loops.NestOp | str]]
    made: loops.NestOp | None = None
    """The nest that a move of ours has made."""

    def inline(self) -> loops.NestOp | str:
        """Computes what is read again at every read, whether or not that pays: gives the nest, or why it cannot be."""
        return self._make(self.moves[0])

    def merge(self) -> loops.NestOp | str:
        """Makes one nest of the two, in which each point stores what it stored before, whether or not that pays: gives
        the nest, or why it cannot be.
        """
        return self._make(self.moves[1])

    def _make(self, move: Callable[[], loops.NestOp | str]) -> loops.NestOp | str:
        if self.made is not None:
            return "a move was made already"
        outcome = move()
        if isinstance(outcome, loops.NestOp):
            self.made = outcome
        return outcome


Move: TypeAlias = Callable[[Pair], "loops.NestOp | str | None"]
"""Makes one nest of a pair and gives it; or gives a reason, and the pair stays apart; or None, and ours decide."""
