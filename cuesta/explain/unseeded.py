"""Whether numbers were drawn at random from where a generator happened to be, and not from a seed.

Python's own generator and NumPy's old one begin each process somewhere else. (PyTorch's begins at a seed of its own.)
Both are the Mersenne Twister: what follows from a state can be computed, and a state that does not follow was set.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Final

MOST_TURNS: Final = 1000
"""So many times the state is turned over, 624 numbers each. Source: 30 ms; a file that draws more seeds first."""
_WORDS: Final = 624

_State = tuple[int, ...]


class Generators:
    """The generators as they are when this is made."""

    def __init__(self) -> None:
        if "numpy" in sys.modules:  # it is loaded in a hundredth of a second, and only when somebody asks for it
            import numpy.random  # noqa: F401
        self._before = _states()

    def have_moved_on(self) -> bool:
        """Whether numbers were drawn from them, as far as a state that a seed set can be told from one that was not."""
        after = _states()
        return any(follows(state, after[name]) for name, state in self._before.items())


def follows(before: _State, after: _State) -> bool:
    """Whether a state is another than the one before, and what that becomes when numbers are drawn."""
    if before == after:
        return False
    if before[:_WORDS] == after[:_WORDS]:
        return True
    generator = random.Random()
    generator.setstate((3, before, None))
    for _ in range(MOST_TURNS):
        generator.getrandbits(32 * _WORDS)
        if generator.getstate()[1][:_WORDS] == after[:_WORDS]:
            return True
    return False


def _states() -> dict[str, _State]:
    """624 words, and how many of them have been used."""
    found: dict[str, _State] = {"random": random.getstate()[1]}
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        state: Any = numpy_random.get_state(legacy=False)
        if state["bit_generator"] == "MT19937":
            found["numpy"] = (*map(int, state["state"]["key"]), int(state["state"]["pos"]))
    return found


__all__ = ["Generators", "follows"]
