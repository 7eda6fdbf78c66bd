"""Scatters on the GPU: what their kernels mean, by the reference interpreter, and what they do, by Triton's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.targets.reference.program import run_and_write
from cuesta.targets.triton.emit_module import emit_module
from tests.support.scatter_cases import BACKWARD, backward_inputs, cases
from tests.support.triton_interpreter import interpreted_cuda, to_host
from tests.support.triton_kernels import assert_compiles, kernels_in

pytestmark = pytest.mark.slow


def as_list(results: Any) -> list[torch.Tensor]:
    return list(results) if isinstance(results, tuple) else [results]


def assert_same(actual: list[Any], expected: list[torch.Tensor]) -> None:
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype is theirs.dtype and ours.stride() == theirs.stride()
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def check(function: Callable[..., Any], inputs: tuple[Any, ...], **how: bool) -> list[ModuleOp]:
    """Compares with eager, by `interpreted_cuda`; gives the kernels, of which none does one point after the other, and
    no call.
    """
    with interpreted_cuda(lowered=True, **how) as programs:
        actual = torch.compile(function, backend="cuesta", fullgraph=True)(*inputs)
    assert_same(as_list(actual), as_list(function(*inputs)))
    lowered = [to_host(program) for program in programs]
    for module in lowered:
        assert not [op.overload for op in module.walk() if isinstance(op, host.ExternOp)]
        assert not any(isinstance(op, kernel.ScanOp) for op in module.walk())
    return lowered


LIKE_ANOTHER = ("float64", "float16", "int32", "int8")
"""Types whose atomics are made as another's are: by the device, or of words of 32 bits. What their kernels mean is
tested with the suite; that Triton takes them as well, by `make test-thorough`.
"""


def has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def like_another(name: str) -> bool:
    return name.split()[-1] in LIKE_ANOTHER


IN_PAIRS = ("assignments int64", "assignments int16", "assignments uint8", "few int16", "sums uint8")
"""Of all pairs of functions and types, what Triton's interpreter is not asked of: each stands in others, too."""


@pytest.mark.parametrize("name", cases())
def test_the_kernels_mean_and_do_what_eager_does_and_compile(name: str) -> None:
    """Triton's interpreter does it, of all types by `make test-thorough`."""
    run_it = not like_another(name) and name not in IN_PAIRS and has_triton()
    (lowered,) = check(*cases()[name], run_it=run_it, both=run_it)
    assert any(isinstance(op, kernel.AtomicOp) for op in lowered.walk())
    if not like_another(name):
        pytest.importorskip("triton")
        assert_compiles(emit_module(kernels_in(lowered)).values())


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in cases() if like_another(name)])
def test_kernels_of_other_types_compile(name: str) -> None:
    pytest.importorskip("triton")
    (lowered,) = check(*cases()[name], run_it=False)
    assert_compiles(emit_module(kernels_in(lowered)).values())


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in cases() if like_another(name) or name in IN_PAIRS])
def test_other_kernels_do_what_eager_does(name: str) -> None:
    pytest.importorskip("triton")
    check(*cases()[name], run_it=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    function, (weight, indices) = BACKWARD[name], backward_inputs()
    expected = torch.autograd.grad(function(weight, indices).sum(), weight)
    with interpreted_cuda(run_it=False, lowered=True) as programs:
        result = torch.compile(function, backend="cuesta", fullgraph=True)(weight, indices)
        actual = torch.autograd.grad(result.sum(), weight)
    assert_same(list(actual), list(expected))
    backward = to_host(programs[-1])
    assert any(isinstance(op, kernel.AtomicOp) for op in backward.walk())


@pytest.mark.slow
def test_a_deterministic_form_is_left_to_eager() -> None:
    function, inputs = cases()["sums float32"]
    (program,) = interpreted_programs(function, inputs)
    for deterministic, atomics in ((False, True), (True, False)):
        module = program.clone()
        stages = default_stages(deterministic=deterministic)
        run_pipeline(make_context(), module, stages, verify_each=True)
        externs = {op.overload for op in module.walk() if isinstance(op, host.ExternOp)}
        assert any(isinstance(op, kernel.AtomicOp) for op in module.walk()) == atomics
        assert ("aten.scatter_add.default" in externs) == deterministic


def interpreted_programs(function: Callable[..., Any], inputs: tuple[Any, ...]) -> list[ModuleOp]:
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True)(*inputs)
    return programs


@pytest.mark.slow
def test_integers_of_eight_bits_wrap_once_and_begin_at_their_least() -> None:
    """Also on the CPU: without `include_self`, what nothing is compared with is the least number, 0 if unsigned."""
    x, i, v = torch.full((4,), 9, dtype=torch.uint8), torch.tensor([0, 0, 2]), torch.tensor([3, 200, 7]).byte()
    function = lambda x, i, v: (  # noqa: E731
        x.scatter_reduce(0, i, v, "amax", include_self=False),
        x.scatter_reduce(0, i, v, "amin", include_self=False),
        x.scatter_add(0, i, v * 2),
    )
    check(function, (x, i, v), run_it=False)
    assert_same(as_list(torch.compile(function, backend="cuesta", fullgraph=True)(x, i, v)), as_list(function(x, i, v)))


def test_what_is_written_to_an_argument_is_written_there() -> None:
    """The keys of an attention: the cache is neither copied before nor after."""

    def function(cache: torch.Tensor, position: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        cache[:, position] = keys
        return cache.sum(-1)

    inputs = torch.zeros(2, 300, 8), torch.tensor([5, 6]), torch.randn(2, 2, 8)
    (program,) = interpreted_programs(function, tuple(value.clone() for value in inputs))
    lowered = to_host(program)
    launches = [op.kernel for op in lowered.walk() if isinstance(op, host.LaunchOp)]
    assert len(launches) == 2 and launches[0].startswith("scatter")
    assert not any(isinstance(op, host.ExternOp) for op in lowered.walk())
    given = [value.clone() for value in inputs]
    order = [next(value for value in given if list(value.shape) == list(sizes_of(tensor_type_of(argument))))
             for argument in entry_block(program).args]  # fmt: skip
    (actual,), written = run_and_write(lowered, order)
    expected = inputs[0].clone()
    result = function(expected, *inputs[1:])
    torch.testing.assert_close(actual, result)
    assert torch.equal(written[0], expected)  # type: ignore[arg-type]


def test_of_a_large_table_of_16_bits_only_what_changes_is_held_in_32() -> None:
    """The table itself is copied as it is, as eager does."""

    def function(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.index_put((i,), v, accumulate=True)

    rows, columns, changes = 1000, 16, 4
    x, v = torch.zeros(rows, columns).bfloat16(), torch.ones(changes, columns).bfloat16()
    (lowered,) = check(function, (x, torch.randint(0, rows, (changes,)), v), run_it=False)
    allocated = [tensor_type_of(op.results[0]) for op in lowered.walk() if isinstance(op, host.AllocOp)]
    size = sum(prod(one.get_shape()) * one.element_type.size for one in allocated)  # pyright: ignore[reportAttributeAccessIssue]
    assert size < x.nbytes + 4 * rows + 4 * changes * columns + 1024


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_products_of_few(dtype: torch.dtype, run_it: bool) -> None:
    """There are no atomic products: every element looks at all that is scattered."""

    def function(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.scatter_reduce(0, i, v, "prod"),
            x.scatter_reduce(0, i[:3, :2], v, "prod", include_self=False),
            x.t().contiguous().scatter_reduce(1, i.t().contiguous(), v.t().contiguous(), "prod"),
            x[0].scatter_reduce(0, i[0], v[0], "prod", include_self=False),
        )

    x, v = (torch.randint(0 if dtype is torch.bool else 1, 4, sizes).to(dtype) for sizes in ((4, 5), (9, 5)))
    (lowered,) = check(function, (x, torch.randint(0, 4, (9, 5)), v), run_it=run_it)
    if run_it:
        pytest.importorskip("triton")
        assert_compiles(emit_module(kernels_in(lowered)).values())


def test_products_of_many_are_left_to_eager() -> None:
    inputs = torch.randn(4), torch.randint(0, 4, (33,)), torch.randn(33)
    (program,) = interpreted_programs(lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), inputs)
    assert [op.overload for op in to_host(program).walk() if isinstance(op, host.ExternOp)]


def test_products_look_at_the_index_before_they_believe_it() -> None:
    inputs = torch.randn(4), torch.tensor([0, 4]), torch.randn(2)
    with interpreted_cuda(run_it=False, lowered=True), pytest.raises(IndexError, match="4"):
        torch.compile(lambda x, i, v: x.scatter_reduce(0, i, v, "prod"), backend="cuesta", fullgraph=True)(*inputs)


@pytest.mark.parametrize("position", [-91, 90])
def test_an_index_outside_of_a_large_table_raises(position: int) -> None:
    inputs = torch.randn(90, 4).half(), torch.tensor([3, position]), torch.randn(2, 4).half()
    function = torch.compile(lambda x, i, v: x.index_put((i,), v, accumulate=True), backend="cuesta", fullgraph=True)
    with interpreted_cuda(run_it=False, lowered=True), pytest.raises(IndexError, match=str(position)):
        function(*inputs)


def test_rounded_once() -> None:
    """Of 1000 equal numbers that are added one by one, bf16 keeps 256."""
    inputs = torch.zeros(5000).bfloat16(), torch.zeros(1000, dtype=torch.int64), torch.ones(1000).bfloat16()
    with interpreted_cuda(run_it=False, lowered=True):
        function = torch.compile(lambda x, i, v: x.index_put((i,), v, accumulate=True), backend="cuesta")
        assert function(*inputs)[0] == 1000


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_where_a_mask_holds(run_it: bool) -> None:
    def function(x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.masked_scatter(mask, y), x.masked_scatter(mask[:1], y) * 2, x[0, 0].masked_scatter(mask[0, 0], y)

    x, y = torch.randn(7, 900), torch.randn(5, 3000)
    with interpreted_cuda(run_it=run_it, lowered=True) as programs:
        actual = torch.compile(function, backend="cuesta", fullgraph=True)(x, x > 0, y)
    assert_same(as_list(actual), as_list(function(x, x > 0, y)))
    assert not any(isinstance(op, host.ExternOp) for op in to_host(programs[0]).walk())


@pytest.mark.parametrize("run_it", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_symbolic_sizes(run_it: bool) -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.scatter_add(0, i, x),
            x.new_zeros(7, x.shape[1]).index_add(0, i[:, 0] % 7, x),
            x.index_fill(1, i[0], 3.0),
        )

    with interpreted_cuda(run_it=run_it, lowered=True) as programs:
        compiled = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=True)
        for rows, columns in ((5, 9), (70, 30)):
            x, i = torch.randint(-9, 9, (rows, columns)).float(), torch.randint(0, min(rows, columns), (rows, columns))
            assert_same(as_list(compiled(x, i)), as_list(function(x, i)))
    (program,) = programs
    lowered = to_host(program)
    assert sum(isinstance(op, kernel.AtomicOp) for op in lowered.walk()) >= 3
    assert not any(isinstance(op, kernel.ScanOp) for op in lowered.walk())
