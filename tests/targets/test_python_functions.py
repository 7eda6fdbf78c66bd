"""Functions from text: their lines are shown while they live, and forgotten after."""

from __future__ import annotations

import gc
import inspect
import linecache
import traceback
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
import torch

from cuesta.targets.python_functions import define

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("old_objects_left_alone")]

FAILS = """\
def call(x):
    return x.nothing_of_that_name
"""


def function(text: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {}
    define(text, "test", namespace)
    return namespace["call"]


def files(kind: str) -> set[str]:
    gc.collect()
    return {name for name in linecache.cache if name.startswith(f"<cuesta {kind} ")}


def test_lines_are_shown_while_a_function_lives() -> None:
    one = function(FAILS)
    linecache.checkcache()  # as a traceback does
    assert inspect.getsource(one) == FAILS
    with pytest.raises(AttributeError) as caught:
        one(3)
    assert "return x.nothing_of_that_name" in "".join(traceback.format_tb(caught.tb))


def test_lines_go_with_the_last_function() -> None:
    before = files("test")
    namespace: dict[str, Any] = {}
    define("def first(): return 1\ndef second(): return 2\n", "test", namespace)
    second = namespace["second"]
    del namespace
    assert second() == 2
    assert len(files("test") - before) == 1
    del second
    assert files("test") == before


def test_equal_texts_are_files_of_their_own() -> None:
    one, other = function(FAILS), function(FAILS)
    assert one.__code__.co_filename != other.__code__.co_filename
    del one
    gc.collect()
    assert inspect.getsource(other) == FAILS


def test_a_text_that_raises_leaves_nothing() -> None:
    before = files("test")
    with pytest.raises(ZeroDivisionError):
        function("1 // 0")
    with pytest.raises(SyntaxError):
        function("def call(:")
    assert files("test") == before


def test_threads_get_names_of_their_own() -> None:
    made: list[Callable[..., Any]] = []
    threads = [Thread(target=lambda: made.extend([function(FAILS) for _ in range(50)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.__code__.co_filename for one in made}) == 200


@pytest.mark.parametrize("model", [lambda x: x.exp() + 1, lambda x: (x * 2).masked_select(x > 0).exp()])
def test_compiled_graphs_leave_no_text_behind(model: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch._dynamo.reset()
    before = files("wrapper")
    compiled = torch.compile(model, backend="cuesta")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled(torch.randn(8, 5))
    assert files("wrapper") - before
    del compiled
    torch._dynamo.reset()
    assert files("wrapper") <= before


def test_the_first_call_has_lines_too() -> None:
    """Its function's code is that of another text until then, and must outlive what made it."""
    from cuesta.targets.host import runtime

    code = runtime._first_call().__code__
    assert linecache.getline(code.co_filename, 2).strip() == "_complete()"
