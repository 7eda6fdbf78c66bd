"""The `host` dialect: buffers, launches, library calls. See docs/levels.md, section "host"."""

from cuesta.dialects.host.ops import (
    ARENA_ALIGNMENT,
    HOST,
    AllocOp,
    ExternOp,
    FreeOp,
    FuncOp,
    LaunchOp,
    PlaceOp,
    ReinterpretOp,
    ReturnOp,
    arena_type,
    buffer_bytes,
    only_launched,
)

__all__ = [
    "ARENA_ALIGNMENT",
    "HOST",
    "AllocOp",
    "ExternOp",
    "FreeOp",
    "FuncOp",
    "LaunchOp",
    "PlaceOp",
    "ReinterpretOp",
    "ReturnOp",
    "arena_type",
    "buffer_bytes",
    "only_launched",
]
