"""In a dense block each feature is reduced once, and neither texts nor the work of fusion grow with its square."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.machine import ATTRIBUTE, REFERENCE, MachineAttr, machine_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.dialects.loops.surgery import loads_of
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.programs.capturing import lower
from cuesta.transforms.fusion import fuse_nests
from cuesta.transforms.reductions.sharing_cost import Site, Work, pays
from tests.support.dense_blocks import DenseBlock
from tests.support.levels import capture, check_levels

_GROWTH, _IMAGES, _SIDE = 2, 2, 6


def _block(layers: int, *, grown: bool = False, side: int = _SIDE) -> tuple[DenseBlock, torch.Tensor]:
    torch.manual_seed(0)
    return DenseBlock(layers, _GROWTH, grown=grown).train(), torch.randn(_IMAGES, _GROWTH, side, side)


def _busy_machine(module: ModuleOp) -> None:
    """Another kernel costs nothing, and what is read again costs as much as at first: as for images that are large."""
    facts = replace(machine_of(module), waking=1, launch=1, cache_cost=1.0, cache=1)
    module.attributes[ATTRIBUTE] = MachineAttr(facts)


@cache
def _captured(layers: int, grown: bool, side: int) -> list[ModuleOp]:
    block, x = _block(layers, grown=grown, side=side)
    return [graph.module for graph in lower(block, x, training=True).graphs]


def _graphs(layers: int, device: str, *, grown: bool = False, side: int = _SIDE, busy: bool = True) -> list[ModuleOp]:
    found: list[ModuleOp] = []
    for graph in _captured(layers, grown, side):
        module = on_cuda(graph) if device == "cuda" else graph.clone()
        if busy:
            _busy_machine(module)
        found.append(module)
    return found


def _run_until(module: ModuleOp, label: str) -> ModuleOp:
    context = make_context()
    for stage in STAGES:
        run_pipeline(context, module, [stage])
        if stage.label == label:
            break
    return module


def _reduced(module: ModuleOp) -> int:
    """How many elements of images reductions read."""
    return sum(
        math.prod(int(size) for size in (*nest.sizes, *op.sizes) if isinstance(size, int))
        for nest in module.walk()
        if isinstance(nest, loops.NestOp)
        for op in nest.body.ops
        if isinstance(op, loops.ReduceOp)
        for load in loads_of(op)
        if len(sizes_of(tensor_type_of(load.source))) == 4
    )


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize(
    ("layers", "device", "side"),
    [(3, "cpu", 6), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((8, "cpu", 6), (4, "cuda", 130)))],
)
def test_each_feature_is_reduced_once(layers: int, device: str, side: int, grown: bool) -> None:
    forward = _graphs(layers, device, grown=grown, side=side)[0]
    points = _IMAGES * side * side
    before = _reduced(_run_until(forward.clone(), "dce"))
    after = _reduced(_run_until(forward.clone(), "share-reductions"))
    assert before == 2 * _GROWTH * points * layers * (layers + 1) // 2  # the mean, and what is about it
    assert after == 2 * _GROWTH * points * layers


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_small_stays_as_it_is(device: str) -> None:
    forward, _ = _graphs(5, device, busy=False)
    shared = _run_until(forward.clone(), "share-reductions")
    assert _reduced(shared) == _reduced(_run_until(forward, "dce"))


@pytest.mark.parametrize(("points", "shared"), [(31360, False), (501760, True)])
def test_on_a_gpu_only_where_rows_do_not_stay_in_registers(points: int, shared: bool) -> None:
    layers = [
        Work(rows, points, width=4, stages=2, after=True, reads_after=True, written=4, arithmetic=8)
        for rows in range(32, 224, 32)
    ]
    sites = [Site(work, fresh=32 / work.rows) for work in layers]
    assert pays(sites, REFERENCE, blocks=True) is shared


@pytest.mark.parametrize("blocks", [False, True])
def test_what_nobody_shares_is_not_worth_it(blocks: bool) -> None:
    work = Work(rows=2048, points=1 << 20, width=4, stages=2, after=True, reads_after=True, written=4, arithmetic=8)
    assert not pays([Site(work, fresh=1.0)] * 3, REFERENCE, blocks=blocks)


@pytest.mark.slow
def test_every_layer_reads_each_feature_once_for_its_points() -> None:
    forward, _ = _graphs(6, "cpu")
    fused = _run_until(forward, "dce-2")
    images = [
        [load.source for load in loads_of(nest) if len(sizes_of(tensor_type_of(load.source))) == 4]
        for nest in fused.body.block.walk()
        if isinstance(nest, loops.NestOp) and len(nest.sizes) == 4
    ]
    assert len(images) >= 6  # the points of layers, with what they join; and the last concatenation
    assert all(len(read) == len(set(read)) <= 4 for read in images)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("grown", [False, True])
def test_no_stage_changes_what_is_computed(grown: bool, layers: int) -> None:
    block, x = _block(layers, grown=grown)
    for captured in capture(block, x):
        _busy_machine(captured.module)
        if captured.kind == "forward":
            shared = _run_until(captured.module.clone(), "share-reductions")
            assert _reduced(shared) < _reduced(_run_until(captured.module.clone(), "dce"))
        check_levels(captured, reenter_at_levels=False)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_fusion_looks_at_as_many_pairs_as_there_are_nests(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    fuse = fuse_nests._Fusion.fuse

    def counting(self: fuse_nests._Fusion, *pair: object) -> object:
        nonlocal looked_at
        looked_at += 1
        return fuse(self, *pair)  # type: ignore[arg-type]

    monkeypatch.setattr(fuse_nests._Fusion, "fuse", counting)
    pairs: list[float] = []
    for layers in (5, 10):
        _, backward = _graphs(layers, device)
        before = _run_until(backward, "materialize-views")
        nests = sum(isinstance(op, loops.NestOp) for op in before.walk())
        looked_at = 0
        run_pipeline(make_context(), before, [stage for stage in STAGES if stage.label == "fuse-nests"])
        pairs.append(looked_at / nests)
    assert pairs[1] <= 1.2 * pairs[0], pairs


@pytest.mark.slow
def test_the_text_of_a_layer_does_not_grow_with_those_before_it() -> None:
    lengths: list[float] = []
    for layers in (4, 8):
        forward, _ = _graphs(layers, "cpu", busy=False)
        lengths.append(len(list(_run_until(forward, "nest-concatenations").walk())) / layers)
    assert lengths[1] <= 1.1 * lengths[0], lengths
