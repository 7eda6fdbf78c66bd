"""Our dialects and passes for stock `xdsl-opt`, which finds this module through an entry point."""

from __future__ import annotations

from xdsl.universe import Universe

from cuesta.context import DIALECTS, dialect_loader
from cuesta.passes import ALL_PASSES

CUESTA = Universe(
    all_dialects={name: dialect_loader(place) for name, place in DIALECTS.items()},
    all_passes=dict(ALL_PASSES),
)
