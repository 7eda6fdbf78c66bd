"""`tune-kernels`: schedules, and products fused with what follows them, where a device has shown that they are faster.

A question is a few programs that compute the same; whoever measures says how long each takes (`measuring`). Without
anybody to measure nothing changes. What is found is written into the program, as choices of its nests:

    loops.nest (%i : 4096) outs(…) schedule #loops.schedule<lanes = 2048, warps = 8> { … }
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from cuesta.dialects import loops
from cuesta.dialects.core.devices import traits_of_device
from cuesta.dialects.core.entry import entry_block, symbol_ranges
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.machine import Machine, machine_of, state_machine
from cuesta.dialects.core.operation import PlainBlock
from cuesta.dialects.core.setting import setting
from cuesta.dialects.core.structs import struct
from cuesta.dialects.core.tracing import no_match
from cuesta.dialects.func import FuncOp, ReturnOp
from cuesta.dialects.layout import is_tensor, is_tensor_type, sizes_of, traits_of
from cuesta.dialects.loops.analysis import NestAnalysis, analyse
from cuesta.dialects.loops.merge_axes import merge_axes
from cuesta.lowering.schedule.gpu.schedule_choices import candidates
from cuesta.transforms.products.forms import forms_of, streams_of
from cuesta.transforms.products.gradients import join_gradients, split_gradients
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.product_plans import around, summed_sizes
from cuesta.transforms.products.products import Product, convolutions_taken, products_of, static
from cuesta.transforms.products.reduced_products import Reduced, can_be_in_parts, reduced, reduced_nest, replace_reduced
from cuesta.transforms.products.tiles import TRIED, Around, estimates, tiles_for

Question = Sequence[ModuleOp]
"""Programs at the `loops` level, ready to schedule, that take the same arguments and compute the same, of the same ones
or (where how arguments lie is what is asked) of others as large.
"""
Measure = Callable[[Sequence[Question]], Sequence[Sequence[float]]]
"""How long each program of each question takes, in µs; infinity for one that cannot be run."""

GAIN = 0.97
"""What beats the default takes at most this share of its time: less is noise.

Source: a choice, `docs/decisions/012-measuring.md`: only what wins clearly.
"""
WITH_PRODUCERS = 3
"""Tiles that are tried once more with what gives the factors done where they are read.

Source: a bound against the time that tuning takes.
"""
WITH_FORMS = 2
"""Tiles that are tried in their other forms: with tensor descriptors, by programs that do several.

Source: a bound against the time that tuning takes.
"""
SMALL = 1 << 18
"""Bytes that a kernel moves at least, for its schedule to matter beside its launch.

Source: a bound against the time that tuning takes: a device moves so much in a small part of a launch.
"""

_measure: ContextVar[Measure | None] = ContextVar("measure", default=None)


@contextmanager
def measuring(measure: Measure) -> Generator[None, None, None]:
    """In the `with` block, `tune-kernels` asks `measure`."""
    with setting(_measure, measure):
        yield


@dataclass(frozen=True)
class TuneKernelsPass(ModulePass):
    """Gives every nest for a GPU the choices with which it runs fastest, and products that are faster in one nest."""

    name = "tune-kernels"

    tf32: bool = False
    """Whether factors of type f32 may be rounded to TF32; otherwise they are taken in pieces of bf16."""
    tf32_convolutions: bool = False
    """The same of convolutions, of which torch has a setting of its own."""
    keep_roundings: bool = False
    """Whether what follows a product takes it rounded to its type, as in eager."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        measure = asked_of(machine_of(op))
        if measure is None:
            return
        chosen = [one for one in entry_block(op).ops if isinstance(one, loops.NestOp) and one.choices]
        tune_nests(op, candidates)
        # Now that the nests which follow products are as fast as they can be:
        tune_products(op, measure, self, chosen, machine_of(op))


def asked_of(machine: Machine) -> Measure | None:
    """Measures programs that state the machine; None without anybody to ask."""
    measure = _measure.get()
    if measure is None:
        return None

    def stated(questions: Sequence[Sequence[ModuleOp]]) -> Sequence[Sequence[float]]:
        for program in (program for question in questions for program in question):
            state_machine(program, machine)
        return measure(questions)

    return stated


@dataclass
class _Asked:
    """A question, and what to do with the answer in each place where it stands."""

    programs: list[ModuleOp]
    answers: list[Callable[[int], None]] = field(default_factory=list[Callable[[int], None]])


def best_of(times: Sequence[float]) -> int:
    """Which program to take: the first, unless another is clearly faster."""
    best = min(range(len(times)), key=times.__getitem__)
    return best if times[best] < times[0] * GAIN or math.isinf(times[0]) > math.isinf(times[best]) else 0


def settle(asked: Sequence[_Asked], measure: Measure) -> None:
    """Asks all questions at once (so that programs can be compiled side by side), and acts on the answers."""
    if not asked:
        return
    for one, times in zip(asked, measure([one.programs for one in asked]), strict=True):
        best = best_of(times)
        for answer in one.answers:
            answer(best)


# Schedules


def tune_nests(module: ModuleOp, tried: Callable[[NestAnalysis, Machine], Sequence[dict[str, int]]]) -> None:
    """Gives the nests of @main their best choices, of those that are `tried`; nests that are alike are measured once.
    Nothing changes without anybody to ask.
    """
    machine = machine_of(module)
    measure = asked_of(machine)
    if measure is None:
        return
    asked: dict[Fingerprint, _Asked] = {}
    every: dict[Fingerprint, Sequence[dict[str, int]]] = {}
    ranges = symbol_ranges(module)
    for nest in [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]:
        if (reason := obstacle(nest)) is not None:
            no_match(nest, f"its schedule is not tuned: {reason}")
            continue
        key = fingerprint(nest)
        if key not in asked:
            copy = next(op for op in entry_block(program_of([nest])).ops if isinstance(op, loops.NestOp))
            analysis = analyse(copy, ranges, tuple(True for _ in copy.results))
            merge_axes(analysis)
            every[key] = tried(analysis, machine)
            asked[key] = _Asked([program_of([nest], choices) for choices in ({}, *every[key])])
        asked[key].answers.append(lambda best, nest=nest, found=every[key]: choose(nest, found, best))
    settle([one for one in asked.values() if len(one.programs) > 1], measure)


def choose(nest: loops.NestOp, found: Sequence[dict[str, int]], best: int) -> None:
    """Writes the choices of candidate `best` into a nest; candidate 0 is the default."""
    if best:
        nest.properties["schedule"] = loops.ScheduleAttr.of(found[best - 1])


def obstacle(nest: loops.NestOp) -> str | None:
    """Why a nest is not measured."""
    if not traits_of(nest.results[0]).tunes:
        return "it is not for a GPU"
    if nest.choices:
        return "it has one"
    moved = 0
    for value in (*outer_values([nest]), *nest.results):
        kind = value.type
        sizes = sizes_of(kind) if is_tensor_type(kind) else ()
        if not is_tensor_type(kind) or len(static(sizes)) < len(sizes):
            return "its sizes are not known"
        moved += math.prod(static(sizes)) * max(1, getattr(kind.element_type, "bitwidth", 32) // 8)
    if moved < SMALL:
        return "it moves little"
    if nest.operands:
        return "it changes what another nest made"
    if any(isinstance(op, loops.BoundOp | loops.CombineOp) for op in nest.walk()):
        return "it has indices made of data, which cannot be made up"
    return None


# Products


def tune_products(
    module: ModuleOp,
    measure: Measure,
    options: TuneKernelsPass,
    untouched: Collection[loops.NestOp],
    machine: Machine,
) -> None:
    """Fuses the products for which one of a few tiles beats the library's call and the kernel after it."""
    asked: dict[Fingerprint, _Asked] = {}
    block = entry_block(module)
    taken: set[loops.ExternOp] = set()
    busy = set(untouched)
    convolutions = convolutions_taken(options.tf32_convolutions)
    split_gradients(block)
    precision = "tf32" if options.tf32 else "bf16x6"
    for product in products_of(block, precision=precision, untouched=untouched, convolutions=convolutions):
        if not (traits := traits_of_device(product.device)).contractions or not traits.tunes:
            continue
        if product.call.parent is None or product.call in taken:
            continue  # beside another
        rows = reduced(product, block, busy) if product.windows is None else None
        rows = rows if rows is None or not rows.picks else None
        busy.update([] if rows is None else [rows.nest])
        every = [product, *product.beside]
        taken.update(one.call for one in product.beside)
        producers = list(dict.fromkeys(nest for one in every for nest in one.producers.values()))
        calls = [op for one in every for op in (*views_before(one), one.call)]
        consumer = rows.nest if rows is not None else product.consumer
        apart = [*producers, *dict.fromkeys(calls), *([] if consumer is None else [consumer])]
        results = [product.result] if product.is_kept or consumer is None else []
        library = program_of(apart, results=results)
        key = fingerprint(library)
        variants = variants_of(product, machine, rows)
        if key not in asked:
            inputs = outer_values(apart)
            asked[key] = _Asked([library])
            for one in variants:
                together = one.nest(product, options)
                within = one.computed(product) if one.prologues else ()
                before = [nest for nest in producers if nest not in within]
                ops = [*before, *one.left_apart(product), together]
                asked[key].programs.append(program_of(ops, one.tile, inputs=inputs))
                together.erase()
        asked[key].answers.append(lambda best, product=product, found=variants: fuse(product, found, best, options))
    settle(list(asked.values()), measure)
    join_gradients(block)


@struct
class _Variant:
    """A way to compute a product in one nest."""

    tile: dict[str, int]
    prologues: bool = False
    beside: bool = False
    """Whether with the products beside it."""
    rows: Reduced | None = None
    """What reduces its rows, if that is what follows."""

    def nest(self, product: Product, options: TuneKernelsPass) -> loops.NestOp:
        """The nest, which stands nowhere yet."""
        if self.rows is not None:
            return reduced_nest(self.rows, keep_roundings=options.keep_roundings)
        return fused_nest(product, keep_roundings=options.keep_roundings, prologues=self.prologues, beside=self.beside)

    def computed(self, product: Product) -> list[loops.NestOp]:
        """The nests that give factors, where the nest computes these itself."""
        every = (product, *(product.beside if self.beside else ()))
        return [nest for one in every for nest in one.producers.values()]

    def left_apart(self, product: Product) -> list[Operation]:
        """The calls beside the product that stay the library's, with the views that they read."""
        if self.beside:
            return []
        return list(dict.fromkeys(op for one in product.beside for op in (*views_before(one), one.call)))


def variants_of(product: Product, machine: Machine, rows: Reduced | None = None) -> list[_Variant]:
    """What to try: a few tiles, and where factors are computed by nests of their own, the first ones with those; the
    same with the products beside it. Where `rows` are reduced, tiles as wide as parts of them.
    """
    task = product.sizes, product.batch, product.bits, machine
    if rows is not None:
        every = estimates(*task, Around(precision=product.precision))
        found = [tile for _, tile in every if "part" not in tile and can_be_in_parts(rows, tile["columns"])]
        return [_Variant({**tile, "part": tile["columns"]}, rows=rows) for tile in found[:TRIED]]
    tiles = tiles_for(*task, around(product, False))
    if product.windows is None and machine.has_descriptors:
        plain = [{**tile, "descriptors": 0} for tile in tiles]  # or `choose-forms` would choose
        forms = [form for tile in tiles[:WITH_FORMS] for form in forms_of(*task, tile, around(product, False))]
        forms += [form for tile in tiles[:WITH_FORMS] for form in streams_of(*task, tile, around(product, False))]
        made = [_Variant(tile) for tile in (*plain, *({"descriptors": 0, **form} for form in forms))]
    else:
        made = [_Variant(tile) for tile in tiles]
    if product.producers:
        summed = summed_sizes(product, True), *task[1:]
        made += [_Variant(tile, True) for tile in tiles_for(*summed, around(product, True))[:WITH_PRODUCERS]]
    if product.beside:
        made += [_Variant(tile, False, True) for tile in tiles_for(*task, around(product, False, True))]
    return made


def fuse(product: Product, found: Sequence[_Variant], best: int, options: TuneKernelsPass) -> None:
    """Fuses a product as variant `best` says; number 0 is the library."""
    if not best:
        return
    one = found[best - 1]
    if one.rows is not None:
        replace_reduced(one.rows, one.nest(product, options), one.tile)
    else:
        replace(product, one.nest(product, options), one.tile)


def views_before(product: Product) -> list[Operation]:
    """The views through which a product reads its operands, in order."""
    found: dict[Operation, None] = {}
    for operand in product.call.operands:
        chain: list[Operation] = []
        while isinstance(view := operand.owner, loops.ViewOp):
            chain.append(view)
            operand = view.source
        found.update(dict.fromkeys(reversed(chain)))
    return list(found)


# Programs of their own


def outer_values(ops: Sequence[Operation]) -> list[SSAValue]:
    """The values that ops use and that none of them makes, in order of first use."""
    inside: set[SSAValue] = set()
    found: dict[SSAValue, None] = {}
    for top in ops:
        for op in top.walk():
            for operand in op.operands:
                if operand not in inside:
                    found[operand] = None
            inside.update(op.results)
            for region in op.regions:
                for block in region.blocks:
                    inside.update(block.args)
    return list(found)


def program_of(
    ops: Sequence[Operation],
    choices: dict[str, int] | None = None,
    *,
    inputs: Sequence[SSAValue] | None = None,
    results: Sequence[SSAValue] = (),
) -> ModuleOp:
    """A program of copies of ops, which returns the results of the last, and `results`. The text of two programs that
    are alike is the same: names and locations are left behind.

    `choices` are the nest's, which is the last op.
    """
    inputs = outer_values(ops) if inputs is None else inputs
    block = PlainBlock(arg_types=[value.type for value in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    copies = [op.clone(values) for op in ops]
    block.add_ops(copies)
    last = copies[-1]
    if choices:
        last.properties["schedule"] = loops.ScheduleAttr.of(choices)
    returned = [result for result in last.results if is_tensor(result)]
    returned += [values[value] for value in results if values[value] not in returned]
    block.add_op(ReturnOp.build(returned))
    for op in block.walk():
        for value in (*op.results, *(argument for region in op.regions for argument in region.block.args)):
            value.name_hint = None
    types: list[Attribute] = [value.type for value in inputs]
    main = FuncOp.build("main", types, [value.type for value in returned], Region(block))
    return ModuleOp([main])


__all__ = ["GAIN", "Measure", "Question", "TuneKernelsPass", "asked_of", "measuring", "program_of"]
