"""Programs of one launch side by side in Triton's interpreter, which by itself runs one after the other.

Each has a thread of its own, and one of them runs at a time: at every atomic operation it hands on to another, drawn by
a seed. So what is run is the kernel's own text, its waiting included, and another seed is another order of events.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from triton.runtime.interpreter import interpreter_builder


class Together:
    """Runs programs so. `seed` None: one after the other, to the end."""

    def __init__(self) -> None:
        self.seed: int | None = 0
        self._changed = threading.Condition()
        self._alive: list[int] = []
        self._turn: int | None = None
        self._own = threading.local()
        self._random = random.Random(0)
        for name in ("create_atomic_rmw", "create_atomic_cas"):
            setattr(interpreter_builder, name, self._handing_on(getattr(interpreter_builder, name)))

    def run(self, programs: int, program: Callable[[], None]) -> None:
        """Runs so many programs. Errors: the first that one of them raises."""
        errors: list[Exception] = []
        if self.seed is None:
            for number in range(programs):
                interpreter_builder.set_grid_idx(number, 0, 0)
                program()
            return

        def one(number: int) -> None:
            self._own.number = number
            self._wait(number)
            try:
                program()
            except Exception as error:  # noqa: BLE001  # raised again where the launch is
                errors.append(error)
            self._own.number = None
            with self._changed:
                self._alive.remove(number)
                self._choose()

        self._random = random.Random(self.seed)
        self._alive = list(range(programs))
        threads = [threading.Thread(target=one, args=(number,)) for number in range(programs)]
        for thread in threads:
            thread.start()
        with self._changed:
            self._choose()
        for thread in threads:
            thread.join()
        self._turn = None
        if errors:
            raise errors[0]

    def _choose(self) -> None:
        self._turn = self._random.choice(self._alive) if self._alive else None
        self._changed.notify_all()

    def _wait(self, number: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == number)
        interpreter_builder.set_grid_idx(number, 0, 0)

    def _handing_on(self, atomic: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*operands: Any) -> Any:
            result = atomic(*operands)
            number = getattr(self._own, "number", None)
            if number is not None:
                with self._changed:
                    self._choose()
                self._wait(number)
            return result

        return changed
