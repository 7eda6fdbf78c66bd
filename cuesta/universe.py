"""Our dialects and passes for stock `xdsl-opt`, which finds this module through an entry point."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from cuesta.context import DIALECTS, dialect_loader
from cuesta.passes import ALL_PASSES

_TAKEN = frozenset(get_all_passes())
"""With two passes of one name `xdsl-opt` does not even start, whatever it is asked to run."""


def name_in_xdsl_opt(name: str) -> str:
    """The name a pass of ours has in `xdsl-opt`: its own, or `cuesta-cse` where xDSL has a `cse` too."""
    return f"cuesta-{name}" if name in _TAKEN else name


def _loader_in_xdsl_opt(name: str) -> Callable[[], type[ModulePass]]:
    load, new_name = ALL_PASSES[name], name_in_xdsl_opt(name)
    if new_name == name:
        return load

    def load_renamed() -> type[ModulePass]:
        # xDSL checks that a pass's own name is the one it was asked for by.
        found = load()
        return type(found.__name__, (found,), {"name": new_name, "__doc__": found.__doc__})

    return load_renamed


CUESTA = Universe(
    all_dialects={name: dialect_loader(place) for name, place in DIALECTS.items()},
    all_passes={name_in_xdsl_opt(name): _loader_in_xdsl_opt(name) for name in ALL_PASSES},
)
