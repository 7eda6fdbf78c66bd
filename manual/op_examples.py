"""The examples of ops: a table written by hand (`examples/*.mlir`), and those that follow from a table of the compiler.

A program of the table begins with a line that names the ops that it is the example of, and says what it does:
`// loops.reduce, loops.yield: the sum of each row`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xdsl.ir import Operation

from cuesta.dialects import aten, elem, host, kernel, loops, sym
from cuesta.dialects.aten.schemas import Argument, Schema, lookup
from cuesta.dialects.elem.table import TABLE, Row
from cuesta.opt import split_input

EXAMPLES = Path(__file__).parent / "examples"
DIALECTS = {
    "aten": aten.ATEN,
    "loops": loops.LOOPS,
    "elem": elem.ELEM,
    "kernel": kernel.KERNEL,
    "host": host.HOST,
    "sym": sym.SYM,
}

_HEAD = re.compile(r"^// ((?:\w+\.\w+, )*\w+\.\w+): (.+)$")


@dataclass(frozen=True)
class OpExample:
    """A program, and what it is an example of."""

    ops: tuple[str, ...]
    says: str
    text: str
    place: str
    """`manual/examples/loops.mlir:12`."""


def written_examples(level: str) -> Iterator[OpExample]:
    """The examples of the table, of one dialect. Errors: ValueError for a program that does not say what it shows."""
    path = EXAMPLES / f"{level}.mlir"
    for chunk in split_input(path.read_text(encoding="utf-8")):
        first, _, rest = chunk.text.partition("\n")
        head = _HEAD.match(first)
        place = f"manual/examples/{path.name}:{chunk.first_line}"
        if head is None:
            raise ValueError(f"{place}  begins with {first!r}, and not with `// {level}.op: what the program does`")
        yield OpExample(tuple(head[1].split(", ")), head[2], rest, place)


def classes_of(level: str) -> dict[str, type[Operation]]:
    """The ops of a dialect by name; of `aten`, those that are no overload."""
    operations = [aten.CallOp, aten.LiteralOp] if level == "aten" else DIALECTS[level].operations
    return {op.name: op for op in operations}


def without_example() -> list[str]:
    """The ops that no example shows: none."""
    missing: list[str] = []
    for level in DIALECTS:
        shown = {name for example in written_examples(level) for name in example.ops}
        shown |= {f"elem.{name}" for name in TABLE} if level == "elem" else set()
        missing += [name for name in classes_of(level) if name not in shown]
    return missing


def elem_example(row: Row) -> str:
    """A program that computes one row's op for eight elements."""
    element = {"f": "f32", "i": "i32", "u": "ui32", "b": "i1"}[row.kinds[0]]
    result = "i1" if row.result == "bool" else element
    names = "abc"[: row.arity]
    # Divided by zero, an integer means nothing.
    divisor = "b" if row.name == "trunc_div" else ""
    arguments = ", ".join(f"%{name}s : tensor<8x{element}>" for name in names if name != divisor)
    loads = "".join(
        f"    %{name} = elem.constant 3 : {element}\n"
        if name == divisor
        else f"    %{name} = loops.load %{name}s[%i] : tensor<8x{element}>\n"
        for name in names
    )
    return (
        f"func.func @main({arguments}) -> tensor<8x{result}> {{\n"
        f"  %y = loops.nest (%i : 8) outs(%o : tensor<8x{result}>) {{\n"
        f"{loads}"
        f"    %r = {elem_line(row)}\n"
        f"    loops.store %r, %o[%i] : tensor<8x{result}>\n"
        "  }\n"
        f"  func.return %y : tensor<8x{result}>\n"
        "}\n"
    )


def elem_line(row: Row) -> str:
    """`elem.add %a, %b : f32`."""
    element = {"f": "f32", "i": "i32", "u": "ui32", "b": "i1"}[row.kinds[0]]
    return f"elem.{row.name} {', '.join(f'%{name}' for name in 'abc'[: row.arity])} : {element}"


_ARGUMENTS = {
    "bool": "true",
    "int": "1",
    "SymInt": "1",
    "float": "0.5",
    "Scalar": "2",
    "str": '"none"',
    "ScalarType": "torch.float32",
    "Device": 'torch.device("cpu")',
    "MemoryFormat": "torch.contiguous_format",
    "Layout": "torch.strided",
    "Generator": "none",
    "Storage": "none",
}


def aten_example(overload: str) -> str:
    """A call of an overload with the arguments that it needs; sizes and element types are made up.

    Errors: KeyError for an overload that the table does not have, or that takes what no text says.
    """
    schema = lookup(overload)
    if schema is None:
        raise KeyError(overload)
    return _call(schema)


def _call(schema: Schema) -> str:
    values: list[str] = []

    def written(argument: Argument) -> str:
        if argument.element == "Tensor":
            values.append(f"%{argument.name}")
            text = values[-1]
        else:
            text = _ARGUMENTS[argument.element]
        return f"[{text}]" if argument.is_list else text

    given = [one for one in schema.arguments if repr(one.default) == "REQUIRED"]
    written_out = [f"{one.name} = {written(one)}" if one.keyword_only else written(one) for one in given]
    results = [_result_type(one) for one in schema.results]
    types = ", ".join("tensor<4x8xf32>" for _ in values)
    names = ", ".join(f"%{number}" for number in range(len(results)))
    gives = results[0] if len(results) == 1 else f"({', '.join(results)})"
    call = f"{schema.overload}({', '.join(written_out)}) : ({types}) -> {gives}"
    return f"{names} = {call}" if results else call


def _result_type(result: Argument) -> str:
    if result.element in ("int", "SymInt"):
        return "!sym.int<4>"
    return "tensor<4x8xf32>" if result.element == "Tensor" else "!aten.literal"


def aten_program(overload: str) -> str:
    """The example as a whole program."""
    call = aten_example(overload)
    names = dict.fromkeys(re.findall(r"%[A-Za-z]\w*", call))
    arguments = ", ".join(f"{name} : tensor<4x8xf32>" for name in names)
    return f"func.func @main({arguments}) {{\n  {call}\n  func.return\n}}\n"
