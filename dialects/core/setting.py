"""A context variable that has a value for the time of a `with` block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Value = TypeVar("Value")


@contextmanager
def setting(variable: ContextVar[Value], value: Value) -> Generator[None]:
    """The `with` block in which `variable` has a value. An interrupt leaves it as it was, whenever it comes.

    (Between setting a variable and a `try` that follows, one may come.)
    """
    before = variable.get()
    try:
        variable.set(value)
        yield
    finally:
        variable.set(before)
