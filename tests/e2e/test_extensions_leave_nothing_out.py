"""A pass of an extension that drops what the program should compute is noticed at once, at every level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

import cuesta
from cuesta.dialects import host, kernel, loops, sym
from cuesta.dialects.complete import Promise
from cuesta.dialects.core.entry import entry_block, entry_function, writes_to
from cuesta.dialects.core.extension import After, Extension
from cuesta.passes import parse_passes

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def passing(does: Callable[[ModuleOp], None]) -> type[ModulePass]:
    """A pass that does it."""

    class TestedPass(ModulePass):
        name = "tested"

        def apply(self, ctx: Context, op: ModuleOp) -> None:
            does(op)

    return TestedPass


def first(module: ModuleOp, kind: type[Operation]) -> Operation:
    return next(op for op in module.walk() if isinstance(op, kind))


def drop(kind: type[Operation]) -> Callable[[ModuleOp], None]:
    return lambda module: first(module, kind).detach()


def one_row_less(module: ModuleOp) -> None:
    nest = first(module, loops.NestOp)
    assert isinstance(nest, loops.NestOp)
    rows, *rest = nest.sizes
    nest.properties["sizes"] = sym.MapAttr.get(0, (rows - 1, *rest))


def give(module: ModuleOp, places: slice) -> None:
    """Gives fewer of the results, or in another order, and says so."""
    main, block = entry_function(module), entry_block(module)
    last = block.last_op
    assert last is not None
    last.operands = last.operands[places]
    takes = [argument.type for argument in block.args]
    main.properties["function_type"] = FunctionType.from_lists(takes, last.operand_types)


def swap_results(module: ModuleOp) -> None:
    give(module, slice(None, None, -1))


def give_less(module: ModuleOp) -> None:
    give(module, slice(1))


def change_nothing_any_more(module: ModuleOp) -> None:
    del entry_function(module).attributes["aten.writes_to"]


x = torch.linspace(-1, 1, 12).view(3, 4)


def exp(x: Tensor) -> Tensor:
    return x.exp()


def two_kernels(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp(), x.t().sum(1)


def writing(x: Tensor) -> Tensor:
    x.copy_(x.flip(0))  # made as a whole, then copied: every element is read before it is written
    return x.sum()


BREAKS: dict[str, tuple[Callable[..., Any], str, Callable[[ModuleOp], None], str]] = {
    "a store": (exp, "fuse-nests", drop(loops.StoreOp), "loops.nest: nothing is stored in out 0, of type tensor<3x4"),
    "a row": (exp, "fuse-nests", one_row_less, "loops.nest: 8 of the 12 elements of out 0 are stored at most"),
    "a kernel's store": (exp, "loops-to-kernel", drop(kernel.StoreOp), "writes nothing to its out 0, of type !kernel"),
    "... in a program": (exp, "pool-buffers", drop(kernel.StoreOp), "writes nothing to its out 0, of type !kernel.ptr"),
    "a launch": (exp, "kernel-to-host", drop(host.LaunchOp), "host.return: reads %exp, which nothing has written to"),
    "... before another": (
        lambda x: (x @ x.t()).exp() @ x,
        "kernel-to-host",
        drop(host.LaunchOp),
        "host.extern: reads %exp, which nothing has written to",
    ),
    "a write to an input": (
        writing, "pool-buffers", drop(host.ExternOp), "argument 0 is to be changed, and nothing writes to it"
    ),
    "the order of results": (two_kernels, "cse", swap_results, "@main gives (tensor<4xf32>, tensor<3x4xf32>) now"),
    "a result": (two_kernels, "loops-to-kernel", give_less, "@main gives (tensor<3x4xf32>) now, and gave (tensor<3"),
    "what is changed": (writing, "cse", change_nothing_any_more, "@main changes its arguments [] now, and changed [0]"),
}  # fmt: skip


@pytest.mark.parametrize("what", BREAKS)
def test_what_is_dropped_is_named(what: str) -> None:
    function, stage, does, message = BREAKS[what]
    bad = passing(does)
    options: dict[str, Any] = {"extensions": [Extension("bad", passes=[After(stage, bad)])]}
    with pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(function, backend="cuesta", options=options)(x.clone())
    text = str(caught.value)
    assert message in text, text
    assert f"extension 'bad': tested, {__file__}:" in text
    assert "stage: tested" in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text


def run_pass(name: str) -> Callable[[ModuleOp], None]:
    from cuesta.context import make_context

    (one,) = parse_passes(name)
    return lambda module: one.apply(make_context(), module)


def scaled(x: Tensor) -> Tensor:
    return torch.zeros(5, 4).index_add(0, torch.tensor([0, 3, 0]), x) * 2


NEAR_MISSES: dict[str, tuple[Callable[..., Any], Sequence[str], Tensor]] = {
    "dce": (lambda x: torch.cat([x.exp(), x.sin()]).sum(1), ("fuse-nests",), x),
    "scatters": (scaled, ("aten-to-loops", "dce-2", "add-counters", "loops-to-kernel", "pool-buffers"), x),
    "padding": (lambda x: torch.nn.functional.pad(x, (1, 2)) + 1, ("fuse-nests", "loops-to-kernel"), x),
    "scans": (lambda x: x.cumsum(1).flip(0), ("fuse-nests", "loops-to-kernel", "kernel-to-host"), x),
    "no elements": (lambda x: (x.exp(), x.sum(0)), ("fuse-nests", "loops-to-kernel", "pool-buffers"), x[:0]),
    "rank 0": (lambda x: x.sum() + 1, ("fuse-nests", "loops-to-kernel", "pool-buffers"), x),
    "libraries": (lambda x: (x @ x.t()).exp() @ x, ("kernel-to-host", "free-buffers", "pool-buffers"), x),
}


@pytest.mark.parametrize("what", NEAR_MISSES)
def test_what_is_whole_passes(what: str) -> None:
    function, places, given = NEAR_MISSES[what]
    does = run_pass("dce") if what == "dce" else (lambda module: None)
    for place in places:
        torch._dynamo.reset()
        passes = [After(place, passing(does))]
        options: dict[str, Any] = {"extensions": [Extension("good", passes=passes)]}
        result = torch.compile(function, backend="cuesta", options=options)(given)
        torch.testing.assert_close(result, function(given))


def test_sizes_that_only_the_call_knows() -> None:
    for does, right in ((lambda module: None, True), (one_row_less, False)):
        torch._dynamo.reset()
        options: dict[str, Any] = {"extensions": [Extension("mine", passes=[After("aten-to-loops", passing(does))])]}
        function = torch.compile(exp, backend="cuesta", options=options, dynamic=True)
        if right:
            torch.testing.assert_close(function(x), exp(x))
            continue
        with pytest.raises(
            BackendCompilerFailed, match=r"loops\.nest: .* of the .* elements of out 0 are stored at most"
        ):
            function(x)


def test_promises_are_compared() -> None:
    from tests.support.levels import capture

    (captured,) = capture(two_kernels, x)
    module, other = captured.module, captured.module.clone()
    assert Promise.of(module).broken_by(Promise.of(other)) is None
    entry_function(other).attributes["aten.writes_to"] = writes_to([0])
    assert Promise.of(module).broken_by(Promise.of(other)) == "@main changes its arguments [0] now, and changed []"
