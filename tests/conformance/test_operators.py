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
OTHER_DTYPES = (torch.int64, torch.bool, torch.bfloat16, torch.float64)
"""Of these every sixth operator, and each without the first type, is run in one, in turns, on one sample. In the first
type half of the operators are run on a second one, laid out another way. `make conformance` runs all of all.
"""
ALL_DTYPES = (FIRST_DTYPE, *OTHER_DTYPES, torch.float16, torch.int32, torch.uint8, torch.complex64)


@cache
def operators() -> dict[str, Any]:
    """The database by full names. Importing it takes three seconds."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

    # For every operator it would look through the stack for a `unittest` of PyTorch's own, reading each frame's source.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None  # pyright: ignore[reportPrivateImportUsage]
    return {op.full_name: op for op in op_db}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # The database is only imported where it is run.
    left_out = "not slow" in metafunc.config.option.markexpr
    if metafunc.function is test_as_eager:
        pairs = [] if left_out else _pairs(everything=wants_everything(metafunc.config))
        parameters = [pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}") for name, dtype in pairs]
        metafunc.parametrize(("name", "dtype"), parameters)
    elif metafunc.function is test_refuses_what_eager_refuses:
        names = [] if left_out else [name for name, op in operators().items() if op.error_inputs_func]
        if not wants_everything(metafunc.config):  # every third: what is refused is refused by torch's own checks
            names = names[::3]
        metafunc.parametrize("name", names)


def _pairs(*, everything: bool) -> list[tuple[str, torch.dtype]]:
    """The operators and the types that each is run in, type by type."""
    found: list[tuple[str, torch.dtype]] = []
    for number, (name, op) in enumerate(operators().items()):
        supported = op.supported_dtypes("cpu")
        others = [dtype for dtype in ALL_DTYPES if dtype in supported]
        if not everything:
            others = [dtype for dtype in OTHER_DTYPES if dtype in supported]
            first = [FIRST_DTYPE] if FIRST_DTYPE in supported else []
            own = others[number // 3 % max(1, len(others)) :][:1] if number % 6 == 1 or not first else []
            others = first + own
        if name not in SKIPPED:
            found += [(name, dtype) for dtype in others]
    return sorted(found, key=lambda pair: ALL_DTYPES.index(pair[1]))


def test_as_eager(
    name: str, dtype: torch.dtype, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    if wants_everything(request.config):
        samples, with_gradients = None, None
    else:
        several = dtype is FIRST_DTYPE and sum(name.encode()) % 2
        samples, with_gradients = 2 if several else 1, int(dtype is FIRST_DTYPE)
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
