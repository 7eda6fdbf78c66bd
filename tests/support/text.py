"""Programs in text: what is printed parses back, and what is wrong is refused with a message."""

from __future__ import annotations

from io import StringIO

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.context import make_context
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.targets import reference

PROBLEMS = (ParseError, VerifyException)


def parse(text: str) -> ModuleOp:
    """The verified program."""
    module = CuestaParser(make_context(), text, "<text>").parse_module()
    module.verify()
    return module


def round_trip(text: str) -> ModuleOp:
    """Checks that the program prints as the given text, and comes back from it and from the generic form."""
    module = parse(text)
    printed = print_text(module)
    body = "\n".join(line.removeprefix("  ") for line in printed.splitlines()[1:-1])
    assert body == text.strip("\n")
    assert structurally_equal(parse(printed), module)
    other = parse(print_text(module, generic=True))
    assert structurally_equal(other, module)
    assert print_text(other) == printed
    return module


def round_trip_in_xdsl(text: str) -> None:
    """Checks that xDSL's own parser and printer give the text back, from it and from the generic form."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    assert str(module) == text
    stream = StringIO()
    Printer(stream=stream, print_generic_format=True).print_op(module)
    again = Parser(make_context(), stream.getvalue()).parse_module()
    again.verify()
    assert str(again) == text


def means_rows_less_their_sum(text: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks a program of points that meet, also where the interpreter takes the points of others in several goes."""
    x = torch.randn(4, 32)
    for points in (1 << 21, 100, 1):  # those who meet are never taken apart
        monkeypatch.setattr(f"cuesta.targets.reference.{level}.POINTS_PER_CHUNK", points)
        (y,) = reference.run(parse(text), [x])
        assert isinstance(y, torch.Tensor)
        torch.testing.assert_close(y, x - x.sum(1, keepdim=True))


def refused(text: str, message: str) -> None:
    """Checks that the program is refused, by the parser or a verifier, with a message that contains `message`."""
    with pytest.raises(PROBLEMS) as caught:
        parse(text)
    assert message in str(caught.value)
