"""The xDSL context that knows every dialect of ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from xdsl.context import Context
from xdsl.ir import Dialect

from cuesta.dialects.core.extension import active

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

UPSTREAM: dict[str, str] = {"builtin": "xdsl.dialects.builtin:Builtin", "func": "cuesta.dialects.func:FUNC"}
"""The dialects of xDSL that our levels use. Of `func` the ops are ours, which xDSL's driver does not need to know."""


def dialect_loader(place: str) -> Callable[[], Dialect]:
    """A function that imports a dialect, given as `module:name`, when it is first needed."""

    def load() -> Dialect:
        module, _, name = place.partition(":")
        dialect = getattr(import_module(module), name)
        assert isinstance(dialect, Dialect)
        return dialect

    return load


def _load_elem() -> Dialect:
    """The dialect `elem` with the scalar ops of the extensions in force."""
    from cuesta.dialects.elem import extended_dialect

    return extended_dialect()


def make_context() -> Context:
    """A fresh context, with the dialects of the extensions in force. Each dialect of ours is imported when its first op
    or attribute is parsed.
    """
    context = Context()
    extensions = active()
    for name, place in (UPSTREAM | DIALECTS).items():
        load = _load_elem if name == "elem" and extensions.elem else dialect_loader(place)
        context.register_dialect(name, load)
    for dialect in extensions.dialects.values():
        context.register_dialect(dialect.name, lambda dialect=dialect: dialect)
    return context
