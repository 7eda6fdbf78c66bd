"""What every test on a CUDA device begins with."""

from __future__ import annotations

import pytest
import torch

import cuesta


@pytest.fixture(autouse=True)
def device(request: pytest.FixtureRequest) -> None:
    """A test marked `gpu` is skipped where there is no device, and starts with nothing compiled."""
    if request.node.get_closest_marker("gpu") is None:
        return
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch._dynamo.reset()
    cuesta.clear_records()
