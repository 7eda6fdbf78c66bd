"""A wrapper's text twice: as it is, and step by step, with a clock that is told before and after each step."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host
from cuesta.targets.host.pending import Address
from cuesta.targets.host.python_text import identifier
from cuesta.targets.host.wrapper import Wrapper, WrapperWriter

CALL, TICK, TOCK = "call_timed", "tick", "tock"
"""The function that runs step by step, and what it calls before and after each step, with the step's number."""

MEASURED: Final = (host.LaunchOp, host.ExternOp, host.EagerOp)


def steps_of(module: ModuleOp) -> list[Operation]:
    """The ops of a program at `host`, in the order in which a run comes to them: parts where they are called."""
    functions = {op.sym_name: op for op in module.body.ops if isinstance(op, host.FuncOp)}
    found: list[Operation] = []
    entered: set[str] = set()

    def visit(name: str) -> None:
        if name in entered:
            return
        entered.add(name)
        for op in functions[name].body.ops:
            if isinstance(op, host.CallOp) and op.callee in functions:
                visit(op.callee)
            elif not isinstance(op, host.ReturnOp):
                found.append(op)

    visit("main")
    for name in functions:  # those that an operator of eager's calls
        visit(name)
    return found


class TimedWriter(WrapperWriter):
    """Writes both. Launches of the second are calls one by one."""

    def __init__(
        self, module: ModuleOp, in_eager: Collection[str] = (), *, checked: bool = False, checks_calls: bool = False
    ) -> None:
        super().__init__(module, in_eager, checked=checked, checks_calls=checks_calls)
        self.timed = False
        self.steps = {op: number for number, op in enumerate(steps_of(module))}

    def write(self) -> Wrapper:
        """The wrapper's text, with both functions, and what it needs."""
        self.taken.update((CALL, TICK, TOCK))
        plain = super().write()
        launches = self.launches
        self.timed = True
        self.names, self.addresses = {}, dict[SSAValue, Address]()
        self.functions = {
            name: CALL if name == "main" else identifier(f"{one}_timed", self.taken)
            for name, one in self.functions.items()
        }
        timed = [self.function(part) for part in self.parts]
        source = "\n\n".join([plain.source, *timed, *self.kept.definitions()])
        return Wrapper(
            source, self.runs, self.overloads, launches, self.in_eager, self.stand_ins, self.sites, plain.labels
        )

    def op(self, op: Operation) -> None:
        """Writes one op, between two calls of the clock if it is a step."""
        if not self.timed or self.kept.writing or not isinstance(op, MEASURED):
            super().op(op)
            return
        self.flush()
        first = len(self.lines)
        super().op(op)
        self.flush()
        step = self.steps[op]
        self.lines[first:] = [f"{TICK}({step})", *self.lines[first:], f"{TOCK}({step})"]
