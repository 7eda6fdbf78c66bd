"""Symbols in terms of what is told."""

from __future__ import annotations

from random import Random

import pytest

from cuesta.dialects import sym

a, b, c, d = (sym.symbol(name) for name in "abcd")


def test_what_is_told_alone_keeps_its_name():
    solution = sym.solve([a, 2 * b + 1, a * b])
    assert not solution.values and solution.say(a * b + c) is a * b + c


def test_a_sum_has_a_name_of_its_own():
    solution = sym.solve([a + b, c])
    total = sym.symbol("a_b")
    assert solution.say(a + b) is total and solution.say(c) is c
    assert solution.say(4 * c * (a + b) + 3) is 4 * c * total + 3
    assert solution.say((a + b) // 2 % 3) is total // 2 % 3
    assert solution.say(sym.maximum(a + b, 3)) is sym.maximum(total, 3)
    assert solution.say(a) is solution.say(a + 2 * b) is solution.say(a // 2) is None


def test_what_others_tell_is_solved():
    assert sym.solve([a + b, a]).say(b) is sym.symbol("b_2") - a
    solution = sym.solve([a + b, a - b])
    assert not solution.free
    names = {str(name): sym.evaluate(e, (), {"a": 7, "b": 3}) for e, name in solution.names.items()}
    assert {**names} == {"a_b": 10, "a_b_2": 4}
    assert sym.evaluate(solution.say(a), (), names) == 7 and sym.evaluate(solution.say(b), (), names) == 3


def test_what_is_not_linear_tells_itself_alone():
    solution = sym.solve([a * b, c])
    assert solution.say(a * b) is sym.symbol("a_b")
    assert solution.say(a * b + 1) is None and solution.say(a) is None


def test_a_name_is_nobody_elses():
    solution = sym.solve([a + b, sym.symbol("a_b")])
    assert solution.say(a + b) is sym.symbol("a_b_2")


@pytest.mark.parametrize("seed", range(40))
def test_what_is_said_is_what_it_was(seed):
    """Random equations: what can be said has its value, and what is told can be."""
    rng = Random(seed)
    numbers = {name: rng.randint(0, 20) for name in "abcd"}

    def combination():
        return sum((rng.randint(-3, 4) * one for one in (a, b, c, d)), rng.randint(-2, 2))

    told = [combination() for _ in range(rng.randint(1, 4))]
    solution = sym.solve(told)
    known = {str(name): sym.evaluate(e, (), numbers) for e, name in solution.names.items()}
    known |= {name: value for name, value in numbers.items() if name not in solution.values}
    said = 0
    for e in [*told, *(combination() for _ in range(20)), *(3 * x * y + x // 2 for x in told for y in told)]:
        found = solution.say(e)
        assert found is not None or e not in told
        if found is not None:
            assert sym.evaluate(found, (), known) == sym.evaluate(e, (), numbers)
            said += 1
    assert said > len(told) and (len(told) < 4 or solution.free or said > 24)
