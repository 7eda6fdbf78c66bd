"""Calls of ATen overloads: `aten.*`, `aten.call`, and the externs of the levels below, through `torch.ops`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from xdsl.ir import SSAValue

from cuesta.dialects import aten, layout, sym
from cuesta.dialects.aten import Argument, CallLike
from cuesta.dialects.core.random_words import RANDOM_WORDS
from cuesta.targets.reference.bindings import Symbols, size_equations
from cuesta.targets.reference.errors import InterpreterError, describe, fail
from cuesta.targets.reference.keyed_draws import KEYED_DRAWS
from cuesta.targets.reference.numerics import Numerics, as_tensor_type, dtype_named, restride
from cuesta.targets.reference.random_words import random_words
from cuesta.targets.reference.wide_products import WIDE_PRODUCTS

_CPU = torch.device("cpu")


def call(op: CallLike, operands: Sequence[object], symbols: Symbols, numerics: Numerics) -> list[object]:
    """Calls the op's overload; the results have the sizes, dtypes and strides that their types declare.

    Errors: InterpreterError when torch has no such overload, or gives something else than the types say. What the
    overload itself raises is passed on.
    """
    overload = find_overload(op.overload)
    if overload is None:
        fail(op, f"torch has no operator {op.overload}")
    positional, keywords = arguments_of(op, operands, symbols, numerics)
    if numerics.precise and "half_to_float" in str(getattr(overload, "_schema", "")):
        _keep_float64(overload, positional, keywords)
    try:
        result = overload(*positional, **keywords)
    except Exception as error:
        error.add_note(f"raised by {describe(op)} ({op.overload})")
        raise
    results = list(_flatten(result))
    if len(results) != len(op.results):
        fail(op, f"gives {len(results)} results, not {len(op.results)}")
    return [_checked(op, name, value, symbols, numerics) for name, value in zip(op.results, results, strict=True)]


def arguments_of(
    op: CallLike, operands: Sequence[object], symbols: Symbols, numerics: Numerics
) -> tuple[list[object], dict[str, object]]:
    """What a call passes by position and by name."""

    def value_of(argument: Argument) -> object:
        if isinstance(argument, aten.Operand):
            return operands[argument.index]
        if isinstance(argument, tuple):
            return [value_of(element) for element in argument]
        return constant(argument, symbols, numerics)

    arguments = op.arguments_attr
    positional = [value_of(argument) for argument in arguments.positional]
    return positional, {name: value_of(argument) for name, argument in arguments.keywords}


@lru_cache(maxsize=8192)
def find_overload(name: str) -> Any:
    """torch's overload of a name such as `aten.add.Tensor` or `mylib::foo.default`; None when there is none."""
    if name == RANDOM_WORDS:
        return random_words
    if name in WIDE_PRODUCTS:
        return WIDE_PRODUCTS[name]
    if name in KEYED_DRAWS:
        return KEYED_DRAWS[name]
    namespace, separator, rest = name.partition("::" if "::" in name else ".")
    packet_name, _, overload_name = rest.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace), packet_name, None) if separator else None
    return getattr(packet, overload_name, None)


def constant(argument: aten.Constant, symbols: Symbols, numerics: Numerics) -> object:
    """What a leaf of an argument tree is in torch. Everything runs on the CPU."""
    if isinstance(argument, sym.Expr):
        return symbols.value(argument)
    if isinstance(argument, aten.DType):
        return numerics.adjust(dtype_named(argument.name))
    if isinstance(argument, aten.MemoryFormat | aten.LayoutKind):
        return getattr(torch, argument.name)
    return _CPU if isinstance(argument, aten.Device) else argument


def _keep_float64(overload: Any, positional: list[object], keywords: dict[str, object]) -> None:
    """`half_to_float` asks softmax to widen its operand, which is wide already."""
    for position, formal in enumerate(overload._schema.arguments):
        if formal.name == "half_to_float":
            if position < len(positional):
                positional[position] = False
            else:
                keywords[formal.name] = False


def _flatten(result: object) -> list[object]:
    if isinstance(result, list | tuple):
        return [leaf for element in result for leaf in _flatten(element)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return [result]


def _checked(op: CallLike, name: SSAValue, value: object, symbols: Symbols, numerics: Numerics) -> object:
    """A result, of the type that the op declares for it. Sizes that only the data decides are learnt here."""
    where = f"result {op.results.index(name)}"
    value_type = name.type
    if isinstance(value_type, sym.IntType):
        if not isinstance(value, int):
            fail(op, f"{where} is no integer, but {value!r}")
        try:
            symbols.learn([(value_type.data, value, where)])
        except InterpreterError as error:
            fail(op, str(error))
        return value
    tensor_type = as_tensor_type(value_type)
    if tensor_type is None:
        return value
    if not isinstance(value, Tensor):
        fail(op, f"{where} is no tensor, but {value!r}")
    value = numerics.hold(value.detach())
    if value.dtype is not numerics.dtype(tensor_type):
        fail(op, f"{where} has dtype {value.dtype}, not that of {tensor_type}")
    try:
        symbols.learn(size_equations(tensor_type, value, where))
        return restride(value, symbols.all_values(layout.strides_of(tensor_type)))
    except (InterpreterError, ValueError) as error:
        fail(op, str(error))
