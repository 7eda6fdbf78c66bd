"""A program, made smaller as long as it shows the same: delta debugging over results, ops, arguments and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.traits import IsTerminator

from cuesta.bisecting import programs
from cuesta.bisecting.judging import inputs_for, is_well_formed, run
from cuesta.bisecting.programs import Inputs
from cuesta.context import make_context
from cuesta.dialects import elem, host, loops
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.dialects.core.operation import all_ops, ops_of, replace_all_uses
from cuesta.dialects.layout import is_tensor_type, sizes_of
from cuesta.pipeline import Stage, run_pipeline

Still = Callable[[ModuleOp, Sequence[Any]], bool]
"""Whether a program, on inputs, still shows what it is reduced for. The program may be changed by who is asked."""

Edit = Callable[[ModuleOp], bool]
"""Changes a copy of the program; false when there is nothing to change any more."""

_SIZES = (1, 2, 3, 5, 9, 17)
"""What sizes are tried as, the smallest first."""


_MANY = 4096
"""From so many elements on, sizes are made smaller first: everything else is quicker then."""


class Reducer:
    """Makes one program smaller."""

    def __init__(
        self, module: ModuleOp, inputs: Inputs, still: Still, *, seconds: float = 30.0, signs: bool = False
    ) -> None:
        """With `signs`, numbers that are all negative are tried as inputs, too: then what made them so can go."""
        self.signs = signs
        self.module = module.clone()
        self.inputs = inputs
        self.still = still
        self.until = perf_counter() + seconds
        self.tried = 0
        if inputs is not None and self._shows(module.clone(), None):
            self.inputs = None

    def reduce(self) -> tuple[ModuleOp, Inputs]:
        """The smallest program found in the time there is, and its inputs; None are random ones. The same program and
        the same time to spare give the same.
        """
        self._attempt(lambda module: programs.return_only(module, programs.last_of(module).operands) or True)
        self._last_needed()
        if self.inputs is None and _elements(self.module) > _MANY:
            self._shrink()
        while not self._is_late():
            before = programs.size_of(self.module)
            for find in (self._results, self._chunks, self._bodies, self._host):
                self._try_all(find)
            if programs.size_of(self.module) == before:
                break
        if self.inputs is not None and self._shows(self.module.clone(), None):
            self.inputs = None  # it does not depend on them any more
        if self.inputs is None:
            self._shrink()
        return self.module, self.inputs

    # -- attempts -----------------------------------------------------------------------------------------------------

    def _is_late(self) -> bool:
        return perf_counter() > self.until

    def _shows(self, module: ModuleOp, inputs: Inputs) -> bool:
        self.tried += 1
        if not is_well_formed(module):
            return False
        try:
            given = inputs_for(module, inputs)
        except Exception:  # noqa: BLE001  # no inputs can be made for what is left of it
            return False
        return self.still(module, given)

    def _attempt(self, edit: Edit) -> bool:
        """Edits a copy; it takes the program's place when it is smaller and shows the same."""
        module = self.module.clone()
        before = len(entry_block(module).args)
        try:
            if not edit(module):
                return False
            inputs = self._with_new(module, before)
            inputs = programs.tidy(module, inputs)
            if programs.size_of(module) >= programs.size_of(self.module):
                return False
        except Exception:  # noqa: BLE001  # an edit that does not fit the program
            return False
        if not self._shows(module.clone(), inputs):
            if not self.signs:
                return False
            inputs = _negative(inputs_for(module, inputs))
            if not self._shows(module.clone(), inputs):
                return False
        self.module, self.inputs = module, inputs
        return True

    def _with_new(self, module: ModuleOp, before: int) -> Inputs:
        """The inputs with values for the arguments that an edit added: what the ops in whose place they are gave."""
        added = entry_block(module).args[before:]
        if self.inputs is None or not added:
            return self.inputs
        asked = self.module.clone()
        values = programs.values_of(asked)
        programs.return_only(asked, [values[at] for at in self._replaced])
        return [*self.inputs, *run(asked, self.inputs).values]

    def _try_all(self, find: Callable[[], Iterator[Edit]]) -> None:
        """Tries edits until none of them makes the program smaller. What was found changes what there is to try."""
        changed = True
        while changed and not self._is_late():
            changed = False
            for edit in find():
                if self._is_late():
                    return
                if self._attempt(edit):
                    changed = True
                    break

    # -- edits of @main -----------------------------------------------------------------------------------------------

    _replaced: Sequence[int] = ()

    def _last_needed(self) -> None:
        """Finds the first value of `@main` that shows it alone, by halves, when there are many."""
        count = len(programs.values_of(self.module))
        low, high = 0, count - 1
        while high - low > 8 and not self._is_late():
            middle = (low + high) // 2
            if self._attempt(_returning(middle)):
                high = min(middle, len(programs.values_of(self.module)) - 1)
            else:
                low = middle + 1

    def _results(self) -> Iterator[Edit]:
        count = len(programs.last_of(self.module).operands)
        if count > 1:
            for position in range(count):
                yield _keeping(position)
        if not isinstance(entry_function(self.module), host.FuncOp):
            for position in range(len(programs.values_of(self.module))):
                yield _returning(position)

    def _chunks(self) -> Iterator[Edit]:
        """Ops of `@main`, many at a time and then one by one, become arguments."""
        count = len(programs.values_of(self.module))
        length = count
        while length:
            for first in range(0, count, length):
                self._replaced = range(first, min(first + length, count))
                yield _given(self._replaced)
            length //= 2

    def _host(self) -> Iterator[Edit]:
        if not isinstance(entry_function(self.module), host.FuncOp):
            return
        for position, op in enumerate(ops_of(entry_block(self.module))):
            if not op.has_trait(IsTerminator):
                yield _without(position)
                if isinstance(op, host.LaunchOp):
                    yield _without_launch(position)

    # -- edits of bodies ----------------------------------------------------------------------------------------------

    def _bodies(self) -> Iterator[Edit]:
        ops = all_ops(self.module)
        inner = [at for at, op in enumerate(ops) if _is_inside(op)]
        length = len(inner) // 2
        while length > 1:
            for first in range(0, len(inner), length):
                yield _erased(inner[first : first + length])
            length //= 2
        for at in reversed(inner):
            op = ops[at]
            if not op.results:
                yield _erased([at])
                continue
            if isinstance(op, elem.ConstantOp):
                continue
            for behind in _behind(op):
                yield _by_value(at, behind)
            for value in (1, -1) if self.signs else (1,):
                yield _erased([at], value)

    # -- sizes --------------------------------------------------------------------------------------------------------

    def _shrink(self) -> None:
        """Tries smaller sizes, one number of the text at a time, wherever it stands."""
        text = print_text(self.module, locations=True)
        numbers = sorted({int(one) for one in re.findall(r"(?<=[<x])\d+(?=x)|(?<=: )\d+(?=[,)])", text)}, reverse=True)
        for number in numbers:
            for smaller in _SIZES:
                if smaller >= number or self._is_late():
                    break
                other = re.sub(rf"(?<![\w.%#@])(?<!-){number}(?=x|\b(?!\.))|(?<=\dx){number}(?=x)", str(smaller), text)
                try:
                    module = CuestaParser(make_context(), other, "<smaller>").parse_module()
                except Exception:  # noqa: BLE001  # sizes that do not fit one another
                    continue
                if self._shows(module.clone(), None):
                    self.module, text = module, other
                    break


class Through:
    """What is asked of the program that stages make of one: whether that still shows it."""

    def __init__(self, stages: Sequence[Stage], still: Still) -> None:
        self.stages = stages
        self.still = still

    def __call__(self, module: ModuleOp, inputs: Sequence[Any]) -> bool:
        """Runs the stages; a program that they refuse shows nothing."""
        try:
            run_pipeline(make_context(), module, self.stages)
        except Exception:  # noqa: BLE001  # stages that are given what is left of a program
            return False
        return self.still(module, inputs)


def reduced_through(
    module: ModuleOp, stages: Sequence[Stage], inputs: Inputs, still: Still, *, seconds: float
) -> tuple[ModuleOp, Inputs, int]:
    """A program made smaller before its stages, taken through them; its inputs; and how many were tried. Where that
    cannot be shown, because the stages behave otherwise than they did, the program as it was.
    """
    reducer = Reducer(module, inputs, Through(stages, still), seconds=seconds)
    small, given = reducer.reduce()
    run_pipeline(make_context(), small, stages)
    return small, given, reducer.tried


def _elements(module: ModuleOp) -> int:
    """The elements of all arguments, as far as they are numbers."""
    sizes = [sizes_of(one.type) for one in entry_block(module).args if is_tensor_type(one.type)]
    return sum(math.prod(size for size in each if isinstance(size, int)) for each in sizes)


def _negative(inputs: Sequence[Any]) -> list[Any]:
    return [-one.abs() - 1 if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs]


def _returning(position: int) -> Edit:
    def edit(module: ModuleOp) -> bool:
        programs.return_only(module, [programs.values_of(module)[position]])
        return True

    return edit


def _keeping(position: int) -> Edit:
    def edit(module: ModuleOp) -> bool:
        programs.return_only(module, [programs.last_of(module).operands[position]])
        return True

    return edit


def _given(positions: Sequence[int]) -> Edit:
    def edit(module: ModuleOp) -> bool:
        values = programs.values_of(module)
        for at in positions:
            programs.as_argument(module, values[at])
        return True

    return edit


def _without(position: int) -> Edit:
    def edit(module: ModuleOp) -> bool:
        op = ops_of(entry_block(module))[position]
        if isinstance(op, host.AllocOp):  # an argument is no memory to write to
            return False
        for result in op.results:
            programs.as_argument(module, result)
        op.detach()
        op.erase()
        return True

    return edit


def _without_launch(position: int) -> Edit:
    """A launch goes, and the buffers that it alone writes become arguments."""

    def edit(module: ModuleOp) -> bool:
        op = ops_of(entry_block(module))[position]
        buffers = [operand for operand in op.operands if isinstance(operand.owner, host.AllocOp)]
        op.detach()
        op.erase()
        for buffer in buffers:
            programs.as_argument(module, buffer)
        return bool(buffers)

    return edit


def _is_inside(op: Operation) -> bool:
    parent = op.parent_op()
    return (
        parent is not None
        and not isinstance(parent, ModuleOp)
        and not op.has_trait(IsTerminator)
        and (isinstance(parent, loops.DomainOp) or parent.name.startswith("kernel."))
    )


def _erased(positions: Sequence[int], value: int = 1) -> Edit:
    def edit(module: ModuleOp) -> bool:
        ops = all_ops(module)
        for at in reversed(positions):
            op = ops[at]
            if op.parent is None:
                continue
            if _by_constants(op, value):
                op.detach()
                op.erase()
        return True

    return edit


def _by_constants(op: Operation, value: int) -> bool:
    """Puts constants in the place of the results of an op; whether that can be done."""
    constants = [_constant(result.type, value) for result in op.results]
    block = op.parent
    if block is None or any(one is None for one in constants):
        return False
    for result, one in zip(op.results, constants, strict=True):
        assert one is not None
        if result.first_use is not None:
            block.insert_op_before(one, op)
            replace_all_uses(result, one.results[0])
    return True


_STEPS = 3


def _behind(op: Operation) -> list[tuple[int, ...]]:
    """The values of the type of an op's only result that it is computed from, the farthest first: which operand, which
    operand of the op that gives that, and so on, a few steps far.
    """
    if len(op.results) != 1:
        return []
    kind, found = op.results[0].type, list[tuple[int, ...]]()
    work: list[tuple[Operation, tuple[int, ...]]] = [(op, ())]
    while work:
        user, path = work.pop(0)
        for number, operand in enumerate(user.operands):
            way = (*path, number)
            if operand.type == kind:
                found.append(way)
            if len(way) < _STEPS and isinstance(operand.owner, Operation) and not operand.owner.regions:
                work.append((operand.owner, way))
    return found[::-1]


def _by_value(position: int, way: Sequence[int]) -> Edit:
    def edit(module: ModuleOp) -> bool:
        op = all_ops(module)[position]
        value, owner = op.results[0], op
        for number in way:
            value = owner.operands[number]
            if isinstance(value.owner, Operation):
                owner = value.owner
        replace_all_uses(op.results[0], value)
        op.detach()
        op.erase()
        return True

    return edit


def _constant(kind: Attribute, value: int) -> Operation | None:
    return elem.constant(value if elem.kind_of(kind) in "fi" else 1, kind) if elem.kind_of(kind) in "fiub" else None


__all__ = ["Inputs", "Reducer", "Still", "Through", "reduced_through"]
