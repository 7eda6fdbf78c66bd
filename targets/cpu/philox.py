"""Philox4x32 as LLVM IR text: `elem.philox` and `elem.random_word` on any number of lanes."""

from __future__ import annotations

from functools import cache

from cuesta.dialects.elem.ops import PHILOX_ROUNDS, WORD_ROUNDS
from cuesta.targets.cpu.emit_types import splat_integer
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import vector_type

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


@cache
def philox(word: int, lanes: int) -> MathFunction:
    """The function of a key and a counter that gives one of the four words; words are the lower halves of i64.

    A machine multiplies two such halves in one instruction.
    """
    text = _Text(lanes)
    result = text.words("%counter", PHILOX_ROUNDS)[word]
    return text.function(f"@cuesta.philox.{word}.i64x{lanes}", "%counter", result)


@cache
def random_word(lanes: int) -> MathFunction:
    """The function of a key, a place and a first counter that gives the word of the place."""
    text = _Text(lanes)
    words = text.words(text.emit("add", text.emit("lshr", "%place", text.number(2)), "%first"), WORD_ROUNDS)
    which = text.emit("and", "%place", text.number(3))
    result = words[3]
    for word in range(3):
        result = text.chosen(which, word, words[word], result)
    return text.function(f"@cuesta.random_word.i64x{lanes}", "%place", result, "%first")


class _Text:
    """The lines of a function on i64."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.kind = vector_type("i64", lanes)
        self.lines: list[str] = []

    def emit(self, operation: str, a: str, b: str) -> str:
        """An instruction of two operands of the type."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {operation} {self.kind} {a}, {b}")
        return name

    def number(self, value: int) -> str:
        """A constant of the type."""
        return splat_integer(value, self.lanes)

    def chosen(self, which: str, number: int, then: str, otherwise: str) -> str:
        """`then` where `which` is a number."""
        condition = self.emit("icmp eq", which, self.number(number))
        name = f"%v{len(self.lines)}"
        bools = vector_type("i1", self.lanes)
        kinds = f"{bools} {condition}, {self.kind} {then}, {self.kind} {otherwise}"
        self.lines.append(f"  {name} = select {kinds}")
        return name

    def words(self, counter: str, rounds: int) -> tuple[str, str, str, str]:
        """The four words for `%key` and a counter, after so many rounds."""
        emit, number = self.emit, self.number

        def low(value: str) -> str:
            return emit("and", value, number(_LOW))

        def high(value: str) -> str:
            return emit("lshr", value, number(32))

        k0, k1, c0, c1 = low("%key"), high("%key"), low(counter), high(counter)
        c2 = c3 = number(0)
        for _ in range(rounds):
            first, second = emit("mul", c0, number(_MULTIPLIERS[0])), emit("mul", c2, number(_MULTIPLIERS[1]))
            c0, c2 = emit("xor", emit("xor", high(second), c1), k0), emit("xor", emit("xor", high(first), c3), k1)
            c1, c3 = low(second), low(first)
            k0, k1 = low(emit("add", k0, number(_WEYL[0]))), low(emit("add", k1, number(_WEYL[1])))
        return c0, c1, c2, c3

    def function(self, symbol: str, argument: str, result: str, *more: str) -> MathFunction:
        """The function of `%key` and other arguments that gives a result."""
        arguments = ", ".join(f"{self.kind} {one}" for one in ("%key", argument, *more))
        header = f"define private {self.kind} {symbol}({arguments}) alwaysinline nounwind {{"
        body = "\n".join([*self.lines, f"  ret {self.kind} {result}"])
        return MathFunction(symbol, f"{header}\n{body}\n}}\n", frozenset(), frozenset())
