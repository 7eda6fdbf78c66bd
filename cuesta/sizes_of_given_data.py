"""A function that gives an argument other data (`x.data = y`) is compiled again for other sizes of it: put right for
the whole process, when torch looks the backend up.

Dynamo stops tracking the argument then, and means to track what comes of it, which it does not: symbols of its sizes
come from nowhere, and what the function has asked about them (`x.shape[0] > 3`) is checked at no later call. The
program of a long x runs for a short one, in silence, with every backend; or Dynamo raises an IndexError, where the
question cannot be answered by the bounds of the symbol. So the argument is tracked on, as it was before.

Source: `call_setattr` of torch/_dynamo/variables/builtin.py (`_call_setattr` in torch 2.13), `tracked_fakes` there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any


def check_sizes_of_given_data() -> None:
    """From now on Dynamo does so. Before Dynamo is imported, nothing is done; twice is as good as once."""
    builtins: Any = sys.modules.get("torch._dynamo.variables.builtin")
    if builtins is None:
        return
    owner = getattr(builtins, "SetAttrBuiltinVariable", builtins.BuiltinVariable)
    name = "_call_setattr" if hasattr(owner, "_call_setattr") else "call_setattr"
    given = getattr(owner, name)
    if hasattr(given, "tracks_on"):
        return
    setattr(owner, name, _tracking_on(given))
    handlers: dict[Any, Any] | None = getattr(owner, "call_function_handler_cache", None)
    if handlers is not None:  # it holds bound methods
        handlers.clear()


def _tracking_on(give: Callable[..., Any]) -> Callable[..., Any]:
    """What gives an object an attribute; an argument that gets other data is tracked with the sizes that it had."""
    from torch.fx.experimental.symbolic_shapes import TrackedFake

    @functools.wraps(give)
    def tracked_on(self: Any, tx: Any, target: Any, name: Any, value: Any) -> Any:
        if not (target.is_tensor() and name.is_python_constant() and name.as_python_constant() == "data"):
            return give(self, tx, target, name, value)
        tracked: list[Any] = tx.output.tracked_fakes
        known = {id(one): one for one in tracked}
        before = [_as_it_is(one, TrackedFake) if one.source == target.source else one for one in tracked]
        try:
            return give(self, tx, target, name, value)
        finally:
            tracked[:] = before + [one for one in tracked if id(one) not in known]

    setattr(tracked_on, "tracks_on", True)  # noqa: B010
    return tracked_on


def _as_it_is(tracked: Any, kind: Any) -> Any:
    """What is tracked, with a tensor that does not change with the argument's own."""
    import torch

    if not isinstance(tracked.fake, torch.Tensor):
        return tracked
    with torch.no_grad():
        return kind(tracked.fake.detach(), tracked.source, tracked.symbolic_context)


__all__ = ["check_sizes_of_given_data"]
