"""What wrappers call at run time: the results of operators, checked and opened."""

from __future__ import annotations

import ctypes
import gc
import importlib
import weakref
from types import FunctionType
from typing import Any

import pytest
import torch

from cuesta.targets.cpu.libraries import free_record, library_addresses
from cuesta.targets.host import runtime
from cuesta.targets.host.runtime import (
    allocator,
    build_unfinished,
    check_metadata,
    flattened,
    index_error_raiser,
    reinterpreter,
    resolve_overload,
    with_strides,
)
from cuesta.targets.program import BoundSite, Program


def test_results_are_opened() -> None:
    assert flattened(None) == (None,)
    assert flattened([1]) == (1,)
    assert flattened((1, [2, (3,)], None, [])) == (1, 2, 3, None)


def test_metadata_is_checked() -> None:
    value = torch.zeros(2, 3)
    for device in ("cpu", str(value.device)):
        check_metadata(value, (2, 3), torch.float32, device, "mylib::foo.default")
    for sizes, dtype in (((3, 2), torch.float32), ((2, 3), torch.float64), ((6,), torch.float32)):
        with pytest.raises(RuntimeError, match=r"mylib::foo.default gave a tensor of torch.float32 and size \(2, 3\)"):
            check_metadata(value, sizes, dtype, "cpu", "mylib::foo.default")
    for device in ("meta", "cuda", "cuda:1"):
        with pytest.raises(RuntimeError, match=rf"on cpu, but .* promised torch.float32 and \(2, 3\) on {device}$"):
            check_metadata(value, (2, 3), torch.float32, device, "mylib::foo.default")
    for wrong, said in ((None, "no tensor but a NoneType"), (value.to_sparse(), "the layout torch.sparse_coo")):
        with pytest.raises(RuntimeError, match=f"mylib::foo.default gave .*{said}, but its fake"):
            check_metadata(wrong, (2, 3), torch.float32, "cpu", "mylib::foo.default")


def test_strides_are_made_right() -> None:
    value = torch.arange(7.0)[1:].view(2, 3)
    turned = with_strides(value, (1, 2))
    assert turned.stride() == (1, 2) and torch.equal(turned, value)
    column = value[:, :1]
    same = with_strides(column, (3, 99))  # a dimension of size 1 has no stride worth a copy
    assert same.data_ptr() == column.data_ptr() and torch.equal(same, column) and same.stride() == (3, 99)


def test_an_index_error_names_the_line_once() -> None:
    raise_index_error = index_error_raiser([BoundSite(""), BoundSite("model.py:42")])
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for dimension with size 5 \(model.py:42\)"):
        raise_index_error(new_record(2, 7, 5))
    with pytest.raises(RuntimeError, match="out of bounds"):  # which is what eager raises in `gather`
        raise_index_error(new_record(1, 7, 5))
    with pytest.raises(IndexError, match=r"with size 5$"):
        raise_index_error(new_record(1, 7, 5))
    with pytest.raises(MemoryError, match="no memory to say which"):
        raise_index_error(-1)


def new_record(*values: int) -> int:
    """A record as a run hands it out."""
    malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(library_addresses()["malloc"])
    address = malloc(8 * len(values))
    ctypes.memmove(address, (ctypes.c_int64 * 3)(*values), 8 * len(values))
    return address


def test_the_record_of_an_index_error_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has its own, so that one that is not raised yet is not written over, and all of them go."""
    records: list[tuple[int, int]] = []

    def free(address: int) -> None:
        records.append((address, ctypes.c_int64.from_address(address + 8).value))

    monkeypatch.setattr(runtime, "free_record", free)
    compiled = torch.compile(lambda x, i: x[i] * 2, backend="cuesta", dynamic=False)
    for bad in (7, -9):
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
            compiled(torch.ones(3), torch.tensor([0, bad]))
    assert [value for _, value in records] == [7, -9] and records[0][0] != records[1][0]
    for address, _ in records:
        free_record(address)


@pytest.fixture(params=["as it is", "without private functions"])
def torch_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without private functions":
        guards = importlib.import_module("torch._C._dynamo.guards")
        monkeypatch.delattr(guards, "_empty_strided_cpu")
        monkeypatch.delattr(guards, "_reinterpret_tensor")


@pytest.mark.usefixtures("torch_version")
def test_memory_is_had_from_any_torch() -> None:
    made = allocator("cpu")((2, 3), (1, 2), torch.bfloat16)
    assert (made.shape, made.stride(), made.dtype, made.device.type) == ((2, 3), (1, 2), torch.bfloat16, "cpu")
    source = torch.arange(12.0)[2:]
    alias = reinterpreter()(source, (2, 2), (1, 3), 1)
    assert alias.tolist() == [[3.0, 6.0], [4.0, 7.0]]
    assert alias.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()


def test_an_overload_by_a_shorter_way_is_the_same() -> None:
    bias, x, y = torch.randn(4), torch.randn(2, 3), torch.randn(3, 4)
    expected = torch.ops.aten.addmm.default(bias, x, y, beta=2, alpha=0.5)
    assert torch.equal(resolve_overload("aten.addmm.default")(bias, x, y, beta=2, alpha=0.5), expected)
    arguments = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    expected = torch.ops.aten.convolution.default(*arguments)
    assert torch.equal(resolve_overload("aten.convolution.default")(*arguments), expected)


PLAIN = Program("def call(args):\n    return [args.pop() + 1]\n", {}, (), (), None, (), ())


def test_an_unfinished_program_is_finished_by_its_first_call() -> None:
    asked: list[str] = []

    def finish() -> None:
        asked.append("finish")
        if len(asked) < 3:
            raise OSError("not yet")

    function = build_unfinished(PLAIN, finish)
    assert not asked
    for _ in range(2):
        with pytest.raises(OSError, match="not yet"):
            function([1])
    assert [function([number]) for number in (1, 2, 3)] == [[2], [3], [4]]
    assert len(asked) == 3


def test_a_first_call_that_another_overtakes_goes_on() -> None:
    """Threads that began before the function was complete still run the code that asks for it."""
    function: Any = build_unfinished(PLAIN, lambda: None)
    begun = FunctionType(function.__code__, function.__globals__)
    assert function([1]) == [2]
    assert begun([2]) == [3]


def test_a_finished_program_does_not_keep_what_finished_it() -> None:
    class Finish:
        def __call__(self) -> None: ...

    finish = Finish()
    gone, function = weakref.ref(finish), build_unfinished(PLAIN, finish)
    function([1])
    del finish
    gc.collect()
    assert gone() is None
