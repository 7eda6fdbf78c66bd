"""`choose-parts`: whether the reductions of a nest are to be computed in parts is written down as a choice of the nest.

    loops.nest () outs(…) { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest () outs(…) schedule #loops.schedule<part = 32768> { %s = sum (%j : 1048576) of f(%j); store g(%s) }

Nothing else is changed: `split-reductions` obeys.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.machine import machine_of
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.reductions.when import choose_part_on_gpu
from cuesta.transforms.reductions.when_on_cpu import choose_part


class ChoosePartsPass(DevicePass):
    """Chooses the parts of reductions, by `when.py` and `when_on_cpu.py`. Who says how a nest runs means the nest as it
    is.
    """

    name = "choose-parts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine, ranges = machine_of(op), symbol_ranges(op)
        for nest in entry_block(op).ops:
            if not isinstance(nest, loops.NestOp) or nest.choices or nest.operands:
                continue
            on_gpu = traits_for(nest, self.target).blocks
            choices = choose_part_on_gpu(nest, machine) if on_gpu else choose_part(nest, ranges, machine)
            if choices:
                nest.properties["schedule"] = loops.ScheduleAttr.of(choices)
