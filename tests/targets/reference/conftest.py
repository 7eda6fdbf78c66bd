from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from cuesta.context import make_context


@pytest.fixture(scope="session")
def context() -> Context:
    return make_context()


@pytest.fixture
def parse(context: Context) -> Callable[[str], ModuleOp]:
    return lambda text: Parser(context, text).parse_module()


@pytest.fixture
def nest(parse: Callable[[str], ModuleOp]) -> Callable[..., ModuleOp]:
    """A module whose @main is the given text (which defines %y), with the arguments and results given."""

    def build(arguments: str, results: str, body: str, returned: str = "%y", symbols: str = "") -> ModuleOp:
        attributes = f"attributes {{sym.symbols = #sym.symbols<{symbols}>}} " if symbols else ""
        signature = f"({arguments}) -> ({results}) {attributes}"
        return parse(f"func.func @main{signature}{{\n{body}\n  func.return {returned} : {results}\n}}")

    return build
