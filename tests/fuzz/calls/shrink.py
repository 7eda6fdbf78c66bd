"""Makes a case smaller as long as the same is wrong with it: fewer statements, results, inputs and calls; sizes."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.fuzz.calls.case import Case

T = TypeVar("T")


def shrink(case: Case, still_wrong: Callable[[Case], bool], seconds: float = 60.0) -> Case:
    """The smallest that is found in the time."""
    end = time.monotonic() + seconds
    tried = {case.to_json()}
    improved = True
    while improved:
        improved = False
        for smaller in _smaller(case):
            if time.monotonic() > end:
                return case
            if smaller.to_json() in tried or not _is_program(smaller):
                continue
            tried.add(smaller.to_json())
            if still_wrong(smaller):
                case, improved = smaller, True
                break
    return case


def _is_program(case: Case) -> bool:
    try:
        ast.parse(case.source)
    except SyntaxError:
        return False
    return True


def _smaller(case: Case) -> Iterator[Case]:
    """One step smaller, the greatest steps first."""
    if len(case.calls) > 1:
        yield from (replace(case, calls=_without(case.calls, i, i + 1)) for i in reversed(range(len(case.calls))))
    blocks = _blocks(case.statements)
    length = len(blocks)
    while length:
        for start in reversed(range(0, len(blocks), length)):
            kept = [line for block in _without(blocks, start, start + length) for line in block]
            yield replace(case, statements=kept)
        length //= 2
    yield from (replace(case, results=results) for results in _fewer_results(case.results))
    if case.backward:
        yield replace(case, backward="", inputs=[line.replace(".requires_grad_()", "") for line in case.inputs])
        yield from (replace(case, backward="all") for _ in range(case.backward != "all"))
    for number, line in enumerate(case.inputs):
        yield replace(case, inputs=_with(case.inputs, number, line.replace(".requires_grad_()", "", 1)))
        name = line.partition(" = ")[0]
        if line.startswith(f"{name} = dynamic("):
            yield replace(case, inputs=_without(case.inputs, number, number + 1))
            continue
        yield replace(
            case,
            inputs=[one for one in case.inputs if one.partition(" = ")[0] != name],
            arguments=[one for one in case.arguments if one != name],
            owners=[one for one in case.owners if one != name],
        )
    if case.settings.get("dynamic") is not None:
        yield replace(case, settings={**case.settings, "dynamic": None})
    if case.captures:
        yield replace(case, captures=False)
    for number, sizes in enumerate(case.calls):
        for place, size in enumerate(sizes):
            for less in sorted({size // 2, size - 1, 2} - {size}):
                if 0 < less < size:
                    smaller = (*sizes[:place], less, *sizes[place + 1 :])
                    yield replace(case, calls=_with(case.calls, number, smaller))


def _blocks(lines: list[str]) -> list[list[str]]:
    """Statements with what is indented below them."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith(" ") and found:
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _fewer_results(results: str) -> Iterator[str]:
    """One result less, or one alone."""
    tree = ast.parse(results, mode="eval").body
    if isinstance(tree, ast.Dict):
        yield "(" + "".join(f"{ast.unparse(one)}, " for one in tree.values) + ")"
    if isinstance(tree, (ast.Tuple, ast.List)):
        parts = [ast.unparse(one) for one in tree.elts]
        yield from parts
        for i in range(len(parts)):
            yield "(" + "".join(f"{one}, " for one in _without(parts, i, i + 1)) + ")"


def _without(items: list[T], start: int, stop: int) -> list[T]:
    return [*items[:start], *items[stop:]]


def _with(items: list[T], place: int, item: T) -> list[T]:
    return [*items[:place], item, *items[place + 1 :]]
