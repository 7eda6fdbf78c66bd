"""What builders of all levels have in common: types as short texts, arguments by name, the program at the end."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from xdsl.dialects.builtin import FileLineColLoc, FunctionType, IntAttr, LocationAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Operation, Region, SSAValue

from cuesta.dialects import host, sym
from cuesta.dialects.aten import dtype_to_type
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import tensor_type

Ranges = Mapping[str, tuple[int | None, int | None]]

_SHORT = {
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "bf16": "bfloat16",
    "i1": "bool",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
"""Names of dtypes as FX prints them, beside torch's own."""

_TYPE = re.compile(
    r"(?P<dtype>\w+)\[(?P<sizes>[^\]]*)\](?: strides \[(?P<strides>[^\]]*)\])?(?: on (?P<device>[\w:]+))?"
)


class BuildError(ValueError):
    """Something that a builder was asked for, and that there is not. It names the line that asked."""


def type_of(text: str | Attribute) -> Attribute:
    """A type from a short text; an attribute as it is.

        >>> print(type_of("f32[8, s0]"))
        tensor<8x?xf32, #aten.layout<sizes = [8, s0]>>
        >>> print(type_of("bf16[4, 8] strides [1, 4] on cuda:0"))
        tensor<4x8xbf16, #aten.layout<strides = [1, 4], device = "cuda:0">>
        >>> print(type_of("int64[]"), type_of("f32"), type_of("int s0"))
        tensor<i64> f32 !sym.int<s0>

    Errors: BuildError.
    """
    if isinstance(text, Attribute):
        return text
    if (number := re.fullmatch(r"int (.+)", text)) is not None:
        return sym.IntType(_size(number[1], text))
    found = _TYPE.fullmatch(text.strip())
    if found is None:
        if (name := _SHORT.get(text, text)) in {*_SHORT.values()}:
            return dtype_to_type(name)
        fail(f"{text!r} is no type: write f32[8, 16], f32[4, s0] strides [1, 4] on cuda:0, int s0")
    sizes = [_size(one, text) for one in _listed(found["sizes"])]
    strides = None if found["strides"] is None else [_size(one, text) for one in _listed(found["strides"])]
    name = _SHORT.get(found["dtype"], found["dtype"])
    if name not in {*_SHORT.values()} and not name.startswith("float8"):
        fail(f"{text!r}: there is no dtype {found['dtype']}")
    if strides is not None and len(strides) != len(sizes):
        fail(f"{text!r}: {len(sizes)} sizes, but {len(strides)} strides")
    return tensor_type(sizes, dtype_to_type(name), strides, found["device"] or "cpu")


def _listed(text: str) -> list[str]:
    return [one.strip() for one in text.split(",")] if text.strip() else []


def _size(text: str, whole: str) -> sym.IndexExpr:
    if text.isdecimal():
        return int(text)
    if re.fullmatch(r"[a-z]\w*", text):
        return sym.symbol(text)
    fail(f"{whole!r}: {text!r} is neither a number nor the name of a size")


def fail(message: str) -> NoReturn:
    """Errors: BuildError with the caller's line, always."""
    location = here()
    place = f"{location.filename.data}:{location.line.data}  " if isinstance(location, FileLineColLoc) else ""
    raise BuildError(f"{place}{message}")


def here() -> LocationAttr:
    """The line outside of Cuesta that called: where the ops of a builder come from."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("cuesta.", "contextlib")):
            return FileLineColLoc(StringAttr(frame.f_code.co_filename), IntAttr(frame.f_lineno), IntAttr(0))
        frame = frame.f_back
    return UnknownLoc()


class ProgramBuilder:
    """Builds a module with a function `@main`, in a `with` block; at its end the program is checked.

    Arguments are attributes, by their names. `module` is the program, `program` an object to run and to take on.
    """

    def __init__(self, arguments: Mapping[str, str | Attribute], symbols: Ranges | None = None) -> None:
        types = [type_of(one) for one in arguments.values()]
        self.block = PlainBlock(arg_types=types)
        self.arguments = dict(zip(arguments, self.block.args, strict=True))
        for name, argument in self.arguments.items():
            argument.name_hint = name
        self._symbols = dict(symbols or {})
        self._module: ModuleOp | None = None
        self._others: list[Operation] = []

    def __getattr__(self, name: str) -> SSAValue:
        """An argument."""
        arguments = self.__dict__.get("arguments", {})
        if name in arguments:
            return arguments[name]
        raise AttributeError(f"there is no argument {name!r}; there are: {', '.join(arguments) or 'none'}")

    def emit(self, op: Operation) -> Operation:
        """Puts an op at the end; where it comes from is the caller's line."""
        if isinstance(op.location, UnknownLoc):
            op.location = here()
        self.block.add_op(op)
        return op

    def add(self, function: Operation) -> None:
        """Puts a function, such as a kernel, beside `@main`."""
        self._others.append(function)

    def returns(self, *values: SSAValue) -> None:
        """Ends the program: these are its results."""
        self.emit(host.ReturnOp.build(values) if self._at_host else ReturnOp.build(values))

    @property
    def _at_host(self) -> bool:
        return False

    def _function(self) -> Operation:
        last = self.block.last_op
        if not isinstance(last, ReturnOp | host.ReturnOp):
            fail("the program returns nothing: end it with .returns(…)")
        names = {
            name
            for value in (*self.block.args, *(result for op in self.block.ops for result in op.results))
            for name in symbols_of_type(value.type)
        }
        ranges = {name: self._symbols.get(name, (2, None)) for name in sorted({*names, *self._symbols})}
        signature = FunctionType.from_lists([one.type for one in self.block.args], [one.type for one in last.operands])
        region = Region(self.block)
        attributes: dict[str, Attribute] = {"sym.symbols": sym.SymbolsAttr.get(ranges)} if ranges else {}
        if self._at_host:
            return host.FuncOp.build("main", signature, region, attributes)
        function = FuncOp.build("main", signature.inputs.data, signature.outputs.data, region)
        function.attributes.update(attributes)
        return function

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            from cuesta.programs.texts import verify_text

            module = ModuleOp([*self._others, self._function()])
            verify_text(module)
            self._module = module

    @property
    def module(self) -> ModuleOp:
        """The program, checked: a copy. Errors: BuildError as long as the `with` block has not ended."""
        if self._module is None:
            fail("the program is not complete: its `with` block has not ended")
        return self._module.clone()

    @property
    def program(self) -> Any:
        """The program as an object that prints, runs and goes on (`cuesta.programs.stages.Program`)."""
        from cuesta.programs.stages import Program

        return Program.of_module(self.module)


def symbols_of_type(value_type: Attribute) -> Sequence[str]:
    """The symbols in the sizes and strides of a type."""
    from cuesta.dialects.layout import is_tensor_type, sizes_of, strides_of

    if isinstance(value_type, sym.IntType):
        return sorted(sym.symbols_of(value_type.data))
    if not is_tensor_type(value_type):
        return ()
    return sorted({name for e in (*sizes_of(value_type), *strides_of(value_type)) for name in sym.symbols_of(e)})


__all__ = ["BuildError", "ProgramBuilder", "Ranges", "fail", "here", "symbols_of_type", "type_of"]
