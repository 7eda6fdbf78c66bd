"""Stream-K: contractions of which the rows that no whole wave has are in parts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuesta
from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import print_text
from cuesta.dialects.core.machine import REFERENCE, Machine, state_machine
from cuesta.dialects.core.tracing import trace_rewrites
from cuesta.lowering.schedule.choose_waves import ChooseWavesPass
from cuesta.lowering.schedule.tune_kernels import variants_of
from cuesta.targets.reference import random_inputs
from cuesta.targets.reference import run as run_reference
from cuesta.targets.triton.compilation import compile_kernel
from cuesta.targets.triton.emit_module import emit_module
from cuesta.testing import compare
from cuesta.transforms.products.forms import WORTH, formed, streamed, streams_of
from cuesta.transforms.products.product_plans import Plan, plan_of
from cuesta.transforms.products.products import products_of
from cuesta.transforms.products.tiles import ALONE, Around, estimates, tiles_for
from tests.support.triton_interpreter import on_cuda, parse, run, to_host
from tests.support.triton_kernels import kernels_in
from tests.targets.triton.test_contractions import HOPPER, SMALL, fused, product, with_prologue

pytest.importorskip("triton")

FORMS: dict[str, dict[str, int]] = {
    "pointers": {},
    "programs": {"programs": 3},
    "descriptors": {"descriptors": 1},
    "both": {"programs": 3, "descriptors": 1},
}
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "odd sizes": (product(37, 48, 64, "f16"), {"stream_k": 21, "part": 16}),
    "one whole tile": (product(18, 200, 48, "bf16"), {"stream_k": 2, "part": 24}),
    "mostly parts": (product(100, 40, 96, "f16"), {"stream_k": 84, "part": 32}),
    "transposed": (product(33, 45, 48, "bf16", transposed=True), {"stream_k": 17, "part": 24}),
    "batched": (product(37, 40, 32, "f16", batch=3), {"stream_k": 5, "part": 8}),
    "batched and transposed": (product(34, 24, 40, "f16", batch=2, transposed=True), {"stream_k": 2, "part": 8}),
    "columns": (product(32, 152, 64, "f16"), {"stream_k": 24, "stream_columns": 1, "part": 16}),
    "columns, transposed": (
        product(48, 45, 48, "bf16", transposed=True),
        {"stream_k": 13, "stream_columns": 1, "part": 24},
    ),
    "columns, batched": (product(20, 56, 32, "f16", batch=3), {"stream_k": 24, "stream_columns": 1, "part": 8}),
    "f32": (product(40, 24, 48, "f32"), {"stream_k": 8, "part": 12, "tf32": 1}),
    "a factor is computed": (with_prologue(40, 40, 48), {"stream_k": 24, "part": 16}),
}


@pytest.mark.slow  # the interpreter takes seconds for a kernel
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_numerics(name: str, form: str) -> None:
    """As the product itself: against float64, by the interpreter of kernels and by Triton's."""
    if name == "a factor is computed" and "descriptors" in FORMS[form]:
        pytest.skip("no factor is an element as it lies")
    text, parts = CASES[name]
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    module = fused(text, {**SMALL, **parts, **FORMS[form]})
    ulps = 8.0 if "bf16" in text else 4.0
    for one in (run(module, inputs), run_reference(module, inputs), run_reference(to_host(module), inputs)):
        found = compare(name, one[0], expected[0], truth[0], factor=3.0, ulps=ulps)
        assert found.passes, str(found)


def test_what_the_text_says() -> None:
    text, parts = CASES["odd sizes"]
    module = to_host(fused(text, {**SMALL, **parts, **FORMS["both"]}))
    head, tail, rest = kernels_in(module)
    assert (head.schedule.grid, tail.schedule.grid) == ((1, 2), (4, 2, 2))
    assert [one.schedule.choices.get("programs") for one in (head, tail, rest)] == [3, None, None]
    assert [one.schedule.choices.get("descriptors") for one in (head, tail, rest)] == [1, 1, None]
    assert not any(isinstance(op, kernel.ContractOp) for op in rest.walk())
    (whole, *buffers) = (op for op in entry_block(module).ops if isinstance(op, host.AllocOp | host.PlaceOp))
    parts_of = [op for op in entry_block(module).ops if isinstance(op, host.ReinterpretOp)]
    assert [(one.source, one.offset) for one in parts_of] == [(whole.results[0], 0), (whole.results[0], 16 * 48)]
    assert len(buffers) == 1, "the parts; rows are written where they belong"


@pytest.mark.parametrize("form", FORMS)
def test_text_goes_in_again(form: str) -> None:
    """Before the rows are split, at `kernel` and at `host`."""
    text, parts = CASES["batched and transposed"]
    module = fused(text, {**SMALL, **parts, **FORMS[form]})
    assert f"stream_k = {parts['stream_k']}" in print_text(module)
    again = parse(print_text(module))
    assert print_text(again) == print_text(module)
    host_text = print_text(to_host(module))
    assert print_text(to_host(again)) == host_text
    assert print_text(parse(host_text)) == host_text


def test_sums_do_not_depend_on_who_is_done_first() -> None:
    """Nothing is added to memory that others add to: parts lie side by side, and one program adds them up, in order."""
    text, parts = CASES["mostly parts"]
    for func in kernels_in(to_host(fused(text, {**SMALL, **parts}))):
        assert not func.updates and not any(isinstance(op, kernel.AtomicOp | kernel.MeetOp) for op in func.walk())


def test_parts_that_no_descriptor_says() -> None:
    text, _ = CASES["odd sizes"]
    module = fused(text, {**SMALL, "stream_k": 21, "part": 4, "descriptors": 1})
    with pytest.raises(CuestaError, match="no multiples of 16 bytes"):
        to_host(module)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(3000, 3000, 3000), (8192, 1152, 4096)])
def test_it_fits_the_device(sizes: tuple[int, int, int]) -> None:
    """What `max-autotune` tries is machine code for sm_90, whose products are as far apart as without."""
    (tile, *_) = (tile for tile in tiles_for(sizes, 1, 16, REFERENCE) if "part" not in tile)
    (choices,) = streams_of(sizes, 1, 16, REFERENCE, tile)
    assert choices["descriptors"] == 1
    texts = emit_module(kernels_in(to_host(fused(product(*sizes, "bf16"), choices)))).values()
    assert [text.source.count("tl.dot(") for text in texts] == [1, 1, 0]
    for text in texts:
        assert compile_kernel(text, HOPPER).shared <= REFERENCE.shared


BIG = {"rows": 128, "columns": 256, "depth": 64, "warps": 8, "stages": 3, "group": 8}
TALL = {**BIG, "rows": 256, "columns": 128}
SQUARE = {**BIG, "columns": 128, "warps": 4}
GELU = Around(27.0)
"""GELU by its approximation, and a bias, in float adds."""
MEASURED = [
    ((896, 4864, 4096), ALONE, SQUARE, 1.06),
    ((1280, 3840, 4096), ALONE, SQUARE, 1.06),
    ((2560, 2560, 2048), ALONE, BIG, 1.30),
    ((1536, 2944, 4096), ALONE, SQUARE, 0.94),
    ((3072, 3072, 4096), ALONE, BIG, 0.88),
    ((8192, 1152, 4096), ALONE, TALL, 0.93),
    ((2304, 4096, 4096), ALONE, BIG, 0.89),
    ((4224, 4224, 8192), ALONE, BIG, 0.94),
    ((2560, 2560, 2048), GELU, BIG, 1.19),
    ((3072, 3072, 4096), GELU, BIG, 0.86),
    ((8192, 1152, 4096), GELU, TALL, 0.91),
]
"""What part of the time of a form with descriptors stream-K took: `python -m benchmarks.product_forms --only waves` on
an H200, on 27 November 2026.
"""


@pytest.mark.parametrize(("sizes", "around", "tile", "took"), MEASURED)
def test_the_estimate_and_what_was_measured(
    sizes: tuple[int, int, int], around: Around, tile: dict[str, int], took: float
) -> None:
    found = streamed(sizes, 1, 16, REFERENCE, {**tile, "descriptors": 1}, around, apart=(True, False))
    assert found is not None
    assert found[0] == pytest.approx(took, rel=0.11)
    assert (found[0] * WORTH <= 1) == (took <= 0.94), "it is taken where it was clearly faster, and nowhere else"


def test_the_estimate_counts_waves() -> None:
    found = streamed((3072, 3072, 4096), 1, 16, REFERENCE, BIG)
    assert found is not None
    share, choices = found
    assert (choices["stream_k"], choices["part"]) == (256, 1024), "24 tiles of 288 for 132 processors, in 4 parts each"
    assert 1.2 * 2 / 3 < share < 1.4 * 2 / 3, "three waves become two, and parts of a quarter, and two launches more"


@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        ((4096, 768, 3072), "no whole wave"),
        ((4096, 4096, 4096), "the last wave is nearly whole"),
        ((1408, 3072, 4096), "the last one is whole"),
        ((3000, 3000, 3001), "points have no parts"),
    ],
)
def test_where_it_is_not_tried(sizes: tuple[int, int, int], why: str) -> None:
    for tile in tiles_for(sizes, 1, 16, REFERENCE):
        if tile["rows"] * tile["columns"] == 128 * 256:
            assert streams_of(sizes, 1, 16, REFERENCE, tile) == [], why


ONE = Machine.of({"processors": 1})
TINY = {"rows": 16, "columns": 32, "depth": 16, "warps": 4, "stages": 2, "group": 2}
"""A processor has eight programs of it at a time."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        product(137, 32, 512, "f16"),
        product(137, 32, 512, "bf16", transposed=True),
        product(90, 24, 1024, "f16", batch=3),
    ],
    ids=["odd rows", "transposed", "batched"],
)
def test_by_default(text: str) -> None:
    """A machine of one processor: a schedule that says a tile and no more gets stream-K, and the same numbers."""
    module = fused(text, TINY)
    state_machine(module, ONE)
    assert [one.schedule.choices.get("descriptors") for one in kernels_in(to_host(module))] == [1, 1, None]
    inputs = random_inputs(parse(text))
    expected, truth = run_reference(parse(text), inputs), run_reference(parse(text), inputs, precise=True)
    for one in (run(module, inputs), run_reference(module, inputs), run_reference(to_host(module), inputs)):
        found = compare("by default", one[0], expected[0], truth[0], factor=3.0, ulps=8.0 if "bf16" in text else 4.0)
        assert found.passes, str(found)


def test_columns_where_fewer_of_them_are_left() -> None:
    """7 tiles of 19: six rows of tiles are 114 of 132, and eighteen columns 126."""
    found = streamed((896, 4864, 4096), 1, 16, REFERENCE, BIG)
    assert found is not None
    assert (found[1]["stream_k"], found[1]["stream_columns"]) == (256, 1)
    rows = streamed((896, 4864, 4096), 1, 16, REFERENCE, BIG, apart=(True, False))
    assert rows is not None and found[0] < rows[0]


def test_other_machines_have_other_waves() -> None:
    """H100 and H200 have 132 processors, of which 24 tiles keep few busy; of 144, 288 tiles are two whole waves."""
    for processors, count in ((132, 3), (144, 1)):
        module = fused(product(3072, 3072, 4096, "bf16"), BIG)
        state_machine(module, Machine.of({"processors": processors}))
        assert len(kernels_in(to_host(module))) == count


def test_the_reason_is_told() -> None:
    module = fused(product(3072, 3072, 4096, "bf16"), BIG)
    with trace_rewrites() as trace:
        ChooseWavesPass().apply(make_context(), module)
    (told,) = (one.reason for one in trace.choices)
    assert told.startswith("its last 256 rows have sums in parts of 1024: predicted 0.8")


def planned(rows: int, columns: int, points: int) -> Plan:
    module = on_cuda(parse(product(rows, columns, points, "bf16")))
    (found,) = products_of(entry_block(module), precision="")
    plan = plan_of(found, REFERENCE)
    assert plan is not None
    return plan


def test_plans_count_on_it() -> None:
    """What is written down is the tile: the form is chosen where nothing changes any more."""
    plan = planned(3072, 3072, 4096)
    assert plan.waves and plan.tile.keys() == BIG.keys()
    assert not planned(2816, 3072, 4096).waves, "two whole waves"
    forms = (
        formed((3072, 3072, 4096), 1, 16, REFERENCE),
        formed((3072, 3072, 4096), 1, 16, REFERENCE, apart=(True, True)),
    )
    (whole, _), (apart, _) = (one[0] for one in forms)
    assert apart < whole / WORTH


LIBRARY = {
    (896, 4864, 4096): 52.8,
    (1280, 3840, 4096): 58.3,
    (2560, 2560, 2048): 42.7,
    (1536, 2944, 4096): 53.5,
    (3000, 3000, 3000): 82.8,
    (3072, 3072, 4096): 105.4,
    (4096, 768, 3072): 30.9,
    (8192, 1152, 4096): 107.2,
    (2304, 4096, 4096): 105.5,
    (4224, 4224, 8192): 398.4,
}
"""Microseconds of cuBLAS: the same measurement."""


@pytest.mark.parametrize("sizes", LIBRARY)
def test_the_library_has_no_waves(sizes: tuple[int, int, int]) -> None:
    """It was thought to take as long as our fastest tile, 0.9 times: up to 1.9 times as long as it does."""
    found = 0.9 * estimates(sizes, 1, 16, REFERENCE, whole_waves=False)[0][0]
    assert found == pytest.approx(LIBRARY[sizes], rel=0.11)


def test_tiles_that_are_tried_have_their_points_whole_as_well() -> None:
    """Before, all that the estimate put first had them in parts, and neither tuning nor the benchmark tried others."""
    for around in (ALONE, GELU):
        tiles = tiles_for((896, 4864, 4096), 1, 16, REFERENCE, around)
        assert 1 <= sum("part" in tile for tile in tiles) <= len(tiles) / 2


def test_max_autotune_tries_it() -> None:
    """Beside the forms that it has tried before, one for each of the first tiles, as choices of the nest."""
    module = on_cuda(parse(product(3072, 3072, 4096, "bf16")))
    (found,) = products_of(entry_block(module), precision="")
    tried = [one.tile for one in variants_of(found, REFERENCE) if "stream_k" in one.tile]
    assert tried and all(tile["part"] and tile["descriptors"] for tile in tried)
    assert not any("stream_k" in one.tile for one in variants_of(found, Machine.of({"processors": 24})))


@pytest.mark.gpu
@pytest.mark.parametrize("form", ["descriptors", "both"])
@pytest.mark.parametrize("sizes", [(3000, 3000, 3000), (2304, 4096, 1024)])
def test_on_a_device(sizes: tuple[int, int, int], form: str, tmp_path: Path) -> None:
    """As near to float64 as eager, and the same in every run."""
    tile = {"rows": 128, "columns": 256, "depth": 64, "warps": 8, "stages": 3, "group": 8}
    if form == "both":
        tile["programs"] = 132
    tile |= {"descriptors": int(torch.cuda.get_device_capability() >= (9, 0))}
    rows, columns, points = sizes
    choices = {**tile, "stream_k": rows % 128 or 256, "part": points // (5 if points == 3000 else 4)}
    path = tmp_path / "program.mlir"
    path.write_text(print_text(fused(product(*sizes, "bf16"), choices)))
    a, b, res = (
        torch.randn(one, device="cuda").bfloat16() for one in ((rows, points), (points, columns), (rows, columns))
    )
    bias = torch.randn(columns, device="cuda").bfloat16()
    call = cuesta.load(path)
    (found,), (again,) = call(a, b, bias, res), call(a, b, bias, res)
    assert torch.equal(found, again)
    truth = (a.double() @ b.double() + bias.double()).tanh() + res.double()
    eager = ((a @ b).float() + bias.float()).tanh() + res.float()
    off, ours = ((one.double() - truth).abs().mean() for one in (eager.bfloat16(), found))
    assert ours <= 1.5 * off
