"""The ops that rows of tables describe: elementwise ones, and every overload of ATen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cuesta.dialects.aten.schemas import load_table
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.elem.table import TABLE, Row
from cuesta.lowering.aten.aten_to_loops import RULES
from cuesta.lowering.aten.library_calls import LIBRARY_CALLS
from cuesta.targets.reference import run
from manual.op_examples import aten_example, elem_example, elem_line
from manual.programs import verify_text

NOT_WRITTEN = {
    "aten.set.source_Storage": "it takes a storage, which no text holds",
    "aten.set.source_Storage_storage_offset": "it takes a storage, which no text holds",
}
_KINDS = {"f": "floats", "i": "signed", "u": "unsigned", "b": "bools"}


_ELEM = """\
Each is one row of `dialects/elem/table.py`, from which come its verifier, what the interpreter computes, and what LLVM
and Triton are told. *Error* bounds what an f32 result may be off, in units in the last place; without one it is exact,
or correctly rounded. The last column was computed by the reference interpreter when this page was built: of floats
(0.5, 2, 3) and (1.5, 0.75, −1), of integers (7, 3) and (−12, 4), divided by 3, of bools (true, false) and (true, true).
"""
_ATEN = """\
The dialect has {count} overloads, read off PyTorch {torch} (`dialects/aten/schemas.json`); {own} of them have a rule of
ours, which makes nests of a call where it can (`lowering/aten/`; a rule may decline, and says why). *library* calls are
left to a library on purpose; what has neither runs in eager, inside the same wrapper. Most others are taken apart
before they get here. The calls show how one is written, with the arguments that it cannot do without; sizes are made
up. Tests parse and verify each; that results are eager's is for `make conformance`, which runs every operator of
PyTorch's database.
"""


def elem_table_page() -> str:
    """Every row of the table of scalar ops, with what it gives for a number or two."""
    lines = ["# elem: the table of scalar ops", "", _ELEM, ""]
    lines += ["| op | means | of | error | Triton | gives |", "|---|---|---|---|---|---|"]
    for row in TABLE.values():
        kinds = ", ".join(_KINDS[kind] for kind in row.kinds)
        error = f"{row.ulp:g}" if row.ulp else ""
        cells = [f"`{elem_line(row)}`", f"`{row.reference}`", kinds, error, f"`{_triton(row)}`", _gives(row)]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    lines += ["", "A program around one of them, as the tests run it:", "```mlir"]
    return "\n".join([*lines, elem_example(TABLE["copysign"]).rstrip(), "```", ""])


def _triton(row: Row) -> str:
    text = row.triton if isinstance(row.triton, str) else next(iter(row.triton.values()))
    return text.splitlines()[-1].replace("{", "").replace("}", "")


_OPERANDS: Mapping[str, tuple[tuple[object, ...], ...]] = {
    "f": ((0.5, 1.5), (2.0, 0.75), (3.0, -1.0)),
    "i": ((7, -12), (3, 4), (1, 2)),
    "b": ((True, True), (False, True), (True, True)),
}
"""What the operands are in the last column, by kind."""


def _gives(row: Row) -> str:
    """What the example gives for two choices of operands."""
    module = verify_text(elem_example(row), f"elem.{row.name}")[0]
    dtypes = {"f": torch.float32, "i": torch.int32, "b": torch.bool}
    kind = row.kinds[0]
    given = [torch.tensor([*one, *[one[0]] * 6], dtype=dtypes[kind]) for one in _OPERANDS[kind]]
    result: Any = run(module, given[: len(entry_block(module).args)])[0]
    return " · ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in result[:2].tolist())


def aten_table_page() -> str:
    """Every overload: its signature, who makes it, and how a call is written."""
    operations: Mapping[str, str] = load_table()["operations"]
    own = sum(name in RULES for name in operations)
    said = _ATEN.format(count=len(operations), torch=load_table()["torch"], own=own)
    lines = ["# aten: every operator", "", said, ""]
    letters: dict[str, list[str]] = {}
    for name, signature in operations.items():
        letter = name.removeprefix("aten.").lstrip("_")[:1].upper()
        letters.setdefault(letter, []).append(f"// {name}{signature}    {maker_of(name)}")
        letters[letter].append(f"// {NOT_WRITTEN[name]}" if name in NOT_WRITTEN else aten_example(name))
    for letter in sorted(letters):
        lines += [f"## {letter}", "```mlir", *letters[letter], "```", ""]
    return "\n".join(lines)


def maker_of(overload: str) -> str:
    """Who makes a call: the module of our rule, a library, or eager."""
    rule = RULES.get(overload)
    if rule is not None:
        module = getattr(rule, "__module__", "") or type(rule).__module__
        return f"[{module.removeprefix('cuesta.').replace('.', '/')}.py]"
    if overload in LIBRARY_CALLS or overload.rpartition(".")[0] in LIBRARY_CALLS:
        return "[library]"
    return "[eager]"
