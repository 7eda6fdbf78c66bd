"""One page for each dialect, made of its classes: contract, every op with its parts, and an example that runs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

from xdsl.ir import Operation

from cuesta.dialects import levels
from cuesta.dialects.core.contracts import Contract
from cuesta.dialects.core.operation import PlainOperation
from manual.flow_page import docstring
from manual.op_examples import DIALECTS, OpExample, classes_of, written_examples
from manual.programs import verify_text

TITLES = {
    "aten": "what the model says",
    "loops": "what is computed, and where it is read",
    "elem": "scalars, at `loops` and `kernel`",
    "kernel": "how one kernel runs",
    "host": "in what order, in which memory",
    "sym": "sizes that are no numbers",
}
CONTRACTS = {"loops": (levels.LOOPS, levels.FUSED), "kernel": (levels.KERNEL,), "host": (levels.HOST,)}
_TEXT = re.compile(r"(?:Parses|Prints) (`.*?`)", re.DOTALL)


def level_page(level: str) -> str:
    """The page of a dialect."""
    dialect = DIALECTS[level]
    module = inspect.getdoc(importlib.import_module(f"cuesta.dialects.{level}")) or ""
    lines = [f"# {level}: {TITLES[level]}", "", *docstring(module), ""]
    lines += ["What the level means as a whole stands on [the page of levels](levels.md). What follows is made of the"]
    lines += [
        f"classes of the dialect (`dialects/{level}/`), and of programs that the tests parse, verify and run.",
        "",
    ]
    for contract in CONTRACTS.get(level, ()):
        lines += list(_contract(contract))
    examples = list(written_examples(level))
    of_op = {name: example for example in examples for name in example.ops}
    classes = classes_of(level)
    table = [name for name in classes if name not in of_op]
    classes = {name: classes[name] for name in of_op}  # in the order of the examples, which is that of a lesson
    lines += ["## Ops", ""]
    lines += [" · ".join(f"[`{name}`](#op-{name.replace('_', '-')})" for name in classes), ""]
    shown: set[str] = set()
    for name in classes:
        lines += _op(classes[name], of_op[name], shown)
    if table:
        lines += ["The others are rows of a table: [they have a page of their own](level-elem-table.md).", ""]
    if dialect.attributes:
        lines += ["## Attributes and types", "", "| | |", "|---|---|"]
        for attribute in dialect.attributes:
            said = (inspect.getdoc(attribute) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            lines.append(f"| `{attribute.name}` | {said} |")
        lines.append("")
    return "\n".join(lines)


def _contract(contract: Contract) -> Iterator[str]:
    yield from (f"## What holds when *{contract.level}* begins", "")
    for rule in contract.rules:
        said = inspect.getdoc(rule) or ""
        yield f"* {said.partition(chr(10) * 2)[0].replace(chr(10), ' ')}"
    yield ""


def _op(op: type[Operation], example: OpExample, shown: set[str]) -> list[str]:
    said = inspect.getdoc(op) or ""
    lines = [f"(op-{op.name.replace('_', '-')})=", f"### {op.name}", "", *docstring(said), ""]
    if syntax := _syntax(op):
        lines += [f"Text: {syntax}", ""]
    lines += [*_parts(op, example), ""]
    if fields := list(_fields(op)):
        lines += ["| in Python | |", "|---|---|", *fields, ""]
    if (checked := inspect.getdoc(op.__dict__.get("verify_", None)) or "") and op.__dict__.get("verify_"):
        lines += [f"The verifier: {checked.partition(chr(10) * 2)[0].replace(chr(10), ' ')}", ""]
    if example.place in shown:
        first = example.ops[0]
        return [*lines, f"Example: that of [`{first}`](#op-{first.replace('_', '-')}).", ""]
    shown.add(example.place)
    return [*lines, f"Example: {example.says}", "```mlir", example.text.rstrip(), "```", ""]


def _syntax(op: type[Operation]) -> str:
    """How the op is written, as its parser or printer says; what several dialects share says it of none of them."""
    home = f"cuesta.dialects.{op.name.partition('.')[0]}."
    for name in ("parse", "print"):
        owner = next((base for base in op.__mro__ if name in base.__dict__), None)
        said = "" if owner is None or not owner.__module__.startswith(home) else inspect.getdoc(getattr(op, name))
        if found := _TEXT.search(said or ""):
            return f"`{op.name} {found[1].strip('` ')}`".replace("\n", " ")
    return ""


def _parts(op: type[Operation], example: OpExample) -> list[str]:
    """Operands, properties, results and regions, as the example has them."""
    found: Operation | None = None
    for module in verify_text(example.text, example.place):
        found = next((one for one in module.walk() if one.name == op.name), found)
    if found is None:
        raise ValueError(f"{example.place}  is no example of {op.name}: it has none")
    parts = {
        "operands": ", ".join(f"`{operand.type}`" for operand in found.operands),
        "properties": ", ".join(f"`{name}`" for name in (*found.properties, *found.attributes)),
        "results": ", ".join(f"`{result.type}`" for result in found.results),
        "regions": str(len(found.regions)) if found.regions else "",
    }
    return ["| | in the example |", "|---|---|", *(f"| {name} | {said} |" for name, said in parts.items() if said)]


def _fields(op: type[Operation]) -> Iterator[str]:
    """The accessors of an op, with their docstrings."""
    for base in op.__mro__:
        if base in (PlainOperation, Operation) or not base.__module__.startswith("cuesta."):
            break
        for name, value in vars(base).items():
            if isinstance(value, property) and not name.startswith("_"):
                said = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
                if said:
                    yield f"| `{name}` | {said} |"
