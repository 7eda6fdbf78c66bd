"""What stands in a module, under which names, and which ops stand in which bodies."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import lru_cache

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from cuesta.dialects import aten, elem, func, host, kernel, loops, sym
from cuesta.dialects.core.contracts import Finding
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.core.operation import ops_of

_KERNEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = re.compile(r"run_\d+|cuesta.*|llvm.*|main")

_IN_KERNELS = (
    *(op for op in kernel.KERNEL.operations if op not in (kernel.FuncOp, kernel.LaunchOp)),
    elem.ElementwiseOp,
)
_AROUND_NESTS = (loops.NestOp, loops.ViewOp, loops.WordsOp, loops.JoinOp, loops.ExternOp)
_IN_NESTS = (
    *(op for op in loops.LOOPS.operations if op not in _AROUND_NESTS),
    elem.ElementwiseOp,
)


def names_are_plain(module: ModuleOp) -> Iterator[Finding]:
    """A module holds `@main` and kernels, each under a name of its own that nothing else in machine code has."""
    main, seen = entry_function(module), set[str]()
    if not isinstance(main, func.FuncOp | host.FuncOp):
        yield main, "is no program: @main is a func.func or a host.func"
    for op in module.body.ops:
        if op is main:
            continue
        if not isinstance(op, kernel.FuncOp):
            yield op, "a module holds @main and kernels, nothing else"
            continue
        name = op.sym_name
        if name in seen:
            yield op, f"two kernels are called @{name}"
        seen.add(name)
        if not _KERNEL_NAME.fullmatch(name) or _TAKEN.fullmatch(name) or _is_of_the_c_library(name):
            yield op, f"@{name} is no name for a kernel: letters, digits and _, and no name that machine code knows"


@lru_cache(maxsize=4096)
def _is_of_the_c_library(name: str) -> bool:
    return hasattr(ctypes.CDLL(None), name)


def bodies_hold_only_their_level(module: ModuleOp) -> Iterator[Finding]:
    """What stands in a kernel is of `kernel` or `elem`, what stands in a nest of `loops` or `elem`."""
    main = entry_function(module)
    region = main.regions[0] if main.regions else None
    if region is None or region.first_block is None or region.first_block is not region.last_block:
        yield main, "has one block"
        return
    is_host = isinstance(main, host.FuncOp)
    for op in ops_of(region.first_block):
        if isinstance(op, loops.NestOp):
            yield from _others(op, _IN_NESTS, "a loops.nest")
        elif op.regions:
            yield op, "may not stand in @main"
        elif isinstance(op, func.ReturnOp | host.ReturnOp) and op is not region.first_block.last_op:
            yield op, "stands at the end"
        elif not isinstance(op, _IN_MAIN) or isinstance(op, func.ReturnOp if is_host else host.ReturnOp):
            yield op, "may not stand in @main"
    if not isinstance(region.first_block.last_op, host.ReturnOp if is_host else func.ReturnOp):
        yield main, f"ends in {host.ReturnOp.name if is_host else func.ReturnOp.name}"
    for one in module.body.ops:
        if isinstance(one, kernel.FuncOp):
            yield from _others(one, _IN_KERNELS, "a kernel.func")


_IN_MAIN: tuple[type[Operation], ...] = (
    aten.AtenOp,
    aten.CallOp,
    aten.LiteralOp,
    sym.ValueOp,
    loops.ViewOp,
    loops.WordsOp,
    loops.JoinOp,
    loops.ExternOp,
    kernel.LaunchOp,
    func.ReturnOp,
    *(op for op in host.HOST.operations if op is not host.FuncOp),
)


def _others(body: Operation, allowed: tuple[type[Operation], ...], where: str) -> Iterator[Finding]:
    for op in body.walk():
        if op is not body and not isinstance(op, allowed):
            yield op, f"may not stand in {where}"


__all__ = ["bodies_hold_only_their_level", "names_are_plain"]
