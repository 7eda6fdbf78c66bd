"""PyTorch's own capture as a witness: where it leaves behind what ours does, nothing of that is a fault of ours.

`aot_eager` runs what AOTAutograd makes of a program, and ends where that asks eager for a kernel that the program did
not: `torch._foreach_mul_` takes 8 bits, `_foreach_mul`, which is made of it, does not. `with_kernels` is `aot_eager`
with those, with checkpoints that draw though there is no gradient, and with eager for graphs that it refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import Tensor
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only

from cuesta import in_eager
from cuesta.checkpoints_without_backward import keeping_what_is_not_computed_again
from cuesta.in_eager import left_as_found, why_uncaptured
from cuesta.lowering.capture.lost_in_views import lost_view_of_a_subclass
from tests.fuzz.calls.case import Case
from tests.fuzz.calls.outcomes import NUDGED, Call, Raised, Results, captured_numbers, donated_buffers
from tests.fuzz.calls.roundings import NudgedMode

Backend = str | Callable[..., Any]
Nudged = Callable[[], Sequence[Sequence[Any]]]
"""Runs of each call with digits nudged, made when they are asked for."""
EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def has_no_kernel(error: BaseException) -> bool:
    """Whether eager raises because an operator has no kernel for a type, as its dispatch on types says it. What was
    written to before is no evidence: eager stopped in the middle.
    """
    return type(error) is NotImplementedError and re.match(r'"\w+" not implemented for \'\w+\'', str(error)) is not None


def with_kernels(gm: GraphModule, inputs: Any, **_: Any) -> Callable[..., Any]:
    """A backend: AOTAutograd's graphs, node by node in eager; numbers of 8 bits are of 32 where eager has no kernel. A
    graph that AOTAutograd refuses, eager runs, and so one of which it would fail to make the results: the program's
    others say what they said.
    """
    if lost_view_of_a_subclass(gm):
        return gm.forward
    compiler = lambda graph, _: make_boxed_func(_WithKernels(graph).run)  # noqa: E731 - what AOTAutograd calls
    settings = {"partition_fn": min_cut_rematerialization_partition, "keep_inference_input_mutations": True}
    try:
        with left_as_found(), keeping_what_is_not_computed_again(gm):
            return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, **settings)(gm, inputs)
    except Exception as error:
        if why_uncaptured(error) is None:
            raise
        return gm.forward


def decomposed(gm: GraphModule, inputs: Any, **_: Any) -> Callable[..., Any]:
    """A backend: AOTAutograd's graphs of PyTorch's core operators, in eager; what is saved, PyTorch's partitioner chose
    among what it takes to be cheap for a compiler.
    """
    compiler = lambda graph, _: make_boxed_func(graph.forward)  # noqa: E731 - what AOTAutograd calls
    settings = {"partition_fn": min_cut_rematerialization_partition, "decompositions": core_aten_decompositions()}
    with left_as_found():
        return aot_autograd(fw_compiler=compiler, bw_compiler=compiler, **settings)(gm, inputs)


OVERWRITTEN = "has been modified by an inplace operation"
"""What autograd says of a value that was saved and written to since."""


def needs_what_is_overwritten(made: Any) -> bool:
    """Whether a call ended because a gradient needs what was written to."""
    return isinstance(made, Raised) and OVERWRITTEN in str(made.error)


TWICE = "does not currently support double backward"
"""What AOTAutograd says to those who go through a gradient that a compiled backward pass gave, and so do we."""


def asks_gradients_twice(made: Any) -> bool:
    """Whether a call ended because it asks for the gradient of a gradient."""
    return isinstance(made, Raised) and TWICE in str(made.error)


class _WithKernels(Interpreter):
    def run_node(self, n: Node) -> Any:
        try:
            return super().run_node(n)
        except NotImplementedError as error:
            if not has_no_kernel(error) or n.op != "call_function":
                raise
        given = tree_map_only(Tensor, _widened, self.fetch_args_kwargs_from_env(n))
        said, made = n.meta["val"], self.call_function(n.target, *given)
        if isinstance(said, Tensor):
            return made.to(said.dtype)
        pairs = zip(made, said, strict=True)
        return [value.to(like.dtype) if isinstance(value, Tensor) else value for value, like in pairs]


def _widened(value: Tensor) -> Tensor:
    return value.float() if value.dtype in EIGHT_BITS else value


def outcomes(case: Case, backend: Backend, corrected: Callable[[], Any] | None = None) -> Iterator[tuple[Call, Any]]:
    """The calls of a case, all through one compiled function, and what each leaves behind. Eager may be `corrected`,
    also where it runs graphs that we do not compile.
    """
    torch._dynamo.reset()
    # Who differentiates twice may not donate buffers, says PyTorch.
    with donated_buffers(case.backward != "twice"), captured_numbers(case.captures), _graphs_corrected(corrected):
        make, program = case.functions()
        compiled: Any = torch.compile(program, backend=backend, **case.settings)
        for sizes in case.calls:
            call = Call(program, make, sizes, case.backward, corrected)
            yield call, call.compiled(compiled)


@contextmanager
def _graphs_corrected(corrected: Callable[[], Any] | None) -> Iterator[None]:
    """In the `with` block graphs that we leave to eager run in the mode that eager is corrected by."""
    if corrected is None:
        yield
        return
    run_in_eager = in_eager.run_in_eager

    def left_to_eager(gm: GraphModule) -> Callable[..., Any]:
        run = run_in_eager(gm)

        def run_corrected(*arguments: Any) -> Any:
            with corrected():
                return run(*arguments)

        return run_corrected

    with patch.object(in_eager, "run_in_eager", left_to_eager):
        yield


def asked_alone(
    case: Case, backend: Backend, ours: Sequence[tuple[Call, Any]], theirs: Sequence[tuple[Call, Any]]
) -> list[tuple[Call, Any]]:
    """What the calls of a case leave behind in the hands of a witness; of each in which it failed and we did not, what
    it leaves behind when that is its only call.
    """
    pairs = zip(ours, theirs, strict=True)
    failed = [isinstance(made, Raised) and not isinstance(one, Raised) for (_, one), (_, made) in pairs]
    return [
        next(outcomes(replace(case, calls=[sizes]), backend)) if alone else made
        for sizes, alone, made in zip(case.calls, failed, theirs, strict=True)
    ]


def nudged_outcomes(case: Case, halves: bool) -> list[list[Any]]:
    """Of each call of a case, what Dynamo's graphs leave behind in several runs in eager whose functions are off by a
    last digit; with `halves`, so is every number of 16 bits. (Eager itself raises before it has results.)
    """
    torch._dynamo.reset()
    mode = NudgedMode(0, halves)

    def backend(gm: GraphModule, _: Any, **__: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with mode:
                return gm(*args)

        return run

    found: list[list[Any]] = []
    with donated_buffers(case.backward != "twice"), captured_numbers(case.captures):
        make, program = case.functions()
        compiled: Any = torch.compile(program, backend=backend, **case.settings)
        for sizes in case.calls:
            found.append([])
            for seed in range(NUDGED):
                mode = NudgedMode(seed, halves)
                found[-1].append(Call(program, make, sizes, case.backward).compiled(compiled))
    return found


def explained(
    ours: Sequence[tuple[Call, Any]], theirs: Sequence[tuple[Call, Any]], unit: float, nudged: Nudged | None = None
) -> frozenset[str]:
    """What is off about what `ours` leaves behind, and is the same in `theirs` wherever it is off: an error, or none,
    or names of results. Numbers are to be those of the witness, but for what nudged runs differ by; what float64 says
    of eager's is no excuse. Where eager raises, all is to be the same: nudged runs are those of the graphs then.
    """
    from tests.fuzz.calls.judge import aspects_off, differences

    same, other = set[str](), set[str]()
    for number, ((call, one), (_, witness)) in enumerate(zip(ours, theirs, strict=True)):
        off = aspects_off(call, one, unit)
        if not off:
            continue
        if isinstance(one, Raised) or isinstance(witness, Raised):
            (same if isinstance(one, Raised) and isinstance(witness, Raised) else other).update(off)
            continue
        apart = {problem.split(": ", 1)[0] for problem in differences(one, _judged_by(call, witness), unit)}
        if apart and isinstance(call.eager, Raised) and nudged is not None:
            judged = _judged_by(call, witness, nudged()[number])
            apart = {problem.split(": ", 1)[0] for problem in differences(one, judged, unit)}
        unlike = off if apart and isinstance(call.eager, Raised) else off & apart
        same |= off - unlike
        other |= unlike
    return frozenset(same - other)


def _judged_by(call: Call, witness: Results, nudged: Sequence[Any] = ()) -> Call:
    """The call, with what a witness leaves behind in the place of eager's results, and nudged runs as far from it: of
    eager, or where that raises, those that are given.
    """
    judged = Call(call.program, call.make, call.sizes, call.backward)
    names = ("nudged", "nudged_halves")
    if isinstance(call.eager, Raised):
        moved = {name: [*nudged] for name in names}
    else:
        runs = {name: getattr(call, name) for name in names}
        moved = {name: [_moved(run, call.eager, witness) for run in found] for name, found in runs.items()}
    judged.__dict__.update(moved, eager=witness, truth=None, truth_of_draws=None, watched=call.watched)
    return judged


def _moved(run: Any, eager: Results, witness: Results) -> Results:
    """A nudged run's numbers, as far from the witness's as they are from eager's."""
    moved: Results = {}
    for name, value in run.items() if isinstance(run, dict) else ():
        there: Any = eager.get(name)
        here: Any = witness.get(name)
        tensors = [one for one in (value, there, here) if isinstance(one, Tensor)]
        if len(tensors) == 3 and len({(one.shape, one.dtype) for one in tensors}) == 1 and value.dtype != torch.bool:
            wide = torch.complex128 if value.is_complex() else torch.float64
            moved[name] = here.to(wide) + (value.to(wide) - there.to(wide))
    return moved


__all__ = [
    "Backend",
    "asked_alone",
    "asks_gradients_twice",
    "decomposed",
    "explained",
    "has_no_kernel",
    "needs_what_is_overwritten",
    "nudged_outcomes",
    "outcomes",
    "with_kernels",
]
