"""Philox4x32-10 as LLVM IR text: `elem.philox` on any number of lanes."""

from __future__ import annotations

from functools import cache

from cuesta.targets.cpu.emit_types import splat_integer
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import vector_type

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


@cache
def philox(word: int, lanes: int) -> MathFunction:
    """The function of a key and a counter that gives one of the four words; words are the lower halves of i64.

    A machine multiplies two such halves in one instruction.
    """
    kind = vector_type("i64", lanes)
    lines: list[str] = []

    def emit(operation: str, a: str, b: str) -> str:
        name = f"%v{len(lines)}"
        lines.append(f"  {name} = {operation} {kind} {a}, {b}")
        return name

    def number(value: int) -> str:
        return splat_integer(value, lanes)

    def low(value: str) -> str:
        return emit("and", value, number(_LOW))

    def high(value: str) -> str:
        return emit("lshr", value, number(32))

    k0, k1, c0, c1 = low("%key"), high("%key"), low("%counter"), high("%counter")
    c2 = c3 = number(0)
    for _ in range(_ROUNDS):
        first, second = emit("mul", c0, number(_MULTIPLIERS[0])), emit("mul", c2, number(_MULTIPLIERS[1]))
        c0, c2 = emit("xor", emit("xor", high(second), c1), k0), emit("xor", emit("xor", high(first), c3), k1)
        c1, c3 = low(second), low(first)
        k0, k1 = low(emit("add", k0, number(_WEYL[0]))), low(emit("add", k1, number(_WEYL[1])))
    symbol = f"@cuesta.philox.{word}.i64x{lanes}"
    header = f"define private {kind} {symbol}({kind} %key, {kind} %counter) alwaysinline nounwind {{"
    body = "\n".join([*lines, f"  ret {kind} {(c0, c1, c2, c3)[word]}"])
    return MathFunction(symbol, f"{header}\n{body}\n}}\n", frozenset(), frozenset())
