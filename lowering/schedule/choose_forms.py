"""`choose-forms`: tensor descriptors, and programs that do several tiles, for contractions that have their tiles.

    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<rows = 128, columns = 256, depth = 64, …> { … }
    →
    %y = loops.nest (%i : 4096, %j : 4096) … schedule #loops.schedule<…, descriptors = 1, programs = 132> { … }

It is the last to look at a nest before its kernel is written: where factors lie is final, and the kernel loads them
from the addresses that are there now: of these it is asked whether a descriptor can say so. Which form is the faster
one is estimated (`transforms/products/tiles.py`). A schedule that says `descriptors`, 0 or 1, or `programs` is left as
it is.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.core.tracing import chose, no_match
from cuesta.lowering.schedule.described import BITS, described, has_tiles
from cuesta.transforms.products.forms import form_for


class ChooseFormsPass(ModulePass):
    """A contraction of two factors that lie as they are read  ->  the same, with descriptors and the number of programs

    Near misses: a schedule that says so itself; a machine without descriptors; a factor that is computed, has other
    than 16 bits, or lies as no descriptor says; several sums; sizes that only the call knows. A tile of which there is
    no room for two, where programs would have several: a program has one.
    """

    name = "choose-forms"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        known: dict[Fingerprint, dict[str, int] | str] = {}
        for nest in ops_of(entry_block(op)):
            if not isinstance(nest, loops.NestOp) or not has_tiles(nest):
                continue
            key = fingerprint(nest)
            if key not in known:
                known[key] = form_of(nest, machine_of(op))
            form = known[key]
            if isinstance(form, str):
                no_match(nest, f"reads its factors by pointers, a program a tile: {form}")
                continue
            nest.properties["schedule"] = loops.ScheduleAttr.of({**nest.choices, **form})
            launched = form.get("programs", "one a tile")
            chose(nest, f"reads its factors by descriptors; programs of a launch: {launched}")


def form_of(nest: loops.NestOp, machine: Machine) -> dict[str, int] | str:
    """The choices that a contraction should have besides its own, or why none."""
    found = described(nest, machine)
    if isinstance(found, str):
        return found
    form = form_for(found.sizes, found.batch, BITS, machine, nest.choices, found.around)
    return form or "its tiles have no room for it"


__all__ = ["ChooseFormsPass"]
