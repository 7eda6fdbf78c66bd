"""The operators of PyTorch's own database through the compiler, sample by sample.

Dynamo is left out, which makes a sample several times cheaper: AOTAutograd traces the operator itself, with the
settings of `torch.compile(backend="cuesta")`. What Dynamo adds is tested in `tests/e2e`; an operator that only Dynamo
can handle, because the sizes of its result depend on data, goes through `torch.compile` here too.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from functorch.compile import nop
from torch._functorch.aot_autograd import aot_function
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_flatten, tree_unflatten

from cuesta.backend import Compilers, capturing
from cuesta.options import Options
from cuesta.record import CompileRecord, records, statistics
from tests.conformance.judge import Call, differences

NEEDS_DYNAMO = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)
"""What AOTAutograd alone cannot capture: what it would have to know is in the data."""


@dataclass(slots=True)
class Outcome:
    """What became of the samples of one operator."""

    samples: int = 0
    graphs: int = 0
    kernels: int = 0
    library_calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])
    """Why a whole graph was handed back to eager by the compiler."""
    problems: list[str] = field(default_factory=list[str])
    captured: list[str] = field(default_factory=list[str])
    """Differences from eager that AOTAutograd's capture makes alone, with nothing of ours."""

    @contextmanager
    def sample(self) -> Iterator[None]:
        """Counts what is compiled in a `with` block as one more sample."""
        before = len(records)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                said = [str(one.message) for one in caught]
                self._add(records[before:], [text for text in said if "cuesta runs a graph in eager" in text])

    def _add(self, made: Sequence[CompileRecord], refused: Sequence[str]) -> None:
        sums = statistics(made)
        self.samples += 1
        self.graphs += sums.graphs
        self.kernels += sums.kernels
        self.library_calls += sums.library_calls
        self.fallbacks.update(sums.fallbacks)
        self.refused += refused


def run_operator(
    op: Any,
    dtype: torch.dtype,
    *,
    samples: int | None,
    with_gradients: int | None,
    transposed: bool = False,
    symbolic: bool = False,
    values: bool = True,
    dynamo: bool = False,
) -> Outcome:
    """The first samples of an operator, the first of them with gradients if it has any; None means all.

    With `transposed`, a sample that has a matrix or more is run with its tensors laid out another way: again, when all
    samples are run, else in place of the first way where it has no gradients. With `symbolic`, it is run again with its
    sizes as symbols. Without `values`, results need only look like eager's. With `dynamo`, all of `torch.compile` runs.
    """
    outcome = Outcome()
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    torch.manual_seed(0)
    for number, sample in enumerate(islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), samples)):
        gradients = differentiable and (with_gradients is None or number < with_gradients)
        call = as_call(op, sample, gradients=gradients)
        other = _in_another_layout(op, sample) if transposed and (samples is None or number > 0) else None
        if samples is None or other is None:
            run_call(call, outcome, f"sample {number}", values=values, dynamo=dynamo)
        if symbolic and _can_be_captured(call):
            run_call(call, outcome, f"sample {number}, symbolic", values=values, dynamo=dynamo, symbolic=True)
        if other is not None:
            run_call(other, outcome, f"sample {number}, transposed", values=values, dynamo=dynamo)
    return outcome


def _in_another_layout(op: Callable[..., Any], sample: Any) -> Call | None:
    """The call on transposed tensors; None when none is a matrix or more, or eager refuses them."""
    call = as_call(op, sample)
    if not any(tensor.dim() > 1 and tensor.layout is torch.strided for tensor in call.tensors):
        return None
    call = Call(call.function, tuple(map(_transposed, call.tensors)), gradients=False)
    return call if _refusal(call.function, call) is None else None


def run_call(
    call: Call, outcome: Outcome, name: str, *, values: bool = True, dynamo: bool = False, symbolic: bool = False
) -> None:
    """Compiles a call, compares it with eager, and puts into `outcome` what became of it."""
    with outcome.sample():
        function = through_dynamo(call.function) if dynamo else compiled_somehow(call.function, symbolic=symbolic)
        problems, captured = differences(call, function, captured_only(call.function), values=values)
        outcome.problems += [f"{name}: {one}" for one in problems]
        outcome.captured += [f"{name}: {one}" for one in captured]


def run_refusals(op: Any) -> Outcome:
    """The calls of the database that eager refuses: they must be refused with an exception of the same type."""
    outcome = Outcome()
    torch.manual_seed(0)
    for number, error_input in enumerate(op.error_inputs("cpu")):
        call = as_call(op, error_input.sample_input)
        expected = _refusal(call.function, call)
        if expected is None:
            continue  # refused on other devices only
        with outcome.sample():
            actual = _refusal(compiled_somehow(call.function), call)
        if actual is None or not issubclass(actual, expected):
            said = f"sample {number}: {_named(actual)}, eager {_named(expected)}"
            alike = _refusal(captured_only(call.function), call) is actual
            (outcome.captured if alike else outcome.problems).append(said)
    return outcome


def as_call(op: Callable[..., Any], sample: Any, *, gradients: bool = False) -> Call:
    """The call of the operator on a `SampleInput`; with gradients, of those results that have well-defined ones."""
    leaves, structure = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = tuple(leaves[place] if gradients else leaves[place].detach() for place in places)
    # The call must not keep the sample's tensors alive in its closure, nor see their changes.
    rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def function(*given: torch.Tensor) -> Any:
        filled = list(rest)
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        args, kwargs = tree_unflatten(filled, structure)
        result = op(*args, **kwargs)
        return sample.output_process_fn_grad(result) if gradients else result

    return Call(function, tensors, gradients)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor in channels-last order if it is of rank four or five, else with its last two dims exchanged."""
    if tensor.layout is not torch.strided or tensor.dim() < 2:
        return tensor
    if tensor.dim() in (4, 5):
        order = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
        return tensor.contiguous(memory_format=order)
    return tensor.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)


def through_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, compiled by `torch.compile`."""
    torch._dynamo.reset()
    return torch.compile(function, backend="cuesta")


def compiled_somehow(function: Callable[..., Any], *, symbolic: bool = False) -> Callable[..., Any]:
    """The function, compiled without Dynamo where that will do."""
    alone = compiled(function, symbolic=symbolic)

    def run(*arguments: Any) -> Any:
        state = torch.get_rng_state()
        try:
            with _quiet_capture():
                return alone(*arguments)
        except NEEDS_DYNAMO:
            torch.set_rng_state(state)
            return through_dynamo(function)(*arguments)

    return run


def compiled(function: Callable[..., Any], *, symbolic: bool = False) -> Callable[..., Any]:
    """The function, traced by AOTAutograd at its first call and compiled by us."""
    state: torch.Tensor | None = None

    def then_restore(compiler: Callable[..., Any]) -> Callable[..., Any]:
        def compile_fx(*arguments: Any) -> Any:
            result = compiler(*arguments)
            if state is not None:
                torch.set_rng_state(state)
            return result

        return compile_fx

    settings = Compilers(Options.parse()).settings()
    for name in ("fw_compiler", "bw_compiler", "inference_compiler"):
        settings[name] = then_restore(settings[name])
    traced = aot_function(function, dynamic=symbolic, **settings)

    def call(*arguments: Any) -> Any:
        # Tracing draws random numbers too; torch.compile puts the generator back.
        nonlocal state
        state = torch.get_rng_state()
        with capturing():
            return traced(*arguments)

    return call


def captured_only(function: Callable[..., Any], *, symbolic: bool = False) -> Callable[..., Any]:
    """The function as AOTAutograd captures it, with nothing of ours: what differs from eager here is PyTorch's."""
    partition = Compilers(Options.parse()).settings()["partition_fn"]
    traced = aot_function(function, fw_compiler=nop, partition_fn=partition, dynamic=symbolic)

    def call(*arguments: Any) -> Any:
        with _quiet_capture():
            return traced(*arguments)

    return call


@contextmanager
def _quiet_capture() -> Iterator[None]:
    """Keeps PyTorch from logging a page for each call that it refuses to trace."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = was


def _can_be_captured(call: Call) -> bool:
    """Whether PyTorch can trace the call at all with symbols for sizes; some operators have no such metadata."""
    refusal = _refusal(captured_only(call.function, symbolic=True), call)
    return refusal is None or issubclass(refusal, NEEDS_DYNAMO)


def _refusal(function: Callable[..., Any], call: Call) -> type[Exception] | None:
    try:
        function(*[tensor.clone() for tensor in call.tensors])
    except Exception as error:  # noqa: BLE001  # which one is the question
        return type(error)
    return None


def _named(refusal: type[Exception] | None) -> str:
    return "no exception" if refusal is None else refusal.__name__
