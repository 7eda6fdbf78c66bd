"""One sample of PyTorch's operator database through the compiler, compared with eager and with float64.

Dynamo is left out, which makes a sample ten times cheaper: AOTAutograd traces the operator itself, with our
decomposition table and the backend's compiler. What Dynamo adds is tested in `tests/e2e`, and on some operators in
`test_through_dynamo.py`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch.utils._pytree import tree_flatten, tree_unflatten

from cuesta.backend import drop_aliases
from cuesta.compiler import compile_graph
from cuesta.lowering.decompositions import decomposition_table
from cuesta.options import Options
from cuesta.record import CompileRecord, records, statistics
from cuesta.testing import assert_close_to_float64

OPTIONS = Options.parse()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator as a function of its tensors: everything else is part of the function."""

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]


@dataclass(slots=True)
class Ran:
    """What the graphs of one operator became, summed over its samples."""

    graphs: int = 0
    kernels: int = 0
    library_calls: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter[str])
    refused: list[str] = field(default_factory=list[str])
    """Why a whole graph was handed back to eager by the compiler."""

    @property
    def wholly_in_eager(self) -> bool:
        """Nothing was compiled though something was computed."""
        return not self.kernels and not self.library_calls and bool(self.fallbacks or self.refused)

    def add(self, made: Sequence[CompileRecord], refused: Sequence[str]) -> None:
        """Count the records of one more sample."""
        sums = statistics(made)
        self.graphs += sums.graphs
        self.kernels += sums.kernels
        self.library_calls += sums.library_calls
        self.fallbacks.update(sums.fallbacks)
        self.refused += refused


def calls_of(op: Any, dtype: torch.dtype, limit: int | None, *, requires_grad: bool = False) -> Iterator[Call]:
    """The first samples of an operator, the same ones in every run."""
    torch.manual_seed(0)
    for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), limit):
        yield as_call(op, sample)


def as_call(op: Callable[..., Any], sample: Any) -> Call:
    """The call of the operator on a `SampleInput`."""
    leaves, structure = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = tuple(leaves[place] for place in places)
    # The call must not keep the sample's tensors alive in its closure, nor see their changes.
    rest = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def function(*given: torch.Tensor) -> Any:
        filled = list(rest)
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        # A dtype follows the tensors into float64, where the truth is computed.
        args, kwargs = tree_unflatten(filled, structure)
        return op(*args, **kwargs)

    return Call(function, tensors)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, traced by AOTAutograd at its first call and compiled by us."""

    def compile_with(kind: Any) -> Callable[..., Any]:
        def compile_fx(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
            drop_aliases(gm)
            return compile_graph(gm, kind=kind, options=OPTIONS)

        return compile_fx

    return aot_function(
        function,
        fw_compiler=compile_with("forward"),
        bw_compiler=compile_with("backward"),
        inference_compiler=compile_with("inference"),
        decompositions=decomposition_table(),
        keep_inference_input_mutations=False,
    )


def run_call(call: Call, ran: Ran, *, random: bool = False) -> None:
    """Compile a call, compare it with eager, and count in `ran` what became of it.

    Errors: AssertionError when a result is off; whatever tracing or compiling raise.
    """
    before = len(records)
    function = compiled(call.function)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if random:
                _compare_random(function, call)
            else:
                assert_close_to_float64(function, call.function, call.tensors)
        finally:
            refused = [str(one.message) for one in caught if "cuesta runs a graph in eager" in str(one.message)]
            ran.add(records[before:], refused)


def _compare_random(function: Callable[..., Any], call: Call) -> None:
    """The same seed gives eager's numbers."""
    function(*_copies(call.tensors))  # Tracing draws numbers too; torch.compile puts the generator back.
    results: list[Any] = []
    for one in (call.function, function):
        # The database's own wrappers set this seed around a call. A traced graph leaves that out.
        torch.manual_seed(42)
        results.append(one(*_copies(call.tensors)))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)


def _copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in tensors]
