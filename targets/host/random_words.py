"""Random words when a program runs: made by machine code of ours, from the state of torch's generator."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from cuesta.dialects.core.process_lock import ProcessLock
from cuesta.targets.cpu.mersenne_twister import STATE_BYTES, machine_function

_one_at_a_time = ProcessLock()
"""Two programs must not draw from one state. (torch's own lock of a generator cannot be held from Python.)"""


@functools.cache
def _function() -> Callable[[int, int, int], None] | None:
    """The machine code; None where there is no LLVM, as where only a package is run, or torch has another state."""
    if torch.default_generator.get_state().numel() != STATE_BYTES:
        return None
    try:
        return machine_function()
    except ImportError:
        return None


def random_words(count: int, bits: int) -> torch.Tensor:
    """`count` words of torch's default generator of the CPU, of 32 bits each as i32; or of 64 as i64, the first word of
    two in the lower half. The generator stands behind them afterwards.

    Where another thread draws in eager at the same time, both may get the same words: between reading the state and
    writing it, only those are kept out who need Python's lock to begin.
    Errors: ValueError for words of other sizes, as only an edited text asks for.
    """
    if bits not in (32, 64):
        raise ValueError(f"random words have 32 bits or 64, not {bits}")
    function = _function()
    if function is None:
        from cuesta.targets.reference.random_words import random_words as by_torch

        return by_torch(count, bits)
    words = torch.empty(count, dtype=torch.int64 if bits == 64 else torch.int32)
    generator = torch.default_generator
    with _one_at_a_time.here:
        state = generator.get_state()
        function(state.data_ptr(), words.data_ptr(), count * (bits // 32))
        generator.set_state(state)
    return words
