"""Inputs of the types that `@main` declares, from a seed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, TensorType

from cuesta.dialects import sym
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.targets.reference.bindings import Symbols, sizes_and_strides
from cuesta.targets.reference.numerics import as_tensor_type, dtype_of, extent


def random_inputs(
    module: ModuleOp,
    seed: int = 0,
    *,
    symbols: Mapping[str, int] | None = None,
    index_limit: int = 2,
    ranges: Mapping[int, tuple[int, int]] | None = None,
) -> list[object]:
    """Inputs of the types that `@main` declares (constants included): standard normal floats, bools, small integers.

    Integers are in [0, index_limit), so that they can serve as indices; `ranges` says others, by position, with both
    ends. `symbols` gives sizes; the others are small, all different, and within their declared ranges.
    """
    generator = torch.Generator().manual_seed(seed)
    values = symbol_values(module, symbols or {})
    inputs: list[object] = []
    for position, argument in enumerate(entry_block(module).args):
        if (tensor_type := as_tensor_type(argument.type)) is not None:
            between = (ranges or {}).get(position, (0, index_limit - 1))
            inputs.append(_random_tensor(tensor_type, values, generator, between))
        elif isinstance(argument.type, sym.IntType):
            inputs.append(values.value(argument.type.data))
        else:
            inputs.append(None)
    return inputs


def symbol_values(module: ModuleOp, given: Mapping[str, int]) -> Symbols:
    """The sizes that `random_inputs` takes for the symbols of a program: what is `given`, and others."""
    declared = entry_function(module).attributes.get("sym.symbols")
    declared = declared if isinstance(declared, sym.SymbolsAttr) else sym.SymbolsAttr.get({})
    values = Symbols(declared)
    for position, (name, (low, high)) in enumerate(declared.ranges.items()):
        value = given.get(name, 5 + 2 * position)
        if name not in given:
            value = value if low is None else max(low, value)
            value = value if high is None else min(high, value)
        values[name] = value
    values.update(given)
    return values


def _random_tensor(
    value_type: TensorType, symbols: Symbols, generator: torch.Generator, between: tuple[int, int]
) -> Tensor:
    sizes, strides = sizes_and_strides(symbols, value_type)
    dtype = dtype_of(value_type)
    # Memory is filled, not elements: so it works where elements share memory, as after an expand.
    count = extent(sizes, strides)
    if dtype is torch.bool:
        memory = torch.randint(0, 2, (count,), generator=generator).to(torch.bool)
    elif dtype.is_complex:
        memory = torch.randn(count, dtype=dtype, generator=generator)
    elif dtype.is_floating_point:
        memory = torch.randn(count, generator=generator).to(dtype)
    else:
        memory = torch.randint(between[0], between[1] + 1, (count,), generator=generator).to(dtype)
    return memory.as_strided(sizes, strides)


__all__ = ["random_inputs", "symbol_values"]
