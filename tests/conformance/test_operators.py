"""Every operator of PyTorch's own database, compiled: results, gradients, strides, aliases and errors are eager's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from tests.conformance.conftest import PROPERTY, wants_everything
from tests.conformance.exceptions import SKIPPED, UNCOMPARED, UNINITIALIZED, WITH_DYNAMO
from tests.conformance.harness import Outcome, run_operator, run_refusals

pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
pytestmark = pytest.mark.slow

FIRST_DTYPE = torch.float32
MAIN_DTYPES = (FIRST_DTYPE, torch.int64, torch.bool, torch.bfloat16, torch.float64)
ALL_DTYPES = (*MAIN_DTYPES, torch.float16, torch.int32, torch.uint8, torch.complex64)


@cache
def operators() -> dict[str, Any]:
    """The database by full names. Importing it takes three seconds."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {op.full_name: op for op in op_db}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The database is only imported where it is run.
    left_out = "not slow" in metafunc.config.option.markexpr
    dtypes = ALL_DTYPES if wants_everything(metafunc.config) else MAIN_DTYPES
    if metafunc.function is test_as_eager:
        parameters = (
            []
            if left_out
            else [
                pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}")
                for dtype in dtypes
                for name in operators()
                if name not in SKIPPED and dtype in operators()[name].supported_dtypes("cpu")
            ]
        )
        metafunc.parametrize(("name", "dtype"), parameters)
    elif metafunc.function is test_refuses_what_eager_refuses:
        names = [] if left_out else [name for name, op in operators().items() if op.error_inputs_func]
        metafunc.parametrize("name", names)


def test_as_eager(
    name: str, dtype: torch.dtype, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    if wants_everything(request.config):
        samples, with_gradients = None, None
    else:
        samples, with_gradients = (2, 1) if dtype is FIRST_DTYPE else (1, 0)
    outcome = run_operator(
        operators()[name],
        dtype,
        samples=samples,
        with_gradients=with_gradients,
        transposed=samples is None or dtype is FIRST_DTYPE,
        symbolic=samples is None,
        values=name not in UNINITIALIZED and (name, str(dtype)[6:]) not in UNCOMPARED,
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
    named = {*SKIPPED, *WITH_DYNAMO, *(name for name, _ in UNCOMPARED)}
    assert named <= operators().keys()
