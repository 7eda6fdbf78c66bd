"""The kernel whose machine code gives something else than its text means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from cuesta.bisecting import programs
from cuesta.bisecting.finding import Finding, Report
from cuesta.bisecting.judging import Outcome, copied, inputs_for, run
from cuesta.bisecting.reducing import Reducer, reduced_through
from cuesta.bisecting.rewrites import Rewrite
from cuesta.bisecting.stages import Walked
from cuesta.bisecting.subjects import Machine, Subject
from cuesta.bisecting.suspects import Spectrum
from cuesta.dialects import elem, host, kernel
from cuesta.dialects.aten.arguments import CallArguments, Operand
from cuesta.dialects.core.entry import entry_block, entry_function
from cuesta.dialects.core.operation import PlainBlock, all_ops, ops_of
from cuesta.dialects.layout import device_of, is_tensor_type
from cuesta.replaying.comparing import compare_results
from cuesta.targets.reference.program import run_and_watch
from cuesta.transforms.host.aliasing import memory_of


def compiled(module: ModuleOp) -> Callable[[list[Any]], Any]:
    """The machine code of a program at `host`: a function of the list of its arguments, which it empties.

    Errors: whatever compiling it raises.
    """
    from cuesta.code_generation import generate
    from cuesta.finishing import load_program
    from cuesta.record import CompileRecord

    record = CompileRecord(kind="inference")
    generated = generate(module, record)
    return load_program(generated.program, record, generated.in_eager)


def run_compiled(module: ModuleOp, inputs: Sequence[Any]) -> list[Any]:
    """What the machine code of a program at `host` gives on copies of the inputs, which lie where its types say.

    Errors: whatever compiling or running it raises.
    """
    from cuesta.programs.inputs_of import moved

    return list(compiled(module)(moved(copied(inputs), module)))


def wrong_kernel(
    subject: Subject,
    walked: Walked,
    inputs: Sequence[Any],
    *,
    seconds: float,
    start: float,
    told: Report = lambda _: None,
) -> Finding | None:
    """The first launch of a program whose machine code differs from the interpreter, with a program of that kernel
    alone; None when the program's machine code is right, or nothing but rounding tells it from the interpreter's.
    """
    machine = subject.machine or run_compiled
    program = walked.last
    found = _first_wrong(program, inputs, machine)
    if found is None:
        problem = how_compiled_differs(program, inputs, machine)
        if problem is None:
            return None
        return _around_kernels(program, subject, problem, seconds=seconds, start=start, machine=machine)
    told(f"@{found[0].kernel}: {found[2]}")
    launch, arguments, problem = found
    tried = 0
    if subject.stages:
        small, given, tried = reduced_through(
            subject.module, subject.stages, subject.inputs, _Shows(machine, Spectrum()), seconds=seconds / 2
        )
        if (smaller := _first_wrong(small, inputs_for(small, given), machine)) is not None:
            program, (launch, arguments, _) = small, smaller
    alone = launched_alone(program, launch)
    spectrum = Spectrum()
    shows = _Shows(machine, spectrum)
    reducer = Reducer(alone, arguments, shows, seconds=seconds / 2, signs=True)
    module, given = reducer.reduce()
    target = target_name(launch)
    return Finding(
        "kernel",
        target,
        problem,
        suspected_op(module, spectrum),
        module,
        given,
        programs.size_of(module)[1],
        kernel=found[0].kernel,
        suspects=spectrum.likeliest(),
        seconds=perf_counter() - start,
        tried=tried + reducer.tried,
    )


def _around_kernels(
    program: ModuleOp, subject: Subject, problem: str, *, seconds: float, start: float, machine: Machine
) -> Finding:
    """Every kernel is right by itself: it is what runs around them, the wrapper or memory that they share."""
    spectrum = Spectrum()
    reducer = Reducer(program, subject.inputs, _Shows(machine, spectrum), seconds=seconds)
    module, given = reducer.reduce()
    return Finding(
        "wrapper",
        "host",
        problem,
        None,
        module,
        given,
        programs.size_of(module)[1],
        suspects=spectrum.likeliest(),
        seconds=perf_counter() - start,
        tried=reducer.tried,
    )


class _Shows:
    """Whether a program's machine code still differs from the interpreter."""

    def __init__(self, machine: Machine, spectrum: Spectrum) -> None:
        self.machine = machine
        self.spectrum = spectrum

    def __call__(self, module: ModuleOp, inputs: Sequence[Any]) -> bool:
        if not isinstance(entry_function(module), host.FuncOp) or not launches_what_it_returns(module):
            return False
        if run(module, inputs).error is not None:
            return False
        with self.spectrum.of_run() as noted:
            noted.ops = frozenset(op.name for op in _inside(module))
            noted.shows = how_compiled_differs(module, inputs, self.machine) is not None
        return noted.shows


def launches_what_it_returns(module: ModuleOp) -> bool:
    """Whether there is a launch, and none of the memory that is returned is nobody's to write."""
    launched = [op for op in ops_of(entry_block(module)) if isinstance(op, host.LaunchOp)]
    written = {one for op in launched for operand in op.operands for one in memory_of(operand)}
    returned = programs.last_of(module).operands
    return bool(launched) and all(one in written for one in returned if isinstance(one.owner, host.AllocOp))


def how_compiled_differs(module: ModuleOp, inputs: Sequence[Any], machine: Machine = run_compiled) -> str | None:
    """How what machine code gives differs from the interpreter, beyond rounding; None when it does not."""
    expected, truth = run(module, inputs), run(module, inputs, precise=True)
    if expected.error is not None:
        return None
    try:
        actual = machine(module, inputs)
    except Exception as error:  # noqa: BLE001  # a wrong program fails in whatever way it likes
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return differing(actual, expected, truth)


def differing(actual: Sequence[Any], expected: Outcome, truth: Outcome) -> str | None:
    """How results of machine code differ from what they are to be."""
    wanted = [*expected.values][: len(actual)]
    true = [*truth.values][: len(actual)] if truth.error is None else wanted
    for found in compare_results(actual, wanted, true, strides=False):
        if not found.passes:
            return str(found).removeprefix("FAIL ")
    return None


def _first_wrong(
    program: ModuleOp, inputs: Sequence[Any], machine: Machine
) -> tuple[host.LaunchOp, list[Any], str] | None:
    """The first launch that goes wrong, what it was launched with, and how."""
    seen = set[tuple[str, tuple[int, ...]]]()
    found: list[tuple[host.LaunchOp, list[Any], str]] = []

    def watch(op: Operation, tensors: Sequence[torch.Tensor]) -> None:
        if found or not isinstance(op, host.LaunchOp):
            return
        same = tuple(op.operands.index(operand) for operand in op.operands)
        if (op.kernel, same) in seen:
            return
        seen.add((op.kernel, same))
        alone = launched_alone(program, op)
        arguments = [tensors[at] for at in _given_at(program, op)]
        problem = how_compiled_differs(alone, copied(arguments), machine)
        if problem is not None:
            found.append((op, copied(arguments), problem))

    run_and_watch(program, copied(inputs), watch)
    return found[0] if found else None


def _kernel_of(program: ModuleOp, launch: host.LaunchOp) -> kernel.FuncOp:
    return next(op for op in program.body.ops if isinstance(op, kernel.FuncOp) and op.sym_name == launch.kernel)


def _given_at(program: ModuleOp, launch: host.LaunchOp) -> list[int]:
    """The operands of a launch that are there before it: its inputs, and outs that it changes. Each once."""
    func = _kernel_of(program, launch)
    fresh = range(len(func.inputs), len(func.body.args) - func.updates)
    first: dict[SSAValue, int] = {}
    for at, operand in enumerate(launch.operands):
        if at not in fresh:
            first.setdefault(operand, at)
    return list(first.values())


def launched_alone(program: ModuleOp, launch: host.LaunchOp) -> ModuleOp:
    """A program that launches one kernel once, on what it is given, and returns what it writes. An input that the
    kernel writes over is copied before.
    """
    func = _kernel_of(program, launch)
    given = _given_at(program, launch)
    main = entry_function(program)
    types: list[Attribute] = [launch.operands[at].type for at in given]
    block = PlainBlock(arg_types=types)
    values: dict[SSAValue, SSAValue] = {}
    outs = set[SSAValue](launch.operands[len(func.inputs) :])
    for at, argument in zip(given, block.args, strict=True):
        operand = launch.operands[at]
        argument.name_hint = operand.name_hint
        values[operand] = argument
        if operand in outs:
            call = host.ExternOp.of(
                "aten.clone.default",
                [argument],
                CallArguments.of((Operand(0),)),
                [argument.type],
                pure=False,
            )
            block.add_op(call)
            values[operand] = call.results[0]
    for operand in outs:
        if operand not in values:
            alloc = host.AllocOp.build(operand.type)
            block.add_op(alloc)
            values[operand] = alloc.result
    block.add_op(host.LaunchOp.build(launch.kernel, [values[operand] for operand in launch.operands]))
    returned = list(dict.fromkeys(values[operand] for operand in launch.operands[len(func.inputs) :]))
    block.add_op(host.ReturnOp.build(returned))
    attributes = {name: main.attributes[name] for name in ("sym.symbols",) if name in main.attributes}
    kind = FunctionType.from_lists(types, [value.type for value in returned])
    module = ModuleOp([func.clone(), host.FuncOp.build("main", kind, Region(block), attributes)])
    module.attributes.update(program.attributes)
    return module


def target_name(launch: host.LaunchOp) -> str:
    """The target that makes the machine code of a launch, by its name."""
    kind = launch.operands[-1].type
    return target_of_device(device_of(kind) if is_tensor_type(kind) else "cpu")


def target_of_device(device: str) -> str:
    """The name of the target that makes machine code for a device."""
    from cuesta.targets.lookup import running_on, target_of

    with running_on("device"):
        return target_of(device).name


def _inside(module: ModuleOp) -> list[Operation]:
    """The ops of the kernels of a program."""
    bodies = [op.body for op in module.body.ops if isinstance(op, kernel.FuncOp)]
    return [op for block in bodies for top in ops_of(block) for op in all_ops(top) if not op.has_trait(IsTerminator)]


_PLAIN = (kernel.LoadOp, kernel.StoreOp, kernel.ProgramIdOp, kernel.BroadcastOp, elem.ConstantOp, kernel.ForOp)
"""Ops that any kernel is made of."""


def suspected_op(module: ModuleOp, spectrum: Spectrum) -> Rewrite | None:
    """The op of a kernel that was made small whose code is suspected: of those that any kernel is made of only when
    there is no other but what masks are made of; and the function of the target that is suspected most.
    """
    suspects = spectrum.likeliest(1)
    place = suspects[0].partition("(")[2].rstrip(")") if suspects else ""
    inside = _inside(module)
    for_masks = _for_masks(inside)
    masked = [op for op in inside if isinstance(op, kernel.LoadOp | kernel.StoreOp) and op.mask is not None]
    for chosen in (
        [op for op in inside if not isinstance(op, _PLAIN) and op not in for_masks],
        masked,
        [op for op in inside if isinstance(op, kernel.ForOp) and op.lanes > 1],
        inside,
    ):
        if chosen:
            # Of equals it is the one around the others, or else the one that the others are for.
            _, best = max(
                enumerate(chosen), key=lambda at: (spectrum.score_of_op(at[1].name), bool(at[1].regions), at[0])
            )
            return Rewrite(best.name, place)
    return None


def _for_masks(ops: Sequence[Operation]) -> set[Operation]:
    """The ops whose results nothing but masks of accesses, and what these are made of, use."""
    found = set[Operation]()
    for op in reversed(ops):
        users = [use.operation for result in op.results for use in result.uses]
        if users and all(
            user in found or (isinstance(user, kernel.LoadOp | kernel.StoreOp) and user.mask in op.results)
            for user in users
        ):
            found.add(op)
    return found


__all__ = ["compiled", "how_compiled_differs", "launched_alone", "run_compiled", "target_of_device", "wrong_kernel"]
