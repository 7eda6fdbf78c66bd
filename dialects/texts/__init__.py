"""What is asked of a program that came from a text, beyond its level's contract: nothing else made sure of it.

The stages that make programs keep these rules by construction, so they are not checked after each of them.
"""

from __future__ import annotations

from cuesta.dialects import aten, host, sym
from cuesta.dialects.core.contracts import Contract, entry_holds_only
from cuesta.dialects.levels import HOST, KERNEL, LOOPS
from cuesta.dialects.texts.buffers import (
    aliases_lie_where_their_memory_does,
    buffers_are_alive,
    launches_write_what_they_may,
)
from cuesta.dialects.texts.kernels import kernels_are_sane, schedules_are_known
from cuesta.dialects.texts.names import bodies_hold_only_their_level, names_are_plain
from cuesta.dialects.texts.numbers import (
    domains_are_sane,
    numbers_are_sane,
    sizes_fit_in_memory,
    symbols_are_declared,
)
from cuesta.dialects.texts.pieces import eager_writes_nothing, parts_fit, programs_in, symbols_are_bound

_EVERY = (
    names_are_plain,
    sizes_fit_in_memory,
    symbols_are_declared,
    numbers_are_sane,
    domains_are_sane,
    bodies_hold_only_their_level,
)

TEXTS = {
    "aten": Contract("aten, as a text", _EVERY),
    "loops": Contract("loops, as a text", (*_EVERY, *LOOPS.rules)),
    "kernel": Contract("kernel, as a text", (*_EVERY, *KERNEL.rules, kernels_are_sane, schedules_are_known)),
    "host": Contract(
        "host, as a text",
        (
            *_EVERY,
            *HOST.rules,
            kernels_are_sane,
            schedules_are_known,
            aliases_lie_where_their_memory_does,
            buffers_are_alive,
            launches_write_what_they_may,
        ),
    ),
    "pieces": Contract(
        "a program in pieces, as a text",
        (
            sizes_fit_in_memory,
            numbers_are_sane,
            entry_holds_only(*host.EAGER_OPS, host.FreeOp, host.ReturnOp, aten.LiteralOp, sym.ValueOp),
            buffers_are_alive,
            symbols_are_bound,
            eager_writes_nothing,
        ),
    ),
}
"""By level, what must hold where a text begins; `pieces` is for what calls pieces, and lets eager run the rest."""

__all__ = ["TEXTS", "parts_fit", "programs_in"]
