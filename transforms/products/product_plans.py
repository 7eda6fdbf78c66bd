"""When a product is computed in one nest with what is around it, on a GPU: by what both are thought to take.

Together: the fastest tile by the estimate of `tiles.py`, in which a point takes what is done to it besides. Apart: the
library's product, and each nest with the best of its tilings (`transforms/tilings/cost.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

from xdsl.dialects.builtin import Float32Type, f32
from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, loops, sym
from cuesta.dialects.core.machine import Machine
from cuesta.dialects.core.structs import struct
from cuesta.dialects.elem.work import WORK
from cuesta.dialects.layout import element_type_of, sizes_of, strides_of, tensor_type_of
from cuesta.dialects.loops.analysis import byte_width
from cuesta.dialects.loops.surgery import loads_of, stores_of, through_views
from cuesta.transforms.products.forms import FORMS, STREAM, STREAM_K, formed
from cuesta.transforms.products.last_rows import dimension_of
from cuesta.transforms.products.picked_elements import picked
from cuesta.transforms.products.pieces import WHOLE, Cut, axes_at, points_of
from cuesta.transforms.products.products import Product, cut_at, static
from cuesta.transforms.products.reduced_products import Reduced, can_be_in_parts
from cuesta.transforms.products.tiles import CLOCK, LEAST, Around, estimates
from cuesta.transforms.products.windows import VECTOR
from cuesta.transforms.reductions.carry_reductions import EXPONENTIALS
from cuesta.transforms.reductions.when import choose_part_on_gpu
from cuesta.transforms.tilings.cost import SLACK, time_whole

SURE = 1.05
"""How many times as long the library and what surrounds it must take.

Source: the issue that asked for it: below, the estimate may be wrong.
"""
LARGE, WORTH = 512 << 20, 1.1
"""From so many bytes of a product on that nobody stores then, one nest may take so many times as long.

Source: a choice: as many as in `lowering/capture/rows_in_parts.py`, which takes 1.0 to 1.1 times as long.
"""
LIBRARY = 0.9
"""What a library's product takes, of the estimate for the fastest tile of ours; of matrices of 16 bits, with as much
less as a last wave is not full: it has tiles and parts for every size.

Source: `python -m benchmarks.product_forms --only waves` on an H200: ten such products took 0.94 to 1.09 of it.
"""


DEAR, EXACT, QUICK = 3.0, 4.0, 2.0
"""From so much work on, in float adds, an op takes that many times its work, computed exactly and as an approximation:
after a sum nothing waits for memory meanwhile. SiLU took 36 adds a point, of which 5 are not its sigmoid's; GELU 22 by
an approximation, with 6 that are others.

Source: `make bench-products ARGS=--fused` on an H100.
"""


EXPONENTIAL = 9.0
"""The same of an exponential of f32, exact or not: a unit does one in the time of eight adds, and the exact one has as
many instructions. A sigmoid has a quotient besides.

Source: machine code for sm_90: a maximum, a difference, an exponential and a sum were 11.9 instructions for an element.
"""
ADDRESS = 1.3
"""Instructions for an access to an image whose windows overlap, its address and whether it is there, which nothing
hides: of about 16.

Source: fitted with `_OVERLAPPING` in `tiles.py`.
"""
SINGLE, LEAST_COPY = 10.0, 32
"""The same for an access of fewer bits than a lane copies to shared memory: it goes through registers.

Source: machine code of a 7 by 7 convolution of 3 channels, for sm_90: 547 instructions for 48 such accesses.
"""
ACROSS = 16.0
"""The same where images lie channels first: neighbours are then rows of the factor, so a thread has few rows, and finds
for each of its elements which one of a window that is.

Source: machine code of windows of 7, 3 and 5 along one axis, for sm_90: 12.8, 15.8 and 19.4 of a loop of 64 and 32.
"""
FEW = 32
"""The library takes for a convolution of fewer channels at least as long as for one of so many. Per row and element of
a window it took 12 ps for 3 channels (7x7 by 2, 64x224x224 to 64), 31 for 8 (3x3, 128x256x256 to 64), 12 for 32 (3x3).

Source: calls of cuDNN, bf16, channels last, on an H100.
"""


SIDE, FEWEST, REACHED, BEGUN = 64, 40, 0.87, 9.0
"""The library's tiles of f32 have so many rows and columns, but few take the time of fewer; the part of a processor's
products and sums of f32 that it does; and the microseconds it takes besides. 50 products took 1.15 of this in the mean,
and 0.99 at least: it is careful.

Source: `make bench-products ARGS=--single` on an H200.
"""
DEEP, OF_DEEP = 2300, 0.82
"""From so many points of a sum on the library takes this part of what is estimated for windows that overlap.

Source: `make bench-convolved`, and calls of cuDNN, on an H100: 256, 480 and 512 channels, 3x3, took 0.65 to 1.04 of it.
"""
ROW = 2.0
"""How often the library moves images and results of one dimension besides: it copies them to channels first, and back.
16x256x1024 to 256, windows of 3, took it 66 us or more; as many products of images take it 12.

Source: `make bench-convolved` on an H100.
"""


@struct
class Plan:
    """How a product is computed in one nest, and what that is thought to take, and apart, in microseconds."""

    tile: dict[str, int]
    prologues: bool
    beside: bool
    """Whether with the products beside it."""
    together: float
    apart: float
    waves: bool = False
    """Whether the time counts on stream-K: `choose-waves` sees to it."""
    spared: int = 0
    """The bytes of a product that is not stored."""

    @property
    def pays(self) -> bool:
        """Whether one nest is clearly faster, or spares much memory at little cost."""
        return self.together * SURE <= self.apart or (self.spared >= LARGE and self.together <= self.apart * WORTH)


def plan_of(product: Product, machine: Machine) -> Plan | None:
    """The best way to compute a product in one nest with what is around it; None where nothing is."""
    if product.consumer is None and not product.producers and not product.precision:
        return None
    library = _of_library(product, machine)
    after = 0.0 if product.consumer is None else time_whole(product.consumer, machine)[0]
    before = _before(product, machine)
    others = [(library + _before(one, machine)) for one in product.beside]
    apart = before + library + after + sum(others)
    found: list[Plan] = []
    for prologues in (False, True):
        if (prologues and not product.producers) or (
            not prologues and product.consumer is None and not product.precision
        ):
            continue
        for beside in (False, True) if product.beside else (False,):
            sizes = summed_sizes(product, prologues)
            task = sizes, product.batch, product.bits, machine, around(product, prologues, beside)
            # With another product beside it, the faster forms were thought faster than they are (84 us for 95).
            sure = not prologues and not product.beside and lie_as_read(product)
            found_tiles = formed(*task, apart=_apart(product)) if sure else estimates(*task)
            time, tile = _whole_steps(product, found_tiles, sizes[2])
            if not prologues:
                time += before + (sum(_before(one, machine) for one in product.beside) if beside else 0.0)
            if not beside:
                time += sum(others)
            if not math.isinf(time):
                found.append(Plan(_without_forms(tile), prologues, beside, time, apart, STREAM_K in tile))
    return min(found, key=lambda one: one.together, default=None)


def plan_of_reduced(found: Reduced, machine: Machine) -> Plan | None:
    """The best way to compute a product in one nest with what reduces its rows; None where there is none."""
    product = found.product
    library = _of_library(product, machine)
    (after, ideal), before = time_whole(found.nest, machine), _before(product, machine)
    if "part" in choose_part_on_gpu(found.nest, machine):  # which read it once
        after = min(after, SLACK * ideal)
    spared = int(_held(product.result))
    work = sum(
        _work_after(one, {op.result for op in loads_of(one) if op.source is product.result}) for one in found.reductions
    )
    second = machine.launch / machine.memory_rate / CLOCK
    for load in found.picks:
        apart = picked(load, product)
        if apart is None:
            return None
        second += time_whole(apart, machine)[0]
    for time, tile in estimates(product.sizes, product.batch, product.bits, machine, _reduced(product, work)):
        width = tile["columns"]
        if "part" not in tile and _is_in_steps(product, tile, product.sizes[2]) and can_be_in_parts(found, width):
            together = time + before + second
            return Plan({**tile, "part": width}, False, False, together, before + library + after, spared=spared)
    return None


def _reduced(product: Product, work: float) -> Around:
    """What is done around a product whose rows are reduced, which nobody stores."""
    return Around(work, -product.bits / 8, promoted=_is_promoted(product), precision=product.precision)


def _is_promoted(product: Product) -> bool:
    """Whether f32 adds up what units add up in fewer bits."""
    return product.bits == 8 or product.precision == "bf16x6"


def lie_as_read(product: Product) -> bool:
    """Whether both factors lie so that tensor descriptors can say where, as far as their types tell; whether that is so
    is asked again where nothing changes any more (`choose-forms`).
    """
    return product.windows is None and all(_is_described(one) for one in (product.left, product.right))


def _is_described(factor: SSAValue) -> bool:
    kind = tensor_type_of(factor)
    strides = static(strides_of(kind))
    if len(strides) < len(strides_of(kind)) or not 2 <= len(strides) <= 3:
        return False
    *others, last, inner = strides if strides[-1] == 1 else (*strides[:-2], strides[-1], strides[-2])
    return inner == 1 and last > 0 and not any(8 * byte_width(factor) * one % VECTOR for one in (*others, last))


def summed_sizes(product: Product, prologues: bool) -> tuple[int, int, int]:
    """Rows, columns, and the points of each of the sums that a product becomes: several, where a point of what computes
    a factor stores several of its elements.
    """
    rows, columns, points = product.sizes
    return rows, columns, points // (cut_of_product(product).count if prologues else 1)


def cut_of_product(product: Product) -> Cut:
    """How the points of a product are cut with what computes its factors."""
    if product.windows is not None:
        return WHOLE
    dims = [sym.dim(axis) for axis in range(len(product.domain))]
    return cut_at(product, dims, product.domain, product.producers)


def _whole_steps(
    product: Product, found: list[tuple[float, dict[str, int]]], points: int
) -> tuple[float, dict[str, int]]:
    """The first of estimates whose tiles end where the points of a sum do; no time at all is thought to do where none
    does.
    """
    whole = (one for one in found if _is_in_steps(product, one[1], points))
    return next(whole, (math.inf, found[0][1]))


def _is_in_steps(product: Product, tile: dict[str, int], points: int) -> bool:
    """Whether a tile's steps end where the points of a sum do. The loads of others are masked in every step, which the
    estimate does not know: 1000 points took 1.2 times as long as the library and the maximum apart (H100), and not 0.9.
    For the same reason a convolution's rows begin where vectors may; those of others `align-products` sees to.
    """
    windows = product.windows
    if "descriptors" in tile:  # nothing is masked
        return True
    if product.precision == "bf16x6":  # masks are little beside pieces, but rows have to begin where vectors may
        return lie_as_read(product)
    if windows is not None and product.sizes[1] * product.bits % VECTOR:
        return False
    if windows is not None and windows.overlap:  # what its loads take is known
        return True
    if windows is not None and windows.run * product.bits % VECTOR:
        return False
    return points % tile["depth"] == 0


def _of_library(product: Product, machine: Machine) -> float:
    """Microseconds that the library takes: it knows how to find the elements of windows, and not what to do with few
    channels.
    """
    rows, columns, points = product.sizes
    if product.precision == "bf16x6":
        return _of_singles(product, machine)
    known = Around(precision=product.precision)
    if product.bits == 8:
        known = Around(promoted=not product.call.argument("use_fast_accum"))
    elif product.windows is not None:
        known = Around(part_in_memory=_part_in_memory(product), precision=product.precision)
        if not product.windows.unmeasured and product.windows.overlap and product.windows.channels < FEW:
            points = points // product.windows.channels * FEW
    found = _library(product, (rows, columns, points), machine, known)
    if product.bits < 32 and isinstance(element_type_of(product.left), Float32Type):  # which would be rounded by units
        exact = rows * columns * points * product.batch / (machine.instruction_rate * machine.processors) / CLOCK
        found = max(found, exact)
    if product.windows is not None and product.windows.overlap and points >= DEEP:
        found *= OF_DEEP
    if product.windows is not None and product.windows.overlap and len(product.windows.places) == 1:
        copied = ROW * (_held(product.left) + _held(product.result)) + 2 * machine.launch_bytes
        found += copied / (machine.memory_rate * machine.processors) / CLOCK
    return found


def _of_singles(product: Product, machine: Machine) -> float:
    """Microseconds that the library takes for a product of f32 that nothing is rounded for."""
    rows, columns, points = product.sizes
    padded = math.prod(FEWEST if size <= FEWEST else -(-size // SIDE) * SIDE for size in (rows, columns))
    computed = padded * points * product.batch / (REACHED * machine.instruction_rate * machine.processors)
    moved = 4 * product.batch * (rows * points + columns * points + rows * columns) / machine.memory_rate
    return BEGUN + max(computed, moved / machine.processors) / CLOCK


def _library(product: Product, sizes: tuple[int, int, int], machine: Machine, known: Around) -> float:
    """Microseconds that the library takes for a product of these sizes. That it has no whole waves was measured of
    matrices of 16 bits.
    """
    whole = product.windows is not None or product.bits != 16
    return LIBRARY * estimates(sizes, product.batch, product.bits, machine, known, whole_waves=whole)[0][0]


def _without_forms(tile: dict[str, int]) -> dict[str, int]:
    """What a plan writes down: forms are chosen where nothing changes any more (`choose-waves`, `choose-forms`)."""
    left_out = (*FORMS, *(STREAM if STREAM_K in tile else ()))
    return {name: value for name, value in tile.items() if name not in left_out}


def _apart(product: Product) -> tuple[bool, bool]:
    """Whether a row of the product is a row of all that its consumer stores, and a column a column, so that the last
    ones may be a nest.
    """
    consumer = product.consumer
    if consumer is None:
        return True, True

    def is_apart(dimension: int) -> bool:
        axes: set[SSAValue] = set()
        for load in loads_of(consumer):
            if load.source is product.result:
                at = load.map.results[dimension]
                axes |= {one for k, one in enumerate(load.indices) if at == sym.dim(k)}
        return len(axes) == 1 and None not in [dimension_of(consumer, one, *axes) for one in consumer.handles]

    return is_apart(-2), is_apart(-1)


def _part_in_memory(product: Product) -> float:
    """The part of the left factor's elements that memory has: windows that overlap share some."""
    return 1.0 if product.windows is None else min(1.0, 1.0 / product.windows.times_read)


def _addresses(product: Product) -> tuple[float, float]:
    """The instructions for an element of each factor that find it in images and windows that overlap."""
    if product.windows is None or not product.windows.overlap:
        return 0.0, 0.0
    vector = VECTOR // product.bits
    left, right = math.gcd(product.windows.run, vector), math.gcd(product.sizes[2], vector)
    single = ACROSS if product.windows.lies_along_places else SINGLE
    return _address(left, product.bits, single), 0.0 if right == vector else _address(right, product.bits, SINGLE)


def _address(together: int, bits: int, single: float) -> float:
    """The instructions for an element, of which so many are one access; `single` where it goes through registers."""
    return ADDRESS / together if together * bits >= LEAST_COPY else single


def _before(product: Product, machine: Machine) -> float:
    """What the nests take that give the factors of a product."""
    return sum(time_whole(nest, machine)[0] for nest in set(product.producers.values()))


def around(product: Product, prologues: bool, beside: bool = False) -> Around:
    """What is done around a product in its kernel, with or without the products beside it."""
    together = (product, *(product.beside if beside else ()))
    results = {one.result for one in together}
    count, shared = len(together), len({one.left for one in together}) == 1
    consumer, widest = product.consumer, 8 * byte_width(product.result)
    points, result = math.prod(product.sizes[:2]) * product.batch, byte_width(product.result)
    alive = 1
    if consumer is None:
        after, bytes_after = 0.0, result - product.bits / 8
    else:
        own = {load.result for load in loads_of(consumer) if load.source in results}
        each = own | {load.result for load in loads_of(consumer) if _size(load.source) >= points}
        after, alive = _work_after(consumer, set(own), each), _alive(consumer, own, each)
        widest = max(widest, _widest(consumer))
        moved = sum(_held(load.source) for load in loads_of(consumer) if load.source not in results)
        moved += sum(_held(store.target) for store in stores_of(consumer))
        bytes_after = max(0.0, moved / points - product.bits / 8)
        if product.is_kept:
            bytes_after += result
    overlap = product.windows is not None and product.windows.overlap
    addresses = _addresses(product)
    found = overlap, addresses, _part_in_memory(product), max(addresses) >= SINGLE
    promoted, precision = _is_promoted(product), product.precision
    if not prologues:
        return Around(
            *(after, bytes_after, (0.0, 0.0), (0, 0), count, shared, *found),
            promoted=promoted,
            precision=precision,
            widest=widest,
            alive=alive,
        )
    works, bits, apart, grouped, group = [0.0, 0.0], [0, 0], list(addresses), [0.0, 0.0], 1 << 30
    for side, factor in enumerate((product.left, product.right)):
        nest = producer_at(product, factor)
        if nest is not None:
            size = math.prod(static(sizes_of(tensor_type_of(nest.results[0]))))
            works[side], grouped[side], group = _work_before(product, nest, side, group)
            bits[side] = max(1, round(8 * sum(_held(load.source) for load in loads_of(nest)) / size))
            apart[side] = max([apart[side], *(_finding(load) for load in loads_of(nest) if _is_large(load, size))])
    parts = cut_of_product(product).count
    count, shared = count * parts, shared and parts == 1
    found = overlap, (apart[0], apart[1]), _part_in_memory(product), max(apart) >= SINGLE
    both = (works[0], works[1]), (bits[0], bits[1]), count, shared
    ends = promoted, precision, widest, alive
    return Around(after, bytes_after, *both, *found, (grouped[0], grouped[1]), group, *ends)


def _work_before(product: Product, nest: loops.NestOp, side: int, group: int) -> tuple[float, float, int]:
    """The work of a producer for an element of a factor, in float adds; what of it is the same for so many points in a
    row, and for how many, at most `group`.
    """
    points = points_of(nest)
    assert points is not None
    each = math.prod(static(points.sizes)) / math.prod(static(sizes_of(tensor_type_of(nest.results[0]))))
    shared: dict[SSAValue, int] = {}
    works = [0.0, 0.0]
    for op in points.ops:
        if isinstance(op, loops.LoadOp):
            run = 0 if product.windows is not None else _run_of(product, nest, op, side)
        elif isinstance(op, loops.IndexOp):
            run = 0
        else:
            run = min((shared[value] for value in op.operands if value in shared), default=1 << 30)
        shared.update(dict.fromkeys(op.results, run))
        if isinstance(op, elem.ElementwiseOp | loops.LoadOp) and LEAST <= run < 1 << 30:
            group = min(group, run)
            works[1] += _work_of(op) if isinstance(op, elem.ElementwiseOp) else ADDRESS
        elif isinstance(op, elem.ElementwiseOp):
            works[0] += _work_of(op)
    return each * works[0], each * works[1], group


def _run_of(product: Product, nest: loops.NestOp, load: loops.LoadOp, side: int) -> int:
    """So many points in a row of a sum read one element, of 16, 32, …; 0 where fewer do."""
    cut, k = cut_of_product(product), len(product.domain)
    dims = [sym.dim(axis) for axis in range(k)]
    found = 0
    for run in (LEAST << step for step in range(6)):
        points, rest = divmod(product.sizes[2] // cut.count, run)
        if rest:
            break
        sizes = (*product.domain, points, run)
        at = cut.point(sym.dim(k) * run + sym.dim(k + 1), 0)
        factor, index = ((product.left, product.left_at), (product.right, product.right_at))[side]
        _, indices = through_views(factor, index(dims, at))
        axes = axes_at(nest, [sym.simplify(one, sizes) for one in indices], sizes)
        if any(one not in axes for one in load.indices):
            return found  # an index made of data
        read = [sym.substitute(one, [axes[index] for index in load.indices]) for one in load.map.results]
        if any(k + 1 in sym.dims_of(sym.simplify(one, sizes)) for one in read):
            break
        found = run
    return found


def _is_large(load: loops.LoadOp, points: int) -> bool:
    """Whether there is an element for every second of so many points, or more."""
    return 2 * math.prod(static(sizes_of(tensor_type_of(load.source)))) >= points


def _finding(load: loops.LoadOp) -> float:
    """The instructions for an element of rows that do not begin where vectors may; none of others, which are known."""
    kind = tensor_type_of(load.source)
    bits = 8 * byte_width(load.source)
    vector = VECTOR // bits
    together = math.gcd(vector, *(stride for stride in static(strides_of(kind)) if stride != 1))
    return 0.0 if together == vector else _address(together, bits, SINGLE)


def producer_at(product: Product, factor: SSAValue) -> loops.NestOp | None:
    """The nest that computes a factor, perhaps viewed."""
    while isinstance(view := factor.owner, loops.ViewOp):
        factor = view.source
    return product.producers.get(factor)


def around_sum(nest: loops.NestOp, loop: loops.ReduceOp, bits: int) -> Around:
    """What a contraction does after its only sum, of factors of so many bits."""
    after = _work_after(nest, set(loop.results))
    own = [op for op in nest.body.ops if isinstance(op, loops.LoadOp)]
    moved = sum(_held(load.source) for load in own) + sum(_held(store.target) for store in stores_of(nest))
    return Around(after, max(0.0, moved / math.prod(static(nest.sizes)) - bits / 8), widest=_widest(nest))


def _widest(nest: loops.NestOp) -> int:
    """The bits of the widest element that a nest reads or writes for one of several axes, beside what it sums of."""
    tensors = [op.source for op in nest.body.ops if isinstance(op, loops.LoadOp) and len(op.indices) > 1]
    return max(8 * byte_width(one) for one in (*tensors, *(store.target for store in stores_of(nest))))


def _work_after(domain: loops.DomainOp, made: set[SSAValue], each: Collection[SSAValue] = ()) -> float:
    """What a nest or a reduction makes of values that it has, in float adds for each point; and what is dear of what it
    makes of others that it has for `each` point.
    """
    found, beside = 0.0, set(each)
    for op in domain.body.ops:
        if not isinstance(op, elem.ElementwiseOp):
            continue
        if not made.isdisjoint(op.operands):
            made.update(op.results)
            found += _work_of(op)
        elif not beside.isdisjoint(op.operands):
            beside.update(op.results)
            found += work if (work := _work_of(op)) >= DEAR else 0.0
    return found


def _alive(nest: loops.NestOp, own: set[SSAValue], each: set[SSAValue]) -> int:
    """How many values of each point there are at a time in what follows a product, one operation after the other for
    all points of a tile: `own`, which are sums, what it loads for `each`, and what it makes of them.
    """
    ops = list(nest.body.ops)
    last = {operand: place for place, op in enumerate(ops) for operand in op.operands}
    made, living, found = set(each), set(own), len(own)
    for place, op in enumerate(ops):
        if isinstance(op, elem.ElementwiseOp) and not made.isdisjoint(op.operands):
            made.update(op.results)
        living.update(made.intersection(op.results))
        living = {value for value in living if last.get(value, -1) > place}
        found = max(found, len(living))
    return max(found, 1)


def _work_of(op: Operation) -> float:
    """The work of an op in a kernel's arithmetic, in which nothing else hides it."""
    work = WORK.get(type(op), 0.0)
    if isinstance(op, elem.TableOp) and op.row.name in EXPONENTIALS and op.results[0].type == f32:
        return EXPONENTIAL
    if work < DEAR:
        return work
    return work * (EXACT if getattr(op, "precision", None) is None else QUICK)


def _size(tensor: SSAValue) -> int:
    """The elements of a tensor."""
    return math.prod(static(sizes_of(tensor_type_of(tensor))))


def _held(tensor: SSAValue) -> float:
    """The bytes of a tensor."""
    return _size(tensor) * byte_width(tensor)


__all__ = [
    "LIBRARY",
    "SURE",
    "Plan",
    "around",
    "around_sum",
    "lie_as_read",
    "plan_of",
    "plan_of_reduced",
    "producer_at",
    "summed_sizes",
]
