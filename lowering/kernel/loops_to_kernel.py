"""`loops-to-kernel`: every nest becomes a kernel and its launch; nests that are alike share one kernel.

%y = loops.nest (%i : 4096) outs(%o : tensor<4096xf32>) { … }
→
kernel.func @exp_0(%x : !kernel.ptr<f32>) outs(%o : …) schedule #kernel.schedule<grid = [1], …> { … }
%y = kernel.launch @exp_0(%x) : (tensor<4096xf32>) -> (tensor<4096xf32>)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, kernel, loops
from cuesta.dialects.core.devices import DeviceTraits
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block, entry_function, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint, fingerprint_region
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import all_ops, replace_all_uses
from cuesta.dialects.core.structs import struct
from cuesta.dialects.kernel.descriptors import described_loads
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.kernel.kernel_builder import KernelBuilder
from cuesta.lowering.kernel.kernel_names import describe
from cuesta.lowering.kernel.sliding_builder import SlidingBuilder
from cuesta.lowering.schedule.choosers import choose_schedule
from cuesta.transforms.devices import DEVICE, traits_for


@dataclass(frozen=True)
class LoopsToKernelPass(ModulePass):
    """Lowers every `loops.nest` to a `kernel.func` and a `kernel.launch`: chooses a schedule, and writes the kernel.

    Requires: a `loops.view` that a load reads is one that strides can say; who meets has counters.
    """

    name = "loops-to-kernel"

    target: str = DEVICE
    """Whose schedule to use: that of the device the results lie on, or else that of `cpu`, `cuda`, …"""

    def apply(self, ctx: Context, op: builtin.ModuleOp) -> None:
        lower_nests(op, machine_of(op), self.target)


def nests_of(module: builtin.ModuleOp) -> list[loops.NestOp]:
    """The nests of @main, in order."""
    return [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


@struct
class _Lowered:
    kernel: kernel.FuncOp
    kept: tuple[int, ...]
    """The outs that are results of the launch; the others are scratch memory."""


def lower_nests(module: builtin.ModuleOp, machine: Machine, target: str = DEVICE) -> None:
    """Replaces every nest of @main by a launch; nests that are alike are scheduled once, and kernels that are alike
    written once.

    Errors: CuestaError when the module is not in the state this lowering requires.
    """
    main = entry_function(module)
    ranges = symbol_ranges(module)
    known: dict[tuple[Fingerprint, tuple[bool, ...]], _Lowered] = {}
    written: dict[tuple[object, ...], _Lowered] = {}
    keys: dict[int, Hashable] = {}
    for nest in nests_of(module):
        used = tuple(result.first_use is not None for result in nest.results)
        if not any(used):
            used = (True, *used[1:])  # what it does may still be an IndexError
        taken_over = list(nest.operands)
        used = (*used[: len(used) - len(taken_over)], *(True for _ in taken_over))
        inputs = [*captures(nest), *taken_over]
        key = (fingerprint(nest), used)
        lowered = known.get(key)
        if lowered is None:
            traits = traits_for(nest, target)
            name = f"{describe(nest)}_{len(known)}"
            new = _lower(analyse(nest, ranges, used), machine, traits, name)
            # Tensors of other shapes may be the same axes.
            lowered = known[key] = written.setdefault(_text_of(new, keys), new)
            if lowered is new:
                Rewriter.insert_op(lowered.kernel, InsertPoint.before(main))
        launch = kernel.LaunchOp.build(
            lowered.kernel.sym_name, inputs, [nest.results[position].type for position in lowered.kept]
        )
        launch.location = nest.location
        Rewriter.insert_op(launch, InsertPoint.before(nest))
        for position, result in zip(lowered.kept, launch.results, strict=True):
            replace_all_uses(nest.results[position], result)
            result.name_hint = nest.results[position].name_hint
        nest.detach()
        nest.erase()


def _text_of(lowered: _Lowered, keys: dict[int, Hashable]) -> tuple[object, ...]:
    """What a kernel is, but for its name."""
    func = lowered.kernel
    properties = tuple((key, value) for key, value in sorted(func.properties.items()) if key != "sym_name")
    return fingerprint_region(func.regions[0], keys=keys), properties, lowered.kept


def _lower(analysis: NestAnalysis, machine: Machine, traits: DeviceTraits, name: str) -> _Lowered:
    merge_axes(analysis)
    schedule = choose_schedule(analysis, machine, traits)
    builder = SlidingBuilder if schedule.slides else KernelBuilder
    func = builder(analysis, schedule).build(name)
    described_loads(func)  # or an error, where the schedule asks for what cannot be
    kept = tuple(position for position, handle in enumerate(analysis.nest.handles) if handle not in schedule.locals)
    return _Lowered(func, kept)


def captures(nest: loops.NestOp) -> list[SSAValue]:
    """The tensors that a nest reads from outside, in order of first use.

    Errors: CuestaError when one is a `loops.view` that strides cannot say, or when something else than a load reads
    from outside.
    """
    found: dict[SSAValue, None] = {}
    outside = nest.parent_block()
    for op in all_ops(nest):
        if isinstance(op, elem.ElementwiseOp) or op is nest:
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
            if isinstance(owner, loops.ViewOp) and not owner.is_alias:
                raise CuestaError(Diagnostic.on(op, "reads a loops.view that strides cannot say"))
            found[operand] = None
    return list(found)
