"""From what was watched and measured to a `Graph`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host, kernel
from cuesta.dialects.aten import dtypes
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.layout import device_of, is_tensor, sizes_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.explain.calls import flops_of_call, operands_read
from cuesta.explain.counting import Counted
from cuesta.explain.machines import machine_at
from cuesta.explain.memory import Values, memory_of
from cuesta.explain.model import Call, Candidate, Event, Graph, Kernel, LevelText, Machine, Schedule, Step, Unseen
from cuesta.explain.nests import Facts, number_of
from cuesta.explain.nodes import type_text
from cuesta.explain.provenance import lines_of, nests_of, nodes_of
from cuesta.explain.rooflines import LEAST, least_time, roofline
from cuesta.explain.texts import level_text
from cuesta.explain.timed_writer import steps_of
from cuesta.explain.triton_text import UnreadableTextError, device_arithmetic
from cuesta.lowering.aten.library_calls import is_library_call

if TYPE_CHECKING:
    from cuesta.explain.measuring import Measured
    from cuesta.explain.watch import Watched

_KINDS = ((host.LaunchOp, "launch"), (host.ExternOp, "call"), (host.EagerOp, "call"), (host.AllocOp, "alloc"),
          (host.FreeOp, "free"), (host.ReinterpretOp, "alias"), (host.PlaceOp, "place"))  # fmt: skip


def graph_of(watched: Watched, number: int, measured: Measured, *, texts: bool = True) -> Graph:
    """All that is known of a graph. Without `texts`, the texts of the levels and of the kernels are left out."""
    return _Builder(watched, number, measured, texts).graph()


class _Builder:
    def __init__(self, watched: Watched, number: int, measured: Measured, texts: bool) -> None:
        self.watched = watched
        self.number = number
        self.measured = measured
        self.texts = texts
        self.sources = watched.sources
        self.node_positions = watched.positions()
        self.unseen: list[Unseen] = []
        self.kernels: list[Kernel] = []
        self.calls: list[Call] = []
        self.steps: list[Step] = []

    def graph(self) -> Graph:
        watched, record, measured = self.watched, self.watched.record, self.measured
        module = watched.module
        nodes = watched.traced.as_nodes(self.sources)
        levels = [LevelText("fx", "capture", "python", watched.traced.text), *watched.levels]
        if module is None:
            return Graph(
                number=self.number,
                kind=record.kind,
                outcome="eager",
                why=record.in_eager or "its compilation did not end",
                device=watched.traced.device,
                nodes=nodes,
                sources=self.sources.lines(),
                stages=tuple(watched.every_stage()),
                levels=tuple(levels[:1]) if self.texts else (),
                capture_seconds=record.capture_seconds,
                own_seconds=record.own_seconds,
                extensions=record.extensions,
            )
        ops = steps_of(module)
        last = watched.stages[-1].name if watched.stages else "import"
        parts = [[op for op in module.body.ops if isinstance(op, kind)] for kind in (kernel.FuncOp, host.FuncOp)]
        kernels, _ = level_text("kernel", last, parts[0], self.sources, self.node_positions)
        program, names = level_text("host", last, parts[1], self.sources, self.node_positions)
        values = Values(module, ops, watched.traced.hints, self.sources, names)
        self.add_steps(module, ops, values)
        memory = memory_of(values, len(ops))
        if self.texts:
            levels += [kernels, program, *self.code_levels()]
        if measured.why:
            self.unseen.append(Unseen("measured times", measured.why))
        self.tell_guesses()
        return Graph(
            number=self.number,
            kind=record.kind,
            outcome="compiled",
            device=watched.traced.device,
            nodes=nodes,
            values=tuple(values.values),
            steps=tuple(self.steps),
            kernels=tuple(self.kernels),
            calls=tuple(self.calls),
            refusals=tuple(watched.refusals),
            layouts=tuple(watched.layouts),
            memory=replace(memory, measured_peak_bytes=measured.peak_bytes),
            stages=tuple(watched.every_stage()),
            rewrites=tuple(watched.rules),
            levels=tuple(levels) if self.texts else (),
            events=self.events(),
            runs=measured.runs,
            whole_us=measured.whole,
            capture_seconds=record.capture_seconds,
            own_seconds=record.own_seconds,
            extensions=record.extensions,
            cuda_graph=record.cuda_graph,
            unseen=tuple(self.unseen),
            sources=self.sources.lines(),
        )

    def machine(self, device: str) -> Machine | None:
        """What a device can do, if times were measured to compare it with."""
        return machine_at(device) if self.measured.steps else None

    def add_steps(self, module: ModuleOp, ops: Sequence[Operation], values: Values) -> None:
        """The steps, and the kernels and calls among them."""
        functions = {op.sym_name: op for op in module.body.ops if isinstance(op, kernel.FuncOp)}
        launched: dict[str, list[int]] = {}
        for number, op in enumerate(ops):
            if isinstance(op, host.LaunchOp):
                launched.setdefault(op.kernel, []).append(number)
        positions = {name: position for position, name in enumerate(launched)}
        for number, op in enumerate(ops):
            kind = next((name for kinds, name in _KINDS if isinstance(op, kinds)), "other")
            reads = [values.number[one] for one in op.operands if one in values.number]
            writes = [values.number[one] for one in op.results if one in values.number]
            place, call = None, None
            name = op.name
            if isinstance(op, host.LaunchOp):
                place, name = positions[op.kernel], op.kernel
                outs = functions[op.kernel].num_outs
                operands = list(op.operands)
                inputs, outputs = operands[: len(operands) - outs], operands[len(operands) - outs :]
                reads = [values.number[one] for one in inputs if one in values.number]
                writes = [values.number[one] for one in outputs if one in values.number]
            elif isinstance(op, host.ExternOp | host.EagerOp):
                name, call = op.overload, len(self.calls)
                self.calls.append(self.call(op, number))
            where = self.sources.of(lines_of(op.location))
            time = self.measured.steps.get(number)
            nodes = tuple(self.node_positions[one] for one in nodes_of(op.location) if one in self.node_positions)
            self.steps.append(Step(kind, name, tuple(reads), tuple(writes), place, call, where, time, nodes))
        for name, numbers in launched.items():
            launches = [ops[number] for number in numbers]
            self.kernels.append(self.kernel(functions[name], launches, numbers))

    def facts(self, op: Operation) -> list[Facts]:
        """Of the nests that a launch runs."""
        nests = self.watched.nests
        return [nests[number].facts for number in nests_of(op.location) if number < len(nests)]

    def kernel(self, func: kernel.FuncOp, launches: Sequence[Operation], steps: Sequence[int]) -> Kernel:
        """One kernel of ours."""
        first = launches[0]
        facts = self.facts(first)
        device = device_of(tensor_type_of(first.operands[-1]))
        inside = [line for op in func.walk() for line in lines_of(op.location)]
        lines = self.sources.of([*(line for op in launches for line in lines_of(op.location)), *inside])
        nodes = [one for one in nodes_of(first.location) if one <= len(self.watched.numbered)]
        counts = [one.counted for one in facts if one.counted is not None]
        known = bool(counts) and len(counts) == len(facts)
        moved_in = sum(one.bytes_read for one in counts) if known else None
        moved_out = sum(one.bytes_written for one in counts) if known else None
        flops = sum(one.flops for one in counts) if known else None
        notes = dict.fromkeys(note for one in counts for note in one.notes)
        on_device = self.on_device(func, counts if known else (), notes)
        why_not = next((one.why_not for one in facts if one.why_not), "the program has no nest that it comes from")
        times = [self.measured.steps[step] for step in steps if step in self.measured.steps]
        measured = statistics.median(times) if times else None
        moved = moved_in + moved_out if moved_in is not None and moved_out is not None else None
        work = moved, on_device or flops, self.matrix(func, launches)
        fraction, bound = roofline(self.machine(device), measured, *work)
        predicted = [one.predicted_us for one in facts]
        total = sum(one for one in predicted if one is not None) if predicted and None not in predicted else None
        predicted_by = "; ".join(dict.fromkeys(one.predicted_by for one in facts))
        if total is None and (least := least_time(self.machine(device), *work)[0]) is not None:
            total, predicted_by = least, LEAST
        return Kernel(
            name=func.sym_name,
            device=device,
            sources=lines,
            operators=tuple(dict.fromkeys(self.watched.overloads[one - 1] for one in nodes)),
            nodes=tuple(self.watched.numbered[one - 1] for one in nodes),
            steps=tuple(steps),
            domain=" + ".join(dict.fromkeys(one.domain for one in facts)),
            bytes_read=moved_in,
            bytes_written=moved_out,
            flops=flops,
            special_functions=sum(one.special for one in counts) if known else None,
            device_flops=on_device,
            counted="; ".join(notes) if known else why_not,
            predicted_us=total,
            predicted_by=predicted_by,
            measured_us=measured,
            measured_how=self.how() if times else self.measured.why or "it did not run",
            roofline=fraction,
            bound=bound,
            schedule=self.schedule(func, facts),
            text=print_text(func) if self.texts else "",
        )

    def on_device(self, func: kernel.FuncOp, counts: Sequence[Counted], notes: dict[str, None]) -> int | None:
        """The arithmetic of a kernel for a GPU as its text has it, or else, with a note, as its nests have it."""
        if not func.is_for_gpu:
            return None
        try:
            return device_arithmetic(func, self.watched.traced.hints)
        except UnreadableTextError as error:
            if not counts:
                return None
            notes.setdefault(f"arithmetic on the device is that of the program, not of its threads: {error}", None)
            return sum(one.on_device for one in counts)

    @staticmethod
    def matrix(func: kernel.FuncOp, launches: Sequence[Operation]) -> str:
        """The type of the factors, if it is a product of matrices."""
        if not any(isinstance(op, kernel.ContractOp) for op in func.walk()):
            return ""
        return _short_type(launches[0].operands[0])

    def how(self) -> str:
        """How times were measured."""
        return f"the median of {self.measured.runs} runs, by {self.measured.clock}"

    @staticmethod
    def schedule(func: kernel.FuncOp, facts: Sequence[Facts]) -> Schedule:
        """The schedule, as the kernel says it."""
        said = str(func.schedule).removeprefix("#kernel.schedule")
        weighed = next((one.schedule for one in facts if one.schedule is not None), None)
        if weighed is None:
            return Schedule(Candidate(said), (), 1, "", "rules")
        chosen = weighed.chosen
        why = f"{chosen.schedule}{chosen.why and f'; {chosen.why}'}"
        return Schedule(
            Candidate(said, chosen.predicted_us, chosen.cost, why),
            weighed.rejected,
            weighed.considered,
            weighed.unit,
            weighed.chooser,
        )

    def call(self, op: host.ExternOp | host.EagerOp, step: int) -> Call:
        """A call of a library or of eager."""
        nodes = [one for one in nodes_of(op.location) if one <= len(self.watched.numbered)]
        hints = self.watched.traced.hints
        operands = operands_read(op)
        inputs = [_shape(one, hints) for one in operands if is_tensor(one)]
        outputs = [_shape(one, hints) for one in op.results if is_tensor(one)]
        shapes_in, shapes_out = [one for one in inputs if one is not None], [one for one in outputs if one is not None]
        moved_in, moved_out = (_bytes(side, hints) for side in (operands, op.results))
        if len(shapes_in) == len(inputs) and len(shapes_out) == len(outputs):
            flops, counted = flops_of_call(op, shapes_in, shapes_out)
        else:
            flops, counted = None, "sizes that only a run knows"
        time = self.measured.steps.get(step)
        moved = None if moved_in is None or moved_out is None else moved_in + moved_out
        tensors = [one for one in (*op.results, *operands) if is_tensor(one)]
        device = device_of(tensor_type_of(tensors[0])) if tensors else "cpu"
        factors = _short_type(tensors[-1]) if tensors else ""
        fraction, bound = roofline(self.machine(device), time, moved, flops, factors)
        least = least_time(self.machine(device), moved, flops, factors)[0]
        declined = [self.watched.declined[one] for one in nodes if one in self.watched.declined]
        if isinstance(op, host.EagerOp):
            kind, why = "eager", "no level can say it: eager runs it between the pieces of the program"
        elif is_library_call(op.overload):
            kind, why = "library", "a library's on purpose: nobody beats it there, or not yet"
        else:
            kind, why = "fallback", "there is no rule for it"
        return Call(
            overload=op.overload,
            kind=kind,
            why="; ".join(dict.fromkeys(declined)) if declined and kind == "fallback" else why,
            step=step,
            sources=self.sources.of(lines_of(op.location)),
            nodes=tuple(self.watched.numbered[one - 1] for one in nodes),
            bytes_read=moved_in,
            bytes_written=moved_out,
            flops=flops,
            counted=counted,
            predicted_us=least,
            predicted_by="nobody predicts what a library takes" if least is None else LEAST,
            measured_us=time,
            measured_how=self.how() if time is not None else self.measured.why or "it did not run",
            roofline=fraction,
            bound=bound,
        )

    def code_levels(self) -> list[LevelText]:
        """The generated code."""
        found: list[LevelText] = []
        for file, text in self.watched.texts.items():
            if file == "wrapper.py":
                plain = text.partition("\n\ndef call_timed(")[0]
                found.append(LevelText("wrapper", "code", "python", plain + "\n"))
            elif text:
                language = "llvm" if file.endswith(".ll") else "python"
                found.append(LevelText("llvm" if language == "llvm" else "triton", "code", language, text))
        return found

    def events(self) -> tuple[Event, ...]:
        """One run: the steps one after the other."""
        found: list[Event] = []
        start = 0.0
        for number, step in enumerate(self.steps):
            if step.measured_us is not None:
                found.append(Event(step.name, step.kind, start, step.measured_us, number, self.number))
                start += step.measured_us
        return tuple(found)

    def tell_guesses(self) -> None:
        """What could not be known of kernels and calls, once for all of them."""
        lost = [one.name for one in self.kernels if not one.sources]
        lost += [one.overload for one in self.calls if not one.sources]
        if lost:
            self.unseen.append(Unseen(f"the model's lines of {', '.join(lost)}", "PyTorch kept no stack trace for it"))
        uncounted = [one.name for one in self.kernels if one.bytes_read is None]
        if uncounted:
            why = next(one.counted for one in self.kernels if one.bytes_read is None)
            self.unseen.append(Unseen(f"bytes and arithmetic of {', '.join(uncounted)}", why))


def _shape(value: SSAValue, hints: Mapping[str, int]) -> tuple[int, ...] | None:
    sizes = [number_of(size, hints) for size in sizes_of(tensor_type_of(value))]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _bytes(values: Sequence[SSAValue], hints: Mapping[str, int]) -> int | None:
    total = 0
    for one in dict.fromkeys(value for value in values if is_tensor(value)):
        shape = _shape(one, hints)
        if shape is None:
            return None
        total += math.prod(shape) * byte_width(one)
    return total


def _short_type(value: SSAValue) -> str:
    """`f32`: the element type, as machines name it."""
    dtype = dtypes.type_to_dtype(tensor_type_of(value).element_type)
    return type_text(str(dtype).removeprefix("torch."), ()).removesuffix("[]")


__all__ = ["graph_of"]
