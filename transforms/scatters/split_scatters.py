"""`split-scatters`: what a scatter starts from is made by a nest of its own; another one changes it.

    nest (%d : 64) outs(%o) { for (%r : 30000) { store 0, %o[%r, %d] }; scan (%t : 512) { combine sum %v, %o[…] } }
    →
    %f = nest (%d : 64, %r : 30000) outs(%o) { store 0, %o[%r, %d] }
    nest (%d : 64) outs(%o) updates(%f) { scan (%t : 512) { combine sum %v, %o[…] } }

Exact. On a processor where the start is large: it is then written in the order of memory, by all threads (`starts.py`).
On a GPU always, stage by stage, because what many programs change has to be there before (`stages.py`).
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block, entry_function, written_arguments
from cuesta.dialects.core.operation import ops_of
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.scatters.stages import take_apart
from cuesta.transforms.scatters.starts import split_start


class SplitScattersPass(DevicePass):
    """Takes scatters apart, where that pays, or where it must be.

    Near misses: an out that is stored in two places, or that an earlier stage reads; on a processor a small one, unless
    it ends up in an argument.
    """

    name = "split-scatters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block, count = entry_block(op), len(written_arguments(entry_function(op)))
        end = block.last_op
        written = end.operands[-count:] if end is not None and count else ()
        for nest in ops_of(block):
            if isinstance(nest, loops.NestOp):
                if traits_for(nest, self.target).atomics:
                    take_apart(nest)
                else:
                    split_start(nest, written)
