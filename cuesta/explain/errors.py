"""An error in a few lines: what it is, why, and the line of the user's that it is about."""

from __future__ import annotations

import os
import re
from typing import Final

MOST_LINES: Final = 6
_ADVICE: Final = (
    "Developer debug context:", "For more details about this graph break", "Hint:", "Set TORCHDYNAMO_VERBOSE",
    "You can suppress this exception", "https://",
)  # fmt: skip
"""How lines of Dynamo's begin that say nothing of this error."""
_USER_CODE: Final = "from user code:"
_FRAME: Final = re.compile(r'File "([^"]+)", line \d+')
_TORCH: Final = f"{os.sep}site-packages{os.sep}torch{os.sep}"


def first_lines(error: BaseException) -> str:
    """The name of an error and what it says, without advice; of one that Dynamo wraps, or found while it traced, the
    error inside, and the innermost line outside of torch.
    """
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    text, is_placed, stack = str(error).strip().partition(_USER_CODE)
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(_ADVICE)][:MOST_LINES]
    if is_placed:
        lines += _innermost(stack)
    return f"{type(error).__name__}: " + "\n".join(lines)


def _innermost(stack: str) -> list[str]:
    """The frame that the user knows, in two lines at most."""
    lines = [line for line in stack.splitlines() if line.strip(" ^~")]
    frames = [number for number, line in enumerate(lines) if _FRAME.search(line)]
    own = [number for number in frames if _TORCH not in lines[number]] or frames
    return [line.rstrip() for line in lines[own[-1] : own[-1] + 2]] if own else []


__all__ = ["first_lines"]
