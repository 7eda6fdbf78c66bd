"""Names of what eager calls, which lead back to it in any process: `aten.index.Tensor`, `higher_order.cond`,
`operator.getitem`.

Nothing of the compiler is imported here: a program from the cache finds its operators by these names.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, Final, cast

_FUNCTIONS: Final = {
    "builtins": re.compile("tuple|dict|bool|int|float|abs|max|min|round"),
    "math": re.compile("[a-z0-9]+"),
    "operator": re.compile(
        "add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|not_|lshift|rshift|getitem|index"
    ),
    "torch": re.compile("_?sym_[a-z0-9_]+"),
    "torch.fx.experimental.sym_node": re.compile("_?sym_[a-z0-9_]+"),
}
"""The functions of Python's that a program may call: none that does anything but give a result."""


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
        name = str(cast("object", target))
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
    module, _, function = name.rpartition(".")
    if (functions := _FUNCTIONS.get(module)) is not None:
        if functions.fullmatch(function) is None:
            raise AttributeError(f"{name} is no function of numbers and tuples")
        return getattr(importlib.import_module(module), function)
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def is_operator(name: str) -> bool:
    """Whether something has that name."""
    try:
        return callable(resolve_operator(name))
    except (AttributeError, ImportError, ValueError, RuntimeError):
        return False
