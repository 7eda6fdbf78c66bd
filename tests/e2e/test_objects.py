"""Tensors that wrap others, and the objects that graphs carry for them: DTensors and their meshes, in one process.

`tests/distributed/` has what several processes compute.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

if torch.__version__ < "2.13":
    pytest.skip("operators of this torch take no objects", allow_module_level=True)

import torch.distributed as dist
from torch import Tensor
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase
from torch.distributed._functional_collectives import all_reduce, broadcast
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.testing._internal.two_tensor import TwoTensor

import cuesta
from tests.support.differential import compiled_of


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    cuesta.clear_records()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "cuesta runs a graph in eager")
        yield


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """A group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # pyright: ignore[reportPrivateImportUsage]
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@pytest.fixture
def mesh_of_two() -> Iterator[DeviceMesh]:
    """A group of two, of which only this process is there: collective operations leave what they find."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield init_device_mesh("cpu", (2,))
    finally:
        dist.destroy_process_group()


def operators() -> dict[str, int]:
    return dict(cuesta.statistics().fallbacks)


# -- DTensors ----------------------------------------------------------------------------------------------------------


def test_inputs_outputs_and_saved_values(mesh: DeviceMesh) -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.nn.functional.gelu(x @ w)
        return y, (y * y).sum(0)

    x, w = torch.randn(8, 16), torch.randn(16, 4)
    inputs = [distribute_tensor(one, mesh, [Shard(0)]).requires_grad_() for one in (x, w)]
    found = compiled_of(function)(*inputs)
    assert all(isinstance(one, DTensor) and one.device_mesh is mesh for one in found)
    torch.autograd.backward([found[0].sum(), found[1].square().sum()])
    plain = [one.requires_grad_() for one in (x, w)]
    expected = function(*plain)
    torch.autograd.backward([expected[0].sum(), expected[1].square().sum()])
    gradients: list[Any] = [one.grad for one in inputs]
    assert all(isinstance(one, DTensor) for one in gradients)
    for actual, wanted in zip((*found, *gradients), (*expected, *(one.grad for one in plain)), strict=True):
        torch.testing.assert_close(actual.full_tensor(), wanted, rtol=1e-4, atol=1e-4)
    assert [one.kind for one in cuesta.records] == ["forward", "backward"]
    assert all(one.kernels for one in cuesta.records)


def test_a_mesh_that_the_graph_holds(mesh: DeviceMesh) -> None:
    """It was traced with a fake of the mesh: the result has the mesh itself."""

    def function(x: Tensor) -> Tensor:
        return DTensor.from_local(x, mesh, [Replicate()], run_check=False).redistribute(placements=[Shard(0)]) * 3

    x = torch.randn(8)
    found: Any = compiled_of(function)(x)
    assert found.device_mesh is mesh and cuesta.records[-1].kernels == 1
    torch.testing.assert_close(found.full_tensor(), x * 3)


def test_updates_of_dtensors(mesh: DeviceMesh) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x * 2

    x, y = torch.randn(8, 4), torch.randn(8, 4)
    given = [distribute_tensor(one.clone(), mesh, [Shard(0)]) for one in (x, y)]
    found = compiled_of(function)(*given)
    torch.testing.assert_close(given[0].full_tensor(), x + y)
    torch.testing.assert_close(found.full_tensor(), (x + y) * 2)


def test_collectives_of_dtensors_are_in_the_graph(mesh_of_two: DeviceMesh) -> None:
    def function(x: Any, w: Any) -> Tensor:
        return (torch.relu(x) @ w).redistribute(placements=[Replicate()]) + 1

    x = DTensor.from_local(torch.randn(4, 8), mesh_of_two, [Shard(1)])
    w = DTensor.from_local(torch.randn(8, 4), mesh_of_two, [Shard(0)])
    found: Any = compiled_of(function)(x, w)
    assert found.placements == (Replicate(),)
    assert not operators()
    assert cuesta.records[-1].kernels == 2 and cuesta.records[-1].library_calls == 3


def test_partial_sums_stay_partial(mesh_of_two: DeviceMesh) -> None:
    x = DTensor.from_local(torch.randn(4, 8), mesh_of_two, [Shard(0)])
    found: Any = compiled_of(lambda x: (x * 2).sum(0))(x)
    assert found.placements == (Partial("sum"),)
    torch.testing.assert_close(found.to_local(), (x.to_local() * 2).sum(0))
    assert not operators()


def test_sizes_that_change(mesh: DeviceMesh) -> None:
    function = compiled_of(lambda x: torch.relu(x * 2).sum(1), dynamic=True)
    for size in (8, 12, 20):
        x = torch.randn(size, 4)
        found = function(distribute_tensor(x, mesh, [Shard(0)]))
        torch.testing.assert_close(found.full_tensor(), torch.relu(x * 2).sum(1))


def test_what_is_still_received_is_not_copied(mesh: DeviceMesh, tmp_path: Path) -> None:
    """Torch promises other strides than `broadcast` gives: the result is laid out so when it is there."""
    x = torch.randn(4, 6)
    found = compiled_of(lambda x: broadcast(x.t(), 0, mesh) * 2, options={"dump": str(tmp_path)})(x)
    torch.testing.assert_close(found, x.t() * 2)
    (wrapper,) = tmp_path.glob("*/wrapper.py")
    text = wrapper.read_text()
    assert "wait_tensor = with_strides(wait_tensor, " in text and "broadcast = with_strides" not in text


@pytest.mark.slow
def test_a_wait_gives_its_operand_also_where_calls_are_checked(mesh: DeviceMesh, tmp_path: Path) -> None:
    """The schema of `wait_tensor` denies it. A text of such a program checks calls, too."""
    x = torch.randn(4)
    settings = {"checks": "calls", "dump": str(tmp_path)}
    torch.testing.assert_close(
        compiled_of(lambda x: all_reduce(x * 2, "sum", mesh) + 1, options=settings)(x), x * 2 + 1
    )
    for path in tmp_path.glob("*/*.mlir"):
        torch.testing.assert_close(cuesta.load(path)(x)[0], x * 2 + 1)


# -- other tensors that wrap tensors -----------------------------------------------------------------------------------


def test_two_tensors_in_one() -> None:
    x: Any = TwoTensor(torch.randn(4), torch.randn(4)).requires_grad_()
    expected: Any = x.detach().clone().requires_grad_()
    found: Any = compiled_of(lambda x: (x.sin() * 2, x + 1))(x)
    (found[0].sum() + found[1].sum()).backward()
    (expected.sin() * 2 + expected + 1).sum().backward()
    torch.testing.assert_close(found[0].a, x.a.sin() * 2)
    torch.testing.assert_close(found[0].b, x.b.sin() * 2)
    torch.testing.assert_close(x.grad.a, expected.grad.a)


def test_a_tensor_that_is_still_waited_for(mesh: DeviceMesh) -> None:
    x = torch.randn(4)
    torch.testing.assert_close(compiled_of(lambda x: x * 2)(all_reduce(x, "sum", mesh)), x * 2)


# -- objects of others -------------------------------------------------------------------------------------------------


class Box(OpaqueBase):
    """An object that operators are given: any one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Constant(OpaqueBase):
    """An object that stands in the graph as it is."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Constant({self.number})", {"Constant": Constant}


register_opaque_type(Box, typ="reference")
register_opaque_type(Constant, typ="value")


def times(x: Tensor, box: Box) -> Tensor:
    return x * box.number


def times_constant(x: Tensor, constant: Constant) -> Tensor:
    return x * constant.number


def another(x: Tensor, box: Box) -> Box:
    return Box(box.number + len(x))


times.__annotations__ = {"x": Tensor, "box": Box, "return": Tensor}
times_constant.__annotations__ = {"x": Tensor, "constant": Constant, "return": Tensor}
another.__annotations__ = {"x": Tensor, "box": Box, "return": Box}
times = torch.library.custom_op("cuesta_objects::times", times, mutates_args=())
times_constant = torch.library.custom_op("cuesta_objects::times_constant", times_constant, mutates_args=())
another = torch.library.custom_op("cuesta_objects::another", another, mutates_args=())
times.register_fake(lambda x, box: torch.empty_like(x))
times_constant.register_fake(lambda x, constant: torch.empty_like(x))
another.register_fake(lambda x, box: Box(0))


def test_an_operator_that_is_given_an_object() -> None:
    """Eager calls it, and the rest is compiled; each call of the function has its own object."""
    function = compiled_of(lambda x, box: (times(x.sin(), box).cos(), box))
    x = torch.randn(5)
    for box in (Box(3), Box(5)):
        found, same = function(x, box)
        assert same is box
        torch.testing.assert_close(found, (x.sin() * box.number).cos())
    assert operators() == {"cuesta_objects.times.default": 1} and cuesta.records[-1].kernels == 2


def test_an_object_from_around_the_function() -> None:
    box, x = Box(7), torch.randn(5)
    found, same = compiled_of(lambda x: (times(x.sin(), box).cos(), box))(x)
    assert same is box
    torch.testing.assert_close(found, (x.sin() * 7).cos())


def test_an_operator_that_gives_an_object() -> None:
    x = torch.randn(5)
    found = compiled_of(lambda x, box: times(x.sin(), another(x, box)).cos())(x, Box(2))
    torch.testing.assert_close(found, (x.sin() * 7).cos())


def test_objects_in_the_graph_are_told_apart(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program of one is found in the cache for another."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    x = torch.randn(5)
    torch.testing.assert_close(
        compiled_of(lambda x: times_constant(x.sin(), Constant(4)).cos())(x), (x.sin() * 4).cos()
    )
    torch.testing.assert_close(
        compiled_of(lambda x: times_constant(x.sin(), Constant(5)).cos())(x), (x.sin() * 5).cos()
    )
    assert [record.kernels for record in cuesta.records] == [2, 2]


def test_objects_that_pass_are_not_in_the_key(tmp_path: Any, monkeypatch: pytest.MonkeyPatch, mesh: DeviceMesh) -> None:
    """A program from the cache hands out the object of the graph at hand."""
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    x = torch.randn(8)
    for one in (mesh, init_device_mesh("cpu", (1,), mesh_dim_names=("other",))):
        torch._dynamo.reset()

        def function(x: Tensor, one: DeviceMesh = one) -> Tensor:
            return DTensor.from_local(x, one, [Replicate()], run_check=False) * 3

        found: Any = compiled_of(function)(x)
        assert found.device_mesh is one
        torch.testing.assert_close(found.to_local(), x * 3)
    assert [record.from_cache for record in cuesta.records] == [False, True]


def test_communication_keeps_its_order_in_a_program_in_pieces(mesh: DeviceMesh, tmp_path: Path) -> None:
    """The second could start in the first piece, before eager has run; another process may have no such piece."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        first = all_reduce((x * 3).nonzero().float().sum(0), "sum", mesh)
        second = all_reduce(x * 2, "max", mesh)
        return first + 1, second + 1

    x = torch.tensor([0.0, 1.0, 2.0])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = compiled_of(function, options={"dump": str(tmp_path)})(x)
    torch.testing.assert_close(found, (torch.tensor([4.0]), x * 2 + 1))
    (wrapper,) = tmp_path.glob("*/wrapper.py")
    body = wrapper.read_text()
    pieces = dict(re.findall(r"def (\w+)\(args\):\n(.*?)(?=\ndef |\Z)", body, re.DOTALL))
    order = re.findall("|".join(re.escape(f"{name}(inputs)") for name in pieces), pieces["call"])
    run = "".join(pieces[name.removesuffix("(inputs)")] for name in order)
    assert len(order) == 2
    assert run.index("'sum'") < run.index("'max'")


@pytest.mark.parametrize("rows", (1, 2))
def test_parts_written_to_beside_what_is_saved(rows: int) -> None:
    """What AOTAutograd counts as visible leaves out the parts that are written to, so that strides are of others."""

    def function(x: Any) -> Any:
        x.detach().add_(1)
        return x.ravel() * x.sin()[0, 0]

    found: list[Any] = []
    for run in (function, compiled_of(function)):
        a = torch.arange(rows * 2.0).view(rows, 2)
        x: Any = TwoTensor(a, a + 1).requires_grad_()
        result = run(x)
        gradient: Any = torch.autograd.grad(result.sum(), x)[0]
        found.append([one.detach() for pair in (x, result, gradient) for one in (pair.a, pair.b)])
    torch.testing.assert_close(found[1], found[0])
