"""Edits of a text, as a person makes them and as nobody would: words, numbers, operands, types, lines."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_NUMBER = re.compile(r"(?<![\w%#.@])-?\d+(?![\w.])")
_SIZE_IN_TYPE = re.compile(r"(?<=[<x])\d+(?=x)")
_VALUE = re.compile(r"%[A-Za-z0-9_]+")
_ELEMENT = re.compile(
    r"(?<![\w.])(f32|f64|f16|bf16|i1|i8|i16|i32|i64|ui8|index)(?!\w)|(?<=x)(f32|f64|i1|i64|i32|ui8)(?!\w)"
)
_OP = re.compile(r"(?<![\w.\"])(aten|loops|kernel|host|elem)\.[a-zA-Z_0-9.]+")
_SYMBOL = re.compile(r"(?<![\w%])s\d+(?!\w)")
_KERNEL = re.compile(r"@\w+")
_CHOICE = re.compile(r"(?<=, )\w+ = \w+(?=[,>])")
_KIND = re.compile(r"\b(sum|prod|maximum|minimum|any|all|argmax|argmin|welford|assign|assign_any|logaddexp)\b")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")

_NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    64,
    100,
    4096,
    -1,
    -3,
    1 << 20,
    80_000_000,
    1 << 31,
    1 << 40,
    (1 << 62) + 1,
    1 << 63,
    1 << 70,
)
_ELEMENTS = ("f32", "f64", "f16", "bf16", "i1", "i8", "i16", "i32", "i64", "ui8", "index")
_KINDS = ("sum", "prod", "maximum", "minimum", "any", "all", "argmax", "argmin", "welford", "assign", "logaddexp")
_CHOICES = (
    "parallel = 1", "parallel = 0", "parallel = -1", "unroll = 0", "unroll = 3", "unroll = 1000000", "grain = 0",
    "grain = -5", "target = cuda", "target = moon", "warps = 0", "warps = 4", "lanes = 8", "nonsense = 1",
    "unroll = wide", "index = 32", "index = 64", "group = 3", "reversed = 1", "stages = 1", "warps = 3",
    "prefetch = 64", "prefetch = 0", "prefetch = -1", "prefetch = 1000000000000", "rows = 4", "rows = 3", "rows = 0",
)  # fmt: skip
_WORDS = ("wrap", "pure", "if", "else", "outs", "mod", "floordiv", "min", "max", "lanes", "dim", "updates", "last")
_EXPRESSIONS = (
    "mod 0",
    "floordiv 0",
    "* 4611686018427387904",
    "- 1",
    "+ 1",
    "+ 64",
    "mod -3",
    "mod 7",
    "* 2",
    "floordiv 2",
)


def mutate(text: str, chooser: random.Random, others: list[str]) -> str:
    """The text with one to three edits; `others` are texts to take lines from."""
    for _ in range(chooser.choice((1, 1, 1, 2, 2, 3))):
        for _ in range(10):
            edited = chooser.choice(_EDITS)(text, chooser, others)
            if edited != text:
                text = edited
                break
    return text


def _replace(text: str, pattern: re.Pattern[str], chooser: random.Random, new: Callable[[str], str]) -> str:
    found = list(pattern.finditer(text, _start(text)))
    if not found:
        return text
    match = chooser.choice(found)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


def _start(text: str) -> int:
    """Where the program begins: the locations before it are no part of what is edited."""
    position = text.find("\nbuiltin.module")
    return max(position, 0)


def _number(text: str, chooser: random.Random, others: list[str]) -> str:
    def new(old: str) -> str:
        value = int(old)
        return str(chooser.choice((value + 1, value - 1, value * 2, value // 2, -value, chooser.choice(_NUMBERS))))

    return _replace(text, chooser.choice((_NUMBER, _SIZE_IN_TYPE)), chooser, new)


def _size_everywhere(text: str, chooser: random.Random, others: list[str]) -> str:
    """One type everywhere: the text stays consistent and says something else."""
    types = sorted(set(re.findall(r"tensor<[^>]*>", text)))
    if not types:
        return text
    old = chooser.choice(types)
    return text.replace(
        old, _number(_element(old, chooser, others) if chooser.random() < 0.3 else old, chooser, others)
    )


def _type_on_a_line(text: str, chooser: random.Random, others: list[str]) -> str:
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if "tensor<" in line]
    if not places:
        return text
    at = chooser.choice(places)
    lines[at] = _size_everywhere(lines[at], chooser, others)
    return "\n".join(lines)


def _element(text: str, chooser: random.Random, others: list[str]) -> str:
    return _replace(text, _ELEMENT, chooser, lambda _: chooser.choice(_ELEMENTS))


def _operand(text: str, chooser: random.Random, others: list[str]) -> str:
    """An operand becomes another value, mostly one of those that stand on the lines before it."""
    found = list(_VALUE.finditer(text, _start(text)))
    if not found:
        return text
    at = chooser.randrange(len(found))
    new = found[max(0, at - chooser.randrange(1, 20))] if chooser.random() < 0.8 else chooser.choice(found)
    return text[: found[at].start()] + new[0] + text[found[at].end() :]


def _swapped_operands(text: str, chooser: random.Random, others: list[str]) -> str:
    lines = text.split("\n")
    places = [number for number, line in enumerate(lines) if len(_VALUE.findall(line)) > 2]
    if not places:
        return text
    at = chooser.choice(places)
    found = list(_VALUE.finditer(lines[at]))
    one, two = sorted(chooser.sample(range(len(found)), 2))
    line, a, b = lines[at], found[one], found[two]
    lines[at] = line[: a.start()] + b[0] + line[a.end() : b.start()] + a[0] + line[b.end() :]
    return "\n".join(lines)


def _op(text: str, chooser: random.Random, others: list[str]) -> str:
    known = sorted({match[0] for other in (text, chooser.choice(others)) for match in _OP.finditer(other)})
    return _replace(text, _OP, chooser, lambda old: chooser.choice([op for op in known if op[:3] == old[:3]]))


def _line(text: str, chooser: random.Random, others: list[str]) -> str:
    """A line deleted, doubled, moved, or taken from another text."""
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines) if not line.startswith("#")), 0)
    if len(lines) - first < 4:
        return text
    at, to = chooser.randrange(first, len(lines)), chooser.randrange(first, len(lines))
    kind = chooser.randrange(5)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines.insert(at, lines[at])
    elif kind == 3:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        lines.insert(at, chooser.choice(chooser.choice(others).split("\n")))
    return "\n".join(lines)


def _free(text: str, chooser: random.Random, others: list[str]) -> str:
    """Frees a buffer somewhere, or moves a free."""
    lines = text.split("\n")
    frees = [number for number, line in enumerate(lines) if "host.free" in line]
    buffers = re.findall(r"(%\w+) = host\.(?:alloc|reinterpret|place)[^\n]* (tensor<[^\n]*>)(?: loc|\n)", text)
    places = [number for number, line in enumerate(lines) if " host." in line]
    if not places:
        return text
    if frees and chooser.random() < 0.6:
        line = lines[at := chooser.choice(frees)]
        if chooser.random() < 0.5:
            del lines[at]
        lines.insert(chooser.choice(places), line)
    elif buffers:
        buffer, buffer_type = chooser.choice(buffers)
        lines.insert(chooser.choice(places) + 1, f"    host.free {buffer} : {buffer_type}")
    return "\n".join(lines)


def _attribute(text: str, chooser: random.Random, others: list[str]) -> str:
    """What `@main` says of symbols and of what it writes to."""
    if chooser.random() < 0.5:
        return _replace(
            text,
            re.compile(r"in \[[^\]]*\]"),
            chooser,
            lambda _: chooser.choice(("in [0, 5]", "in [9, 2]", "in [0, inf]", "in [-inf, inf]")),
        )
    return _replace(
        text,
        re.compile(r"aten\.writes_to = \[[^\]]*\]"),
        chooser,
        lambda _: chooser.choice(
            ("aten.writes_to = [9]", "aten.writes_to = []", "aten.writes_to = [1, 0]", "aten.writes_to = [-1]")
        ),
    )


def _broken(text: str, chooser: random.Random, others: list[str]) -> str:
    """What does not parse, mostly."""
    if chooser.random() < 0.5:
        return _replace(text, re.compile(r" (?=[%:{])"), chooser, lambda _: f" {chooser.choice(_WORDS)} ")
    return _replace(text, re.compile(r"[\w%{}()\[\]<>,:=]"), chooser, lambda _: "")


def _word(pattern: str, words: Callable[[str, random.Random], str]) -> Callable[[str, random.Random, list[str]], str]:
    """The edit that replaces what a pattern finds."""
    compiled = re.compile(pattern)
    return lambda text, chooser, others: _replace(text, compiled, chooser, lambda _: words(text, chooser))


def _one_of(*words: object) -> Callable[[str, random.Random], str]:
    return lambda text, chooser: str(chooser.choice(words))


_EDITS: tuple[Callable[[str, random.Random, list[str]], str], ...] = (
    _number,
    _number,
    _number,
    _number,
    _size_everywhere,
    _size_everywhere,
    _type_on_a_line,
    _type_on_a_line,
    _element,
    _operand,
    _operand,
    _swapped_operands,
    _op,
    _line,
    _line,
    _free,
    _attribute,
    _word(_SYMBOL.pattern, _one_of("s0", "s1", "s7", "4")),
    _word(_KERNEL.pattern, lambda text, chooser: chooser.choice((*_KERNEL.findall(text), "@run_0", '@"a b"'))),
    _word(_CHOICE.pattern, _one_of(*_CHOICES)),
    _word(_KIND.pattern, _one_of(*_KINDS)),
    _word(r"(?<=\w)(?=[,\]])", lambda text, chooser: " " + chooser.choice(_EXPRESSIONS)),
    _word(_BRACKETS.pattern, lambda text, chooser: chooser.choice(_BRACKETS.findall(text))),
    _word(r"\b(?:true|false|none|wrap|pure)\b", _one_of("true", "false", "none", "", "3")),
    _word(r"(?<=lanes )\d+", _one_of(1, 2, 3, 4, 8, 16, 33, 4096, 1 << 20)),
    _broken,
)
