"""Python text → functions: the one place where text that we wrote is run.

Nothing is imported here but Python's own: the processes that compile Triton's kernels come through this module too.
"""

from __future__ import annotations

import linecache
from itertools import count
from typing import Any, Final
from weakref import finalize

_NUMBERS: Final = count(1)
_OWNER: Final = "__text__"


class _Owner:
    """Stands among the globals of a text's functions, and so lives as long as any of them."""

    __slots__ = ("__weakref__",)


def define(text: str, kind: str, namespace: dict[str, Any]) -> None:
    """Runs a text, such as that of a wrapper, whose definitions land in `namespace`: the globals of its functions.

    Tracebacks, debuggers and `inspect` show its lines, under a file name like `<cuesta wrapper 3>`, until the last of
    its functions is gone: what a process has compiled and dropped leaves nothing behind.
    Errors: whatever the text raises.
    """
    filename = f"<cuesta {kind} {next(_NUMBERS)}>"
    owner = namespace[_OWNER] = _Owner()
    # Python shows no line of a file it cannot read, unless the line is here. No time of change: never looked up again.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    finalize(owner, linecache.cache.pop, filename, None).atexit = False
    exec(compile(text, filename, "exec"), namespace)


__all__ = ["define"]
