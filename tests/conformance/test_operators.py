"""Every operator of PyTorch's own database, compiled: results, gradients, strides, aliases and errors are eager's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from tests.conformance.conftest import PROPERTY, wants_everything
from tests.conformance.exceptions import SKIPPED, SKIPPED_DTYPES, UNINITIALIZED, WITH_DYNAMO
from tests.conformance.harness import Outcome, run_operator, run_refusals

FAST = (
    "add",
    "argmax",
    "cat",
    "div.floor_rounding",
    "gather",
    "index_select",
    "linalg.inv",
    "nn.functional.dropout",
    "nn.functional.layer_norm",
    "nonzero",
    "rot90",
    "softmax",
    "sum",
    "where",
)
"""What is run between edits: a kind of operator each."""

FAST_REFUSALS = ("cat", "gather", "index_add")

FAST_DTYPE = torch.float32
MAIN_DTYPES = (FAST_DTYPE, torch.int64, torch.bool, torch.bfloat16, torch.float64)
ALL_DTYPES = (*MAIN_DTYPES, torch.float16, torch.int32, torch.uint8, torch.complex64)


@cache
def operators() -> dict[str, Any]:
    """The database by full names. Importing it takes three seconds."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The database is only imported where it is run.
    fast = "not slow" in metafunc.config.option.markexpr
    every_dtype = wants_everything(metafunc.config)
    if metafunc.function is test_as_eager:
        names = FAST if fast else [name for name in operators() if name not in SKIPPED]
        parameters = [
            pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}", marks=_marks(name in FAST and dtype is FAST_DTYPE))
            for dtype in ((FAST_DTYPE,) if fast else ALL_DTYPES if every_dtype else MAIN_DTYPES)
            for name in names
            if fast
            or (dtype in operators()[name].supported_dtypes("cpu") and (name, str(dtype)[6:]) not in SKIPPED_DTYPES)
        ]
        metafunc.parametrize(("name", "dtype"), parameters)
    elif metafunc.function is test_refuses_what_eager_refuses:
        names = FAST_REFUSALS if fast else [name for name, op in operators().items() if op.error_inputs_func]
        metafunc.parametrize("name", [pytest.param(name, marks=_marks(name in FAST_REFUSALS)) for name in names])


def _marks(fast: bool) -> list[pytest.MarkDecorator]:
    return [] if fast else [pytest.mark.slow]


def test_as_eager(
    name: str, dtype: torch.dtype, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    if wants_everything(request.config):
        samples, with_gradients = None, None
    else:
        samples, with_gradients = (2, 1) if dtype is FAST_DTYPE else (1, 0)
    outcome = run_operator(
        operators()[name],
        dtype,
        samples=samples,
        with_gradients=with_gradients,
        transposed=samples is None or dtype is FAST_DTYPE,
        symbolic=samples is None,
        values=name not in UNINITIALIZED,
        dynamo=name in WITH_DYNAMO,
    )
    _record(record_property, f"{name}-{str(dtype)[6:]}", outcome)
    assert not outcome.problems, "\n".join(outcome.problems)
    assert not outcome.refused, "\n".join(outcome.refused)


def test_refuses_what_eager_refuses(name: str, record_property: Callable[[str, object], None]) -> None:
    outcome = run_refusals(operators()[name])
    _record(record_property, f"{name}-refusals", outcome)
    if not outcome.samples:
        pytest.skip("what eager refuses, it refuses on other devices only")
    assert not outcome.problems, "\n".join(outcome.problems)


def _record(record_property: Callable[[str, object], None], name: str, outcome: Outcome) -> None:
    record_property(
        PROPERTY,
        {
            "name": name,
            "samples": outcome.samples,
            "graphs": outcome.graphs,
            "kernels": outcome.kernels,
            "library_calls": outcome.library_calls,
            "fallbacks": dict(outcome.fallbacks),
            "refused": outcome.refused,
            "captured": outcome.captured,
        },
    )


def test_every_exception_is_an_operator() -> None:
    named = {*SKIPPED, *WITH_DYNAMO, *(name for name, _ in SKIPPED_DTYPES)}
    assert named <= operators().keys()
