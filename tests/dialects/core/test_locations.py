from __future__ import annotations

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.utils.exceptions import ParseError

from cuesta.context import make_context
from cuesta.dialects.core.locations import (
    CuestaParser,
    copy_location,
    format_location,
    format_origin,
    fuse_locations,
    location_of,
    places_of,
    print_text,
    set_location,
    source_lines,
)

TEXT = """\
func.func @main(%a: i32) -> i32 {
  %b = builtin.unrealized_conversion_cast %a : i32 to i32 loc("model.py":42:7)
  %c = "builtin.unrealized_conversion_cast"(%b) : (i32) -> i32
  %d = "builtin.unrealized_conversion_cast"(%c) : (i32) -> i32 loc(fused["model.py":1:0, "model.py":2:0])
  func.return %d : i32
}
"""


def line(number: int, file: str = "model.py") -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(number), IntAttr(0))


def parse(text: str, first_line: int = 1) -> ModuleOp:
    return CuestaParser(make_context(), text, "program.mlir", first_line=first_line).parse_module()


def places(module: ModuleOp) -> list[str]:
    return [format_location(op.location) for op in module.walk() if not isinstance(op, ModuleOp)]


def test_written_locations_are_kept_and_others_are_the_place_in_the_text() -> None:
    fused = "program.mlir:4, model.py:1, model.py:2"
    expected = ["program.mlir:1", "program.mlir:2, model.py:42", "program.mlir:3", fused, "program.mlir:5"]
    module = parse(TEXT)
    assert places(module) == expected
    origins = [format_origin(op.location) for op in module.walk() if not isinstance(op, ModuleOp)]
    assert origins == ["program.mlir:1", "model.py:42", "program.mlir:3", "model.py:1, model.py:2", "program.mlir:5"]


def test_texts_come_first_in_what_was_fused() -> None:
    one, two = [op.location for op in parse(TEXT).walk() if "model.py" in format_origin(op.location)]
    fused = fuse_locations(one, two)
    assert format_location(fused) == "program.mlir:2, program.mlir:4, model.py:42, model.py:1, model.py:2"
    assert list(places_of(fused))[:2] == [("program.mlir", 2, 3), ("program.mlir", 4, 3)]


def test_first_line_shifts_places() -> None:
    assert places(parse(TEXT, first_line=11))[0] == "program.mlir:11"


@pytest.mark.parametrize("generic", [False, True])
def test_printed_locations_parse_back(generic: bool) -> None:
    module = parse(TEXT)
    again = parse(print_text(module, locations=True, generic=generic))
    origins = [[format_origin(op.location) for op in one.walk()][1:] for one in (again, module)]
    assert origins[0] == origins[1]
    text = print_text(again, locations=True)
    assert "callsite" not in text and text == print_text(parse(text), locations=True)


def test_undefined_value_is_reported_where_it_is_used() -> None:
    with pytest.raises(ParseError, match="%z is used but not defined") as raised:
        parse("func.func @main() -> i32 {\n  func.return %z : i32\n}")
    assert raised.value.span.get_location().line == 2


def test_fuse_keeps_each_source_once_in_order() -> None:
    one, two, three = line(1), line(2), line(3)
    assert fuse_locations() == UNKNOWN_LOC
    assert fuse_locations(UNKNOWN_LOC, one, one) == one
    fused = fuse_locations(fuse_locations(one, two), UNKNOWN_LOC, fuse_locations(two, three))
    assert list(source_lines(fused)) == [("model.py", 1), ("model.py", 2), ("model.py", 3)]


def test_location_of_asks_the_enclosing_ops() -> None:
    module = parse(TEXT)
    function = next(iter(module.body.ops))
    inner = next(op for op in function.walk() if op is not function)
    inner.location = UNKNOWN_LOC
    assert format_location(location_of(inner)) == "program.mlir:1"
    set_location(inner, "other.py", 3)
    assert format_location(location_of(inner)) == "other.py:3"


def test_copy_fills_only_what_is_unknown() -> None:
    module = parse(TEXT)
    source, target, *_ = [op for op in module.walk() if op.operands]
    target.location = UNKNOWN_LOC
    copy_location(source, target)
    assert target.location == source.location
    copy_location(module, target)
    assert target.location == source.location
