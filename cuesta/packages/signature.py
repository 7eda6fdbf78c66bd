"""What a packaged program takes: its inputs, their sizes as expressions of symbols, and what must hold of these.

A call that is as expected is told by a function made for the purpose, in a microsecond or two; one that is not is put
right where that changes nothing but time, and explained where it is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch

from cuesta.dialects.core.structs import struct
from cuesta.packages.graph import PackageError, Size
from cuesta.targets.host.runtime import with_strides
from cuesta.targets.program import POINTER_ALIGNMENT
from cuesta.targets.python_functions import define

FUNCTIONS = {"__builtins__": {"max": max, "min": min, "abs": abs}, "math": math}
"""What expressions of symbols may call."""


class InputError(PackageError, TypeError):
    """A package is called with what it is not for."""


@struct
class TensorInput:
    """A tensor that a program takes."""

    name: str
    dtype: str
    device: str
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    written: bool = False
    differentiable: bool = False
    """Whether a gradient flows to it, if somebody wants one."""


@struct
class ValueInput:
    """What is no tensor: a program is for this one value."""

    name: str
    value: Any = None


Input: TypeAlias = "TensorInput | ValueInput"


@struct
class Symbol:
    """A number that a size stands for: the size along `axis` of the input number `input` is `factor` times it and
    `offset`. Its range includes both ends; None is no end.
    """

    name: str
    least: int | None
    most: int | None
    input: int
    axis: int
    factor: int = 1
    offset: int = 0


@struct
class Signature:
    """What a program takes."""

    inputs: tuple[Input, ...]
    symbols: tuple[Symbol, ...]
    conditions: tuple[str, ...]
    """Expressions of symbols that are true."""

    @classmethod
    def of_json(cls, head: Mapping[str, Any]) -> Signature:
        """The signature in what `asdict` gave. Errors: LookupError, TypeError, ValueError."""
        return cls(
            inputs=tuple(map(_input, head["inputs"])),
            symbols=tuple(Symbol(**one) for one in head["symbols"]),
            conditions=tuple(map(str, head["conditions"])),
        )


def _input(head: Mapping[str, Any]) -> Input:
    if "dtype" not in head:
        return ValueInput(**head)
    given = dict(head)
    for name in ("sizes", "strides"):
        given[name] = tuple(one if isinstance(one, str) else int(one) for one in cast("Sequence[Any]", head[name]))
    return TensorInput(**given)


Accept: TypeAlias = "Callable[[Sequence[Any]], Sequence[int] | None]"


class Checks:
    """A signature, ready to be held against inputs."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.accept = _acceptor(signature)
        """The symbols' values of inputs that are as expected; None for others."""
        names = ", ".join(one.name for one in signature.symbols)
        layouts = [
            f"(({listed(one.sizes)}), ({listed(one.strides)}))" if isinstance(one, TensorInput) else "None"
            for one in signature.inputs
        ]
        space: dict[str, Any] = dict(FUNCTIONS)
        define(f"def layouts({names}):\n    return [{', '.join(layouts)}]\n", "layouts of inputs", space)
        self._layouts: Callable[..., list[Any]] = space["layouts"]

    def adapted(self, leaves: Sequence[Any]) -> list[Any]:
        """The inputs, laid out as the program expects them, with no bits about how their memory is to be read.

        Errors: InputError, which says what is wrong with which.
        """
        signature = self.signature
        for given, expected in zip(leaves, signature.inputs, strict=True):
            _check_kind(given, expected)
        values = self._bound(leaves)
        layouts = self._layouts(*values)
        adapted: list[Any] = []
        for given, expected, layout in zip(leaves, signature.inputs, layouts, strict=True):
            if isinstance(expected, TensorInput):
                if tuple(given.shape) != layout[0]:
                    raise InputError(
                        f"{expected.name} has the size {tuple(given.shape)}, and the package is for "
                        f"{_shown(expected.sizes, signature.symbols)}"
                    )
                if given.requires_grad and torch.is_grad_enabled() and not expected.differentiable:
                    raise InputError(
                        f"{expected.name} wants a gradient, and the package has none for it: call it under "
                        "torch.no_grad(), or make a package with training=True, of an input that wants one"
                    )
                given = _laid_out(given, expected, layout[1])
            adapted.append(given)
        if self.accept(adapted) is None:
            self._explain(adapted, values)
        return adapted

    def _bound(self, leaves: Sequence[Any]) -> list[int]:
        values: list[int] = []
        for symbol in self.signature.symbols:
            size = int(leaves[symbol.input].shape[symbol.axis])
            value, rest = divmod(size - symbol.offset, symbol.factor)
            where = f"{self.signature.inputs[symbol.input].name}.size({symbol.axis})"
            if rest:
                raise InputError(
                    f"{where} is {size}, and the package is for {symbol.factor} times a number and {symbol.offset}"
                )
            if value < (symbol.least or 0) or (symbol.most is not None and value > symbol.most):
                raise InputError(f"{where} is {size}, and the package is for {_range(symbol)}")
            values.append(value)
        return values

    def _explain(self, leaves: Sequence[Any], values: Sequence[int]) -> None:
        """Errors: InputError, always."""
        names: dict[str, Any] = dict(zip((one.name for one in self.signature.symbols), values, strict=True))
        for condition in self.signature.conditions:
            if not eval(condition, dict(FUNCTIONS), names):
                shown = ", ".join(f"{name} = {value}" for name, value in names.items() if name in condition)
                raise InputError(f"the package is for sizes with {condition}, and here {shown}")
        raise InputError("two inputs share memory, and the program changes one of them")


def _check_kind(given: Any, expected: Input) -> None:
    if isinstance(expected, ValueInput):
        if type(given) is not type(expected.value) or given != expected.value:
            raise InputError(f"{expected.name} is {given!r}, and the package was made for {expected.value!r}")
        return
    if not isinstance(given, torch.Tensor):
        raise InputError(f"{expected.name} is no tensor but a {type(given).__name__}")
    if type(given) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or given.layout is not torch.strided:
        raise InputError(
            f"{expected.name} is a {type(given).__name__} of the layout {given.layout}: give a plain tensor"
        )
    if str(given.dtype) != f"torch.{expected.dtype}" or str(given.device) != expected.device:
        raise InputError(
            f"{expected.name} has {given.dtype} on {given.device}, and the package is for torch.{expected.dtype} on "
            f"{expected.device}"
        )
    if given.dim() != len(expected.sizes):
        raise InputError(f"{expected.name} has {given.dim()} dimensions, and the package is for {len(expected.sizes)}")


def _laid_out(given: torch.Tensor, expected: TensorInput, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor as the program reads it: a copy, if it has to be. Errors: InputError where copies will not do."""
    plain = given.resolve_neg().resolve_conj()
    if plain.stride() != strides:
        plain = with_strides(plain, strides)
    if plain.is_cuda and plain.data_ptr() % POINTER_ALIGNMENT:
        plain = torch.empty_strided(plain.shape, strides, dtype=plain.dtype, device=plain.device).copy_(plain)
    if expected.written and plain.data_ptr() != given.data_ptr():
        raise InputError(
            f"{expected.name} is changed by the program, which is for a tensor with the strides {strides}, at an "
            f"address that is a multiple of {POINTER_ALIGNMENT} bytes on a device, without the negative or conjugate "
            f"bit; this one has the strides {given.stride()}"
        )
    return plain


def _acceptor(signature: Signature) -> Accept:
    """The function that tells inputs that are as expected."""
    lines = ["def accept(leaves):", f"    {''.join(f'a{k}, ' for k in range(len(signature.inputs)))}= leaves"]
    classes = {"Tensor": torch.Tensor, "Parameter": torch.nn.Parameter, "enabled": torch.is_grad_enabled}
    space: dict[str, Any] = {**classes, **FUNCTIONS}
    written = [k for k, one in enumerate(signature.inputs) if isinstance(one, TensorInput) and one.written]
    if not signature.inputs:
        lines.pop()
    tests: list[str] = []
    for k, one in enumerate(signature.inputs):
        if isinstance(one, ValueInput):
            space[f"v{k}"] = one.value
            tests.append(f"a{k}.__class__ is v{k}.__class__ and a{k} == v{k}")
            continue
        space |= {f"t{k}": getattr(torch, one.dtype), f"d{k}": torch.device(one.device)}
        first = [
            f"a{k}.__class__ is Tensor or a{k}.__class__ is Parameter",
            f"a{k}.dtype is t{k}",
            f"a{k}.device == d{k}",
        ]
        first += [f"a{k}.dim() == {len(one.sizes)}", f"not a{k}.is_neg()"]
        if getattr(torch, one.dtype).is_complex:
            first.append(f"not a{k}.is_conj()")
        if not one.differentiable:
            first.append(f"not (a{k}.requires_grad and enabled())")
        if torch.device(one.device).type == "cuda":
            first.append(f"not a{k}.data_ptr() % {POINTER_ALIGNMENT}")
        tests += [f"({one})" if " or " in one else one for one in first]
    if tests:
        lines.append(f"    if not ({' and '.join(tests)}): return None")
    for symbol in signature.symbols:
        size = f"a{symbol.input}.shape[{symbol.axis}]"
        lines.append(f"    {symbol.name} = ({size} - {symbol.offset}) // {symbol.factor}")
    second = [
        text
        for k, one in enumerate(signature.inputs)
        if isinstance(one, TensorInput)
        for text in (f"a{k}.shape == ({listed(one.sizes)})", f"a{k}.stride() == ({listed(one.strides)})")
    ]
    for symbol in signature.symbols:
        most = "" if symbol.most is None else f" <= {symbol.most}"
        second.append(f"{symbol.least or 0} <= {symbol.name}{most}")
    second += [f"({condition})" for condition in signature.conditions]
    tensors = [k for k, one in enumerate(signature.inputs) if isinstance(one, TensorInput)]
    second += [
        f"a{k}.untyped_storage()._cdata != a{other}.untyped_storage()._cdata"
        for k in written
        for other in tensors
        if other != k and (other not in written or other > k)
    ]
    if second:
        lines.append(f"    if not ({' and '.join(second)}): return None")
    lines.append(f"    return [{', '.join(one.name for one in signature.symbols)}]")
    define("\n".join(lines) + "\n", "inputs of a package", space)
    return space["accept"]


def listed(sizes: Sequence[Size]) -> str:
    """Sizes as Python has what stands within the brackets of a tuple."""
    return "".join(f"{size}, " for size in sizes)


def _shown(sizes: Sequence[Size], symbols: Sequence[Symbol]) -> str:
    shown = f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
    used = [one for one in symbols if any(isinstance(size, str) and one.name in size for size in sizes)]
    return shown + "".join(f", {one.name} {_range(one)}" for one in used)


def _range(symbol: Symbol) -> str:
    """The sizes that a symbol allows, as people say it."""

    def size(value: int) -> int:
        return symbol.factor * value + symbol.offset

    least = size(symbol.least or 0)
    return f"{least} or more" if symbol.most is None else f"{least} to {size(symbol.most)}"
