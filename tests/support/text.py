"""Programs in text: what is printed parses back, and what is wrong is refused with a message."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.context import make_context
from cuesta.dialects.core.fingerprint import structurally_equal
from cuesta.dialects.core.locations import CuestaParser, print_text

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


def refused(text: str, message: str) -> None:
    """Checks that the program is refused, by the parser or a verifier, with a message that contains `message`."""
    with pytest.raises(PROBLEMS) as caught:
        parse(text)
    assert message in str(caught.value)
