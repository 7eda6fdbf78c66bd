"""`split-reductions`: what a nest's schedule says of parts is done: `#loops.schedule<part = 32768>`.

    loops.nest () { %s = sum (%j : 1048576) of f(%j); store g(%s) }
    →
    loops.nest (%p : 32) { %s = sum (%j : 32768) of f(%p · 32768 + %j); store %s to %t[%p] }
    loops.nest () { %s = sum (%p : 32) of %t[%p]; store g(%s) }

Sizes that are known at run time only make parts of one size, as many as there are, and a rest:

    loops.nest () { sum (%j : s0) of f(%j) }
    →
    loops.nest (%p : s0 floordiv 4096) { sum (%j : 4096) of f(%p · 4096 + %j) }
    loops.nest () { sum (%p : s0 floordiv 4096) of %t[%p] + sum (%j : s0 mod 4096) of f(s0 floordiv 4096 · 4096 + %j) }

On a GPU the same where a reduction needs another (`laws.py`), and where loops come after them: softmax and norms of
long rows become parts that one tile holds, their combination, and a nest that is parallel in every element; or, with
`cooperative = 1`, one nest whose points have a part of a row each, and meet (`cooperation.py`). `parts.py` writes all.
Scans become scans of parts (`scans_in_parts.py`), contractions products of parts (`products_in_parts.py`).

Reassociates. NaN and infinities come out the same, and the result does not depend on the number of threads.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cuesta.dialects import loops
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.machine import Machine, machine_of
from cuesta.dialects.core.operation import ops_of
from cuesta.dialects.loops.analysis import analyse
from cuesta.dialects.loops.surgery import is_pointwise
from cuesta.transforms.devices import DevicePass, traits_for
from cuesta.transforms.products.products_in_parts import product_in_parts
from cuesta.transforms.reductions import when
from cuesta.transforms.reductions.cooperation import cooperate_in_parts
from cuesta.transforms.reductions.domains import Runs, split_domain
from cuesta.transforms.reductions.members import members_of, plain_members
from cuesta.transforms.reductions.parts import split_in_parts
from cuesta.transforms.reductions.scans_in_parts import split_scan, splittable_scan
from cuesta.transforms.reductions.when import choose_part_on_gpu, is_static

OF_MEETING = ("ahead", "warps")
"""What a schedule may say beside parts that meet, of the nest that they stay."""


class SplitReductionsPass(DevicePass):
    """Computes the reductions of a nest in parts where its schedule says how many points each has.

    Near miss: a nest that says nothing. One that says it and cannot be split is an error: somebody asked for it.
    """

    name = "split-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        machine = machine_of(op)
        for nest in ops_of(entry_block(op)):
            if isinstance(nest, loops.NestOp) and {"part", "cooperative"} & nest.choices.keys():
                if "depth" in nest.choices and traits_for(nest, self.target).blocks:
                    split_product(nest)
                    continue
                check_alone(nest)
                if traits_for(nest, self.target).blocks:
                    split_on_gpu(nest, machine)
                else:
                    split(nest)


def check_alone(nest: loops.NestOp) -> None:
    """Errors: CuestaError for what a schedule says beside parts, and nobody would obey: the nests that take the place
    of this one have schedules of their own. Programs that meet are one nest still, with so many warps.
    """
    obeyed = {"part", "cooperative", *(OF_MEETING if nest.choices.get("cooperative", 0) else ())}
    if others := [name for name in nest.choices if name not in obeyed]:
        message = f"its schedule says {', '.join(others)} beside parts, whose nests have schedules of their own"
        raise CuestaError(Diagnostic.on(nest, message))


def split(nest: loops.NestOp) -> None:
    """Replaces a nest by one with the parts and one that combines them.

    Errors: CuestaError when the nest cannot be split as its schedule says.
    """
    part = nest.choices.get("part", 0)
    if nest.choices.get("cooperative", 0):
        raise CuestaError(Diagnostic.on(nest, "its schedule says cooperative = 1, but points meet on a GPU only"))
    members = plain_members(nest)
    parts = split_domain(members[0].reduction.sizes, part) if members and part > 0 else None
    if members is None or parts is None or split_in_parts(nest, members, parts) is None:
        raise _refusal(nest)


def split_on_gpu(nest: loops.NestOp, machine: Machine) -> None:
    """Replaces a nest by several, or by one whose points meet. What is left may hold further reductions, which needed
    those that are split now: whether these are split, too, is chosen now that the nest is there.

    Errors: CuestaError when the nest cannot be split as its schedule says.
    """
    rest: loops.NestOp | None = nest
    while rest is not None:
        new = replace_by_parts(rest)
        rest = None
        if len(new) > 2 and any(isinstance(op, loops.ReduceOp) for op in new[-1].body.ops):
            choices = choose_part_on_gpu(new[-1], machine)
            if choices:
                rest = new[-1]
                rest.properties["schedule"] = loops.ScheduleAttr.of(choices)


def split_product(nest: loops.NestOp) -> None:
    """Replaces a nest whose schedule says that it is a contraction by one for parts of its sum, or of what reduces such
    sums, which has the other choices, and one that combines them.

    Errors: CuestaError when the nest cannot be split as its schedule says.
    """
    if not any(isinstance(inner, loops.ReduceOp) for op in reductions_of(nest) for inner in op.body.ops):
        product_in_parts(nest, nest.choices.get("part", 0))
        return
    choices = {name: value for name, value in nest.choices.items() if name != "part"}
    replace_by_parts(nest)[0].properties["schedule"] = loops.ScheduleAttr.of(choices)


def reductions_of(nest: loops.NestOp) -> list[loops.ReduceOp]:
    """The reductions of a nest that stand in no other."""
    return [op for op in nest.body.ops if isinstance(op, loops.ReduceOp)]


def replace_by_parts(nest: loops.NestOp) -> list[loops.NestOp]:
    """Replaces a nest by the nests that compute its reductions in parts, as its schedule says; gives them, in order.

    Errors: CuestaError when the nest cannot be split so.
    """
    choices = nest.choices
    if splittable_scan(nest) is not None:
        if choices.get("cooperative", 0) or (new := split_scan(nest, choices.get("part") or when.TILE)) is None:
            raise _refusal(nest)
        return new
    members = members_of(nest)
    if nest.operands or not members or not is_static((*nest.sizes, *members[0].reduction.sizes)):
        raise _refusal(nest)
    runs = Runs(analyse(nest, {}, [True] * len(nest.results)), members)
    parts = runs.parts(choices.get("part") or when.TILE)
    if choices.get("cooperative", 0):
        several = math.prod(size for size in parts.outer if isinstance(size, int)) > 1
        joint = cooperate_in_parts(nest, members, parts) if several else None
        if joint is None:
            raise _refusal(nest)
        if own := {name: choices[name] for name in OF_MEETING if name in choices}:
            joint.properties["schedule"] = loops.ScheduleAttr.of(own)
        return [joint]
    new = split_in_parts(nest, members, parts, beside=when.reads_strips(nest, members))
    if new is None:
        raise _refusal(nest)
    for one in new:
        if is_pointwise(one):
            # What the parts read last is in the cache.
            one.properties["schedule"] = loops.ScheduleAttr.of({"reversed": 1})
    return new


def _refusal(nest: loops.NestOp) -> CuestaError:
    said = "cooperative = 1" if nest.choices.get("cooperative", 0) else f"part = {nest.choices.get('part', 0)}"
    return CuestaError(Diagnostic.on(nest, f"its schedule says {said}, but it cannot be split"))
