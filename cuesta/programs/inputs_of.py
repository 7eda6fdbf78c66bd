"""Random inputs for a program at any level, and what to tell of them so that somebody can make them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from cuesta.programs.integer_ranges import IntegerRange, integer_ranges

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


class InputsError(ValueError):
    """Inputs that a program cannot be given: sizes out of range, a damaged file, an object that no file holds."""


@dataclass(frozen=True)
class RandomInputs:
    """Inputs of the types that `@main` declares, on the devices that it names, all of one seed."""

    values: list[Any]
    seed: int
    symbols: Mapping[str, int]
    ranges: Mapping[int, IntegerRange]
    """Of the integers, by the argument's position."""

    def __str__(self) -> str:
        """What they are, in a few lines: seed, sizes, ranges of integers."""
        lines = [f"random inputs, seed {self.seed}"]
        if self.symbols:
            lines.append("  sizes: " + ", ".join(f"{name} = {value}" for name, value in self.symbols.items()))
        lines += [f"  argument {position}: integers in {one}" for position, one in self.ranges.items()]
        return "\n".join(lines)


def random_inputs_of(
    module: ModuleOp, seed: int = 0, *, symbols: Mapping[str, int] | None = None, on_devices: bool = True
) -> RandomInputs:
    """Inputs for a program, constants included, which depend on the seed alone: standard normal floats, bools, and
    integers in the ranges that the program can take (`integer_ranges.py`).

    `symbols` are the sizes that somebody chose; the others are small, and different from one another. They lie on the
    devices that the types name, or all on the CPU, as the reference interpreter takes them.
    Errors: InputsError for a size out of its range, a symbol that there is not, an argument that is an object, or a
    device that is not here.
    """
    from cuesta.dialects import host
    from cuesta.dialects.core.entry import entry_block, symbol_ranges
    from cuesta.targets.reference import InterpreterError, random_inputs
    from cuesta.targets.reference.random_inputs import symbol_values

    declared = symbol_ranges(module)
    for name, value in (symbols or {}).items():
        if name not in declared:
            raise InputsError(f"there is no size {name}; there are: {', '.join(declared) or 'none'}")
        low, high = declared[name]
        if (low is not None and value < low) or (high is not None and value > high):
            ends = f"[{'-inf' if low is None else low}, {'inf' if high is None else high}]"
            raise InputsError(f"the size {name} is to be {value}, but @main says that it is in {ends}")
    for position, argument in enumerate(entry_block(module).args):
        if argument.type == host.OBJECT:
            raise InputsError(f"argument {position} of @main is an object of Python's: none can be made up")
    values = symbol_values(module, symbols or {})
    ranges = integer_ranges(module, values.value)
    try:
        made = random_inputs(
            module, seed, symbols=symbols, ranges={position: (one.low, one.high) for position, one in ranges.items()}
        )
    except InterpreterError as error:
        raise InputsError(f"no inputs can be made up: {error}") from error
    if on_devices:
        made = moved(made, module)
    return RandomInputs(made, seed, {name: values[name] for name in declared if name in values}, ranges)


def moved(values: Sequence[Any], module: ModuleOp) -> list[Any]:
    """Inputs on the devices that the types of `@main` name, with their strides. Errors: InputsError."""
    from cuesta.dialects.core.entry import entry_block
    from cuesta.dialects.layout import device_of, is_tensor_type

    found: list[Any] = []
    for position, (value, argument) in enumerate(zip(values, entry_block(module).args, strict=False)):
        device = device_of(argument.type) if is_tensor_type(argument.type) else "cpu"
        if isinstance(value, torch.Tensor) and device != str(value.device):
            try:
                memory = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage()).to(device)
            except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
                first = str(error).partition("\n")[0]
                raise InputsError(
                    f"argument {position} of @main lies on {device}, which is not here: {first}"
                ) from error
            value = memory.as_strided(value.size(), value.stride(), value.storage_offset())
        found.append(value)
    return found


def copies_of(values: Sequence[Any]) -> list[Any]:
    """The same values in memory of their own; tensors that share memory still do."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
            return value
        value = value.resolve_conj().resolve_neg().detach()
        storage = value.untyped_storage()
        if storage._cdata not in storages:
            whole = torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage)
            storages[storage._cdata] = whole.clone().untyped_storage()
        fresh = torch.empty(0, dtype=value.dtype, device=value.device)
        return fresh.set_(storages[storage._cdata], value.storage_offset(), value.shape, value.stride())

    return [copied(value) for value in values]


__all__ = ["InputsError", "RandomInputs", "copies_of", "moved", "random_inputs_of"]
