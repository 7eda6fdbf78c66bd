"""The `host` dialect: buffers, launches, library calls. See docs/levels.md, section "host"."""

from cuesta.dialects.host.ops import HOST, AllocOp, ExternOp, FreeOp, FuncOp, LaunchOp, ReinterpretOp, ReturnOp

__all__ = ["HOST", "AllocOp", "ExternOp", "FreeOp", "FuncOp", "LaunchOp", "ReinterpretOp", "ReturnOp"]
