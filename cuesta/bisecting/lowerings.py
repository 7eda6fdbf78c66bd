"""Which rule lowers a call of ATen."""

from __future__ import annotations

import inspect
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from cuesta.bisecting.rewrites import Rewrite
from cuesta.dialects.aten import AtenOp, CallOp
from cuesta.dialects.aten.schemas import canonical_name
from cuesta.dialects.core.entry import entry_block
from cuesta.lowering.aten.aten_to_loops import RULES


def rule_of(module: ModuleOp) -> Rewrite | None:
    """The rule of the last call of a program, by the name of the overload; None without one."""
    calls = [op for op in entry_block(module).ops if isinstance(op, AtenOp | CallOp)]
    for call in reversed(calls):
        rule = RULES.get(canonical_name(call.overload))
        if rule is not None:
            code = inspect.unwrap(rule)
            function = getattr(code, "__code__", None)
            place = f"{Path(function.co_filename).name}:{function.co_firstlineno}" if function is not None else ""
            return Rewrite(call.overload, place)
    return None


__all__ = ["rule_of"]
