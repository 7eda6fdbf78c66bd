"""The types of results at the `aten` level, held to what torch says that the calls give.

Every call is made with tensors that have no memory (torch's meta device): what it gives must have the sizes and dtypes
that the text says. A symbol stands for one number there, so only what does not depend on it is compared. What an
operator gives may depend on the device; so who does not agree is asked again, with fake tensors of that device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from cuesta.dialects import sym
from cuesta.dialects.aten import type_to_dtype
from cuesta.dialects.aten.arguments import Argument, Device, DType, LayoutKind, MemoryFormat, Operand
from cuesta.dialects.aten.call import CallLike
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.layout import device_of, is_tensor_type, sizes_of, strides_of
from cuesta.targets.host.runtime import flattened, resolve_overload
from cuesta.targets.reference.wide_products import WIDE_PRODUCTS


def verify_aten_types(module: ModuleOp) -> None:
    """Checks every call of `@main` that torch can make without data.

    Errors: CuestaError on the first op whose result is of another type than the text says, or that torch refuses.
    """
    symbols = {name: _number(low, high) for name, (low, high) in symbol_ranges(module).items()}
    values: dict[SSAValue, Any] = {}
    for argument in entry_block(module).args:
        values[argument] = meta_of(argument, symbols)
    for op in entry_block(module).ops:
        if isinstance(op, CallLike):
            problem = _problem(op, torch_gives(op, values, symbols))
            if problem is not None and not _agrees_there(op, symbols):
                raise CuestaError(Diagnostic.on(op, problem))
        for result in op.results:
            values[result] = meta_of(result, symbols)


def _number(low: int | None, high: int | None) -> int:
    least = max(low or 0, 6)
    return least if high is None else min(least, high)


def _agrees_there(op: CallLike, symbols: dict[str, int]) -> bool:
    """Whether torch gives what the text says for a call on the device that the text says."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        try:
            values = {operand: meta_of(operand, symbols, on_meta=False) for operand in op.operands}
            given = torch_gives(op, values, symbols, on_meta=False)
        except (RuntimeError, CuestaError):
            return False
        return given is not None and _problem(op, given) is None


def meta_of(value: SSAValue, symbols: dict[str, int], *, on_meta: bool = True) -> Any:
    """What stands for a value: a tensor without memory, a number; None for what depends on other symbols."""
    kind = value.type
    if isinstance(kind, sym.IntType):
        return int(sym.evaluate(kind.data, (), symbols)) if sym.symbols_of(kind.data) <= symbols.keys() else None
    if not is_tensor_type(kind):
        return None
    if any(not sym.symbols_of(e) <= symbols.keys() for e in (*sizes_of(kind), *strides_of(kind))):
        return None
    sizes = [int(sym.evaluate(size, (), symbols)) for size in sizes_of(kind)]
    strides = [int(sym.evaluate(stride, (), symbols)) for stride in strides_of(kind)]
    try:
        dtype = getattr(torch, type_to_dtype(kind.element_type))
        return torch.empty_strided(sizes, strides, dtype=dtype, device="meta" if on_meta else device_of(kind))
    except RuntimeError:
        return None


class _Unknown(Exception):
    """An argument that has no value here."""


def torch_gives(
    op: CallLike, values: dict[SSAValue, Any], symbols: dict[str, int], *, on_meta: bool = True
) -> Sequence[Any] | None:
    """What torch gives for a call on tensors without memory; None when it cannot say."""
    depends = any(_is_symbolic(value) for value in (*op.operands, *op.results))
    schema = op.schema
    if schema is None or schema.mutates:
        return None

    def argument(one: Argument) -> Any:
        if isinstance(one, Operand):
            value = values.get(op.operands[one.index])
            if value is None:
                raise _Unknown
            return value
        if isinstance(one, tuple):
            return [argument(element) for element in one]
        if isinstance(one, DType | MemoryFormat | LayoutKind):
            return getattr(torch, one.name)
        if isinstance(one, Device):
            return torch.device("meta" if on_meta else one.name)
        if isinstance(one, sym.Expr):
            if not sym.symbols_of(one) <= symbols.keys():
                raise _Unknown
            return int(sym.evaluate(one, (), symbols))
        return one

    try:
        positional = [argument(one) for one in op.arguments_attr.positional]
        keywords = {name: argument(one) for name, one in op.arguments_attr.keywords}
        if on_meta and not op.operands and any(one.name == "device" for one in schema.arguments):
            keywords["device"] = torch.device("meta")
        function = WIDE_PRODUCTS.get(op.overload) or resolve_overload(op.overload)
        return flattened(function(*positional, **keywords))
    except (_Unknown, NotImplementedError):
        return None
    except Exception as error:
        if depends or _needs_data(error):
            return None
        raise CuestaError(Diagnostic.on(op, str(error).strip().partition("\n")[0])) from error


def _needs_data(error: Exception) -> bool:
    said = str(error)
    return any(word in said for word in ("meta", "Meta", "data-dependent", "fake", "dispatch key", "backend"))


def _is_symbolic(value: SSAValue) -> bool:
    kind = value.type
    if isinstance(kind, sym.IntType):
        return bool(sym.symbols_of(kind.data))
    return is_tensor_type(kind) and any(not isinstance(e, int) for e in (*sizes_of(kind), *strides_of(kind)))


def _problem(op: CallLike, given: Sequence[Any] | None) -> str | None:
    """What torch gives for a call, where that is not what the text says."""
    if given is None:
        return None
    for result, found in zip(op.results, given, strict=False):
        kind = result.type
        if not isinstance(found, torch.Tensor) or not is_tensor_type(kind):
            continue
        sizes = sizes_of(kind)
        symbolic = any(_is_symbolic(value) for value in (*op.operands, result))
        same = len(sizes) == found.dim() if symbolic else tuple(sizes) == tuple(found.shape)
        if not same or found.dtype != getattr(torch, type_to_dtype(kind.element_type)):
            axes = f"{found.dim()} axes" if symbolic else f"size {tuple(found.shape)}"
            return f"gives {found.dtype} of {axes}, not {kind}"
    return None


__all__ = ["meta_of", "torch_gives", "verify_aten_types"]
