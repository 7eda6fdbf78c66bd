"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ("build", "programs.building", "programs.capturing", "programs.stages")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"cuesta.{name}")
    failed, tried = doctest.testmod(module, optionflags=doctest.REPORT_NDIFF)
    assert tried > 0 and failed == 0
