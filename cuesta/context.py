"""The xDSL context that knows every dialect of ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.ir import Dialect

DIALECTS: dict[str, str] = {
    "cuesta": "cuesta.dialects.core.machine:CUESTA",
    "sym": "cuesta.dialects.sym:SYM",
    "elem": "cuesta.dialects.elem:ELEM",
    "aten": "cuesta.dialects.aten:ATEN",
    "loops": "cuesta.dialects.loops:LOOPS",
    "kernel": "cuesta.dialects.kernel:KERNEL",
    "host": "cuesta.dialects.host:HOST",
}
"""Where each dialect of ours is, by its name."""

UPSTREAM: dict[str, str] = {
    "builtin": "xdsl.dialects.builtin:Builtin",
    "func": "xdsl.dialects.func:Func",
}
"""The dialects of xDSL that our levels use."""


def dialect_loader(place: str) -> Callable[[], Dialect]:
    """A function that imports a dialect, given as `module:name`, when it is first needed."""

    def load() -> Dialect:
        module, _, name = place.partition(":")
        dialect = getattr(import_module(module), name)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


def make_context() -> Context:
    """A fresh context. Each dialect is imported when its first op or attribute is parsed."""
    context = Context()
    for name, place in (UPSTREAM | DIALECTS).items():
        context.register_dialect(name, dialect_loader(place))
    return context
