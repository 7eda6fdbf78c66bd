"""Names of what eager calls, which lead back to it in any process: `aten.index.Tensor`, `higher_order.cond`,
`operator.getitem`.

Nothing of the compiler is imported here: a program from the cache finds its operators by these names.
"""

from __future__ import annotations

import importlib
from typing import Any


class NamelessOperatorError(Exception):
    """No name leads to the operator; the message says so."""


def name_of_operator(target: Any) -> str:
    """The name of an operator, or of a function of a module.

    Errors: NamelessOperatorError.
    """
    from torch._ops import HigherOrderOperator, OpOverload

    if isinstance(target, HigherOrderOperator):
        name = f"higher_order.{target.name()}"
    elif isinstance(target, OpOverload):
        name = str(target)
    else:
        module = str(getattr(target, "__module__", None))
        name = f"{'operator' if module == '_operator' else module}.{getattr(target, '__qualname__', '')}"
    try:
        found = resolve_operator(name)
    except (AttributeError, ImportError, ValueError):
        found = None
    if found is not target:
        raise NamelessOperatorError(f"{target} has no name by which another process finds it")
    return name


def resolve_operator(name: str) -> Any:
    """What has that name.

    Errors: AttributeError, ImportError when nothing has.
    """
    import torch

    space, _, rest = name.partition(".")
    if space == "higher_order":
        return getattr(torch.ops.higher_order, rest)
    if space in ("operator", "math", "builtins", "torch"):
        module, _, function = name.rpartition(".")
        return getattr(importlib.import_module(module), function)
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")
