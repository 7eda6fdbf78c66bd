"""Data of ours as a file: a line that says what it is, a checksum of the rest, and JSON. Never a pickle."""

from __future__ import annotations

import hashlib
import json
from typing import Any

_DIGEST_LENGTH = 64


class UnsealedError(ValueError):
    """Bytes that are not what was written; the message says why."""


def sealed(first_line: bytes, data: Any) -> bytes:
    """The bytes of a file that begins with a line of its own, which ends in a newline."""
    body = json.dumps(data).encode()
    return first_line + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def unsealed(first_line: bytes, content: bytes, kind: str) -> Any:
    """The data of a file of that kind. Errors: UnsealedError."""
    start = len(first_line) + _DIGEST_LENGTH + 1
    digest, body = content[len(first_line) : start], content[start:]
    if not content.startswith(first_line):
        raise UnsealedError(f"it does not begin as {kind} does")
    if digest != hashlib.sha256(body).hexdigest().encode() + b"\n":
        raise UnsealedError("its checksum is wrong")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnsealedError(f"it does not read: {error}") from error


__all__ = ["UnsealedError", "sealed", "unsealed"]
