"""`loops-to-kernel`: every nest becomes a kernel and its launch; nests that are alike share one kernel.

%y = loops.nest (%i : 4096) outs(%o : tensor<4096xf32>) { … }
→
kernel.func @exp_0(%x : !kernel.ptr<f32>) outs(%o : …) schedule #kernel.schedule<grid = [1], …> { … }
%y = kernel.launch @exp_0(%x) : (tensor<4096xf32>) -> (tensor<4096xf32>)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from cuesta.dialects import elem, kernel, loops, sym
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.layout import traits_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.lowering.kernel.eviction import hint_loads
from cuesta.lowering.kernel.kernel_builder import KernelBuilder
from cuesta.lowering.kernel.kernel_names import describe
from cuesta.lowering.kernel.meeting_builder import MeetingBuilder, add_counters
from cuesta.lowering.kernel.sliding_builder import SlidingBuilder
from cuesta.lowering.schedule.cpu import schedule_cpu
from cuesta.lowering.schedule.gpu import schedule_choices, schedule_gpu
from cuesta.lowering.schedule.merge_axes import merge_axes
from cuesta.lowering.schedule.schedule import Schedule
from cuesta.lowering.schedule.spread_scans import spread_scans
from cuesta.transforms.reductions import column_sums_gpu, split_reductions_gpu
from cuesta.transforms.reductions.split_reductions import split_reductions
from cuesta.transforms.scatters import split_scatters_gpu
from cuesta.transforms.scatters.split_scatters import split_scatters

_ELEMENTWISE = frozenset(
    [*elem.OPS.values(), elem.BitcastOp, elem.ConstantOp, elem.ConvertOp, elem.PhiloxOp, elem.SelectOp]
)

Chooser = Callable[[NestAnalysis], Schedule]


@dataclass(frozen=True)
class LoopsToKernelPass(ModulePass):
    """Lowers every `loops.nest` to a `kernel.func` and a `kernel.launch`.

    Requires: no load reads a `loops.view`.
    """

    name = "loops-to-kernel"

    target: str = "device"
    """Whose schedule to use: that of the device the results lie on, or else `cpu` or `cuda`."""
    lanes: int = 8
    """The lanes of the processor's vectors of f32, a power of two."""
    processors: int = 132
    """The number of the GPU's multiprocessors."""
    split: bool = True
    """Whether large reductions with little around them, and large scatters, become two kernels, for the sake of the
    threads.
    """

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        updates: dict[loops.NestOp, list[SSAValue]] = {}
        atomic: dict[loops.NestOp, list[SSAValue]] = {}
        if self.split:
            nests = [nest for nest in nests_of(op) if not nest.choices]  # who says how a nest runs means this nest
            split_reductions([nest for nest in nests if not self.is_for_gpu(nest)], symbol_ranges(op))
            on_gpu = [nest for nest in nests_of(op) if self.is_for_gpu(nest)]
            joint = column_sums_gpu.sum_columns_with_rows(on_gpu, self.processors)
            in_parts = [
                nest for nest in nests_of(op) if not nest.choices or {"part", "cooperative"} & nest.choices.keys()
            ]
            split_reductions_gpu.split_reductions([nest for nest in in_parts if self.is_for_gpu(nest)], self.processors)
            nests = nests_of(op)
            updates = split_scatters([nest for nest in nests if not self.is_for_gpu(nest)])
            atomic = split_scatters_gpu.split_scatters(
                [nest for nest in nests if self.is_for_gpu(nest) and nest not in joint]
            )
        counters = add_counters([nest for nest in nests_of(op) if self.is_for_gpu(nest)])
        lower_nests(op, self.chooser(), updates | atomic, frozenset(atomic), counters)

    def chooser(self) -> Chooser:
        """The function that chooses the schedule of a nest.

        Errors: PassFailedException for an option that has no meaning.
        """
        if self.target not in ("device", "cpu", "cuda"):
            known = "'device', 'cpu' and 'cuda'"
            raise PassFailedException(f"loops-to-kernel: no target is called {self.target!r}; there are {known}")
        if self.lanes < 1 or self.lanes & (self.lanes - 1):
            raise PassFailedException(f"loops-to-kernel: lanes = {self.lanes} is not a power of two")
        cpu = schedule_cpu.CpuOptions(self.lanes)
        gpu = schedule_gpu.GpuOptions(self.processors)

        def choose(analysis: NestAnalysis) -> Schedule:
            if self.is_for_gpu(analysis.nest):
                return schedule_choices.choose(analysis, gpu)
            return schedule_cpu.choose(analysis, cpu)

        return choose

    def is_for_gpu(self, nest: loops.NestOp) -> bool:
        """Whether a nest is scheduled for the GPU."""
        return traits_of(nest.results[0]).blocks if self.target == "device" else self.target == "cuda"


def nests_of(module: builtin.ModuleOp) -> list[loops.NestOp]:
    """The nests of @main, in order."""
    return [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


@dataclass(frozen=True, slots=True)
class _Lowered:
    kernel: kernel.FuncOp
    kept: tuple[int, ...]
    """The outs that are results of the launch; the others are scratch memory."""


def lower_nests(
    module: builtin.ModuleOp,
    choose: Chooser,
    updates: Mapping[loops.NestOp, Sequence[SSAValue]],
    atomic: Collection[loops.NestOp] = (),
    counters: Mapping[loops.NestOp, SSAValue] | None = None,
) -> None:
    """Replaces every nest of @main by a launch; `choose` gives the schedule of each distinct one. `updates` is what
    `split_scatters` gave; those in `atomic` may change elements in any order; `counters` are for those that meet.

    Errors: CuestaError when the module is not in the state this lowering requires.
    """
    main = entry_function(module)
    ranges = symbol_ranges(module)
    now: dict[SSAValue, SSAValue] = {}
    known: dict[tuple[Fingerprint, tuple[bool, ...], int], _Lowered] = {}
    for nest in nests_of(module):
        used = tuple(result.first_use is not None for result in nest.results)
        if not any(used):
            used = (True, *used[1:])  # what it does may still be an IndexError
        taken_over = updates.get(nest, ())
        used = (*used[: len(used) - len(taken_over)], *(True for _ in taken_over))
        count = () if counters is None or nest not in counters else (counters[nest],)
        inputs = [*captures(nest), *(now.get(value, value) for value in (*taken_over, *count))]
        key = (fingerprint(nest), used, len(taken_over))
        lowered = known.get(key)
        if lowered is None:
            name = f"{describe(nest)}_{len(known)}"
            lowered = known[key] = _lower(nest, ranges, used, choose, name, nest in atomic)
            if taken_over:
                lowered.kernel.properties["updates"] = builtin.IntegerAttr(len(taken_over), builtin.i64)
            Rewriter.insert_op(lowered.kernel, InsertPoint.before(main))
        launch = kernel.LaunchOp.build(
            lowered.kernel.sym_name,
            inputs,
            [*(nest.results[position].type for position in lowered.kept), *(value.type for value in count)],
        )
        launch.location = nest.location
        Rewriter.insert_op(launch, InsertPoint.before(nest))
        for position, result in zip(lowered.kept, launch.results, strict=not count):
            now[nest.results[position]] = result
            replace_all_uses(nest.results[position], result)
            result.name_hint = nest.results[position].name_hint
        nest.detach()
        nest.erase()


def _lower(
    nest: loops.NestOp, ranges: sym.SymbolRanges, used: tuple[bool, ...], choose: Chooser, name: str, atomic: bool
) -> _Lowered:
    analysis = analyse(nest, ranges, used)
    if atomic:
        spread_scans(analysis)
    merge_axes(analysis)
    schedule = choose(analysis)
    on_gpu = schedule.choices.get("target") == "cuda"
    builder = SlidingBuilder if schedule.slides else MeetingBuilder if analysis.meeting and on_gpu else KernelBuilder
    func = builder(analysis, schedule).build(name)
    if on_gpu:
        hint_loads(func, nest.choices.get("reread"))
    kept = tuple(position for position, handle in enumerate(nest.handles) if handle not in schedule.locals)
    return _Lowered(func, kept)


def captures(nest: loops.NestOp) -> list[SSAValue]:
    """The tensors that a nest reads from outside, in order of first use.

    Errors: CuestaError when one is a `loops.view`, or when something else than a load reads from outside.
    """
    found: dict[SSAValue, None] = {}
    outside = nest.parent_block()
    for op in nest.walk():
        if type(op) in _ELEMENTWISE:
            continue
        for operand in op.operands:
            if operand in found:
                continue
            owner = operand.owner
            block = owner if isinstance(owner, Block) else owner.parent
            if block is not outside:
                continue
            if not isinstance(op, loops.LoadOp) or operand is not op.source:
                raise CuestaError(Diagnostic.on(op, "inside a loops.nest, a value from outside can only be loaded"))
            if isinstance(owner, loops.ViewOp):
                raise CuestaError(Diagnostic.on(op, "reads a loops.view, which eliminate-views should have removed"))
            found[operand] = None
    return list(found)
