"""Several object files as one: the archive that `ar` makes of them, without a table of symbols.

Source: ar(5): a line `!<arch>`, and for each member a header of 60 characters and its bytes, an even number of them.
"""

from __future__ import annotations

from collections.abc import Sequence

_MAGIC = b"!<arch>\n"
_HEADER_SIZE = 60
_SIZE = slice(48, 58)
"""Where a header says how many bytes follow, in decimal digits."""
_END_OF_HEADER = b"`\n"


def archive_of(objects: Sequence[bytes]) -> bytes:
    """The archive of several objects; of one, that object."""
    if len(objects) == 1:
        return objects[0]
    parts = [_MAGIC]
    for number, code in enumerate(objects):
        header = f"{f'{number}.o/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(code):<10}".encode()
        parts += [header, _END_OF_HEADER, code, b"\n" if len(code) % 2 else b""]
    return b"".join(parts)


def members_of(code: bytes) -> list[bytes]:
    """The objects of an archive; what is none is taken for one object.

    Errors: ValueError, when the archive is damaged.
    """
    if not code.startswith(_MAGIC):
        return [code]
    members: list[bytes] = []
    at = len(_MAGIC)
    while at < len(code):
        header = code[at : at + _HEADER_SIZE]
        digits = header[_SIZE].rstrip()
        if not header.endswith(_END_OF_HEADER) or len(header) != _HEADER_SIZE or not digits.isdigit():
            raise ValueError("the archive has a damaged header")
        start, size = at + _HEADER_SIZE, int(digits)
        if start + size > len(code):
            raise ValueError("the archive ends within a member")
        members.append(code[start : start + size])
        at = start + size + size % 2
    return members


__all__ = ["archive_of", "members_of"]
