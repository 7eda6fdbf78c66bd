"""The text of an LLVM module → texts of modules that can be compiled side by side.

    sum_0, sum_1, copy_2, run_0, with exp           →     sum_0, run_0, with exp    and    sum_1, copy_2, with exp

Their objects, linked together, are the object of the whole: a function that one module defines and another one calls is
`hidden` instead of `internal`, and is the same machine code; small functions of our library are defined wherever
they are used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cuesta.dialects.core.structs import struct

SMALLEST = 50_000
"""Characters of functions that are worth a module of their own.

Source: 25 ms of LLVM; a module of nothing but the library's functions takes 5 (AMD EPYC of the fourth generation).
"""

_DEFINITION = re.compile(r'^define ([^@\n]*)@("[^"\n]*"|[\w.$]+)(\([^\n]*) \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'@("[^"\n]*"|[\w.$]+)')
_OF_ONE_MODULE = ("internal ", "private ")


@struct
class _Function:
    name: str
    linkage: str
    rest: str
    """What follows its name in the first line."""
    text: str
    is_of_library: bool
    """Whether each module has one of its own."""


def split_module(text: str, most: int) -> list[str]:
    """Up to `most` modules with the functions of one; itself, where it is too small for several.

    Requires: a text as `emit_module` writes it: definitions begin and end with a line of their own, what is `internal`
    or `private` and named `cuesta.…` may be there several times, and the address of no other function is compared.
    """
    matches = list(_DEFINITION.finditer(text)) if most > 1 and len(text) >= 2 * SMALLEST else []
    functions = [_function(match) for match in matches]
    library = {one.name: one for one in functions if one.is_of_library}
    divided = [one for one in functions if not one.is_of_library]
    work = sum(map(_work, divided))
    count = min(most, len(divided), int(work // SMALLEST))
    if count < 2:
        return [text]
    ends = [0, *(match.end() for match in matches)]
    starts = [*(match.start() for match in matches), len(text)]
    head = "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    members: list[list[_Function]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for one in sorted(divided, key=_work, reverse=True):
        place = loads.index(min(loads))
        members[place].append(one)
        loads[place] += _work(one)
    defined = {one.name: one for one in divided}
    return [_module(head, own, defined, library) for own in members]


def _function(match: re.Match[str]) -> _Function:
    linkage, name, rest = match.groups()
    is_of_library = linkage.startswith(_OF_ONE_MODULE) and name.strip('"').startswith("cuesta.")
    return _Function(name, linkage, rest, match.group(), is_of_library)


def _work(one: _Function) -> float:
    """What LLVM has to do, in characters of a kernel. Functions that only pass arguments on take next to no time."""
    return len(one.text) * (1.0 if one.linkage.startswith(_OF_ONE_MODULE) else 0.1)


def _module(head: str, own: Sequence[_Function], defined: dict[str, _Function], library: dict[str, _Function]) -> str:
    """One of the modules: its own functions, those of the library that they use, and declarations of others."""
    names = {one.name for one in own}
    texts = [_hidden(one.text, one) for one in own]
    pending = [one.text for one in own]
    found: dict[str, _Function] = {}
    declared: dict[str, None] = {}
    while pending:
        for name in _NAME.findall(pending.pop()):
            if name in library and name not in found:
                found[name] = library[name]
                pending.append(library[name].text)
            elif name in defined and name not in names:
                declared[name] = None
    declarations = [f"declare {_hidden_linkage(defined[n])}@{n}{defined[n].rest}\n" for n in declared]
    return "".join([head, *declarations, *(one.text for one in found.values()), *texts])


def _hidden_linkage(one: _Function) -> str:
    for linkage in _OF_ONE_MODULE:
        if one.linkage.startswith(linkage):
            return "hidden " + one.linkage.removeprefix(linkage)
    return one.linkage


def _hidden(text: str, one: _Function) -> str:
    return text.replace(f"define {one.linkage}@", f"define {_hidden_linkage(one)}@", 1)


__all__ = ["split_module"]
