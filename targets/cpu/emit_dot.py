"""`elem.dot` in LLVM IR: `vdpbf16ps` and `vpdpbusd` where the machine has them, shifts and products elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import elem, kernel
from cuesta.targets.cpu.features import has_dot
from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import vector_type

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter

_INSTRUCTIONS = {
    "bf16": ("llvm.x86.avx512bf16.dpbf16ps", "bfloat", 2),
    "i8": ("llvm.x86.avx512.vpdpbusd", "i32", 1),
}
"""By what the parts are: the intrinsic, and how its factors are typed: the element, and how many of them a word has.
LLVM reads what was declared with the types of an older version.
"""


def emit_dot(emitter: KernelEmitter, op: Operation) -> None:
    """An `elem.dot`; nothing where it is only added up, which `add_dot` does."""
    assert isinstance(op, elem.DotOp)
    if all(_adds_up(use.operation, op) for use in op.result.uses):
        return
    lanes = emitter.lanes_of(op.operands[0].type)
    zero = "zeroinitializer" if lanes > 1 else "0.0" if op.parts == "bf16" else "0"
    emitter.names[op.result] = add_dot(emitter, op, zero, lanes)


def _adds_up(user: Operation, op: elem.DotOp) -> bool:
    """Whether a user is the end of a sum of it."""
    loop = user.parent_op()
    return (
        isinstance(user, kernel.YieldOp)
        and isinstance(loop, kernel.ReduceOp)
        and loop.kind == "sum"
        and op.parent is loop.body
    )


def add_dot(emitter: KernelEmitter, op: elem.DotOp, value: str, lanes: int) -> str:
    """value + dot(a, b), in so many lanes."""
    real = "float" if op.parts == "bf16" else "i32"
    width = min(lanes, 16)
    if width < 4 or lanes % width or not has_dot(op.parts):
        first, second = op.operands
        return _by_shifts(emitter, op.parts, emitter.name(first), emitter.name(second), value, lanes)
    pieces: list[str] = []
    for start in range(0, lanes, width):
        a, b = (_register(emitter, op.parts, operand, lanes, start, width) for operand in op.operands)
        pieces.append(_instruction(emitter, op.parts, a, b, _piece(emitter, real, value, lanes, start, width), width))
    while len(pieces) > 1:
        kind, mask = vector_type(real, width), ", ".join(f"i32 {lane}" for lane in range(2 * width))
        pieces = [
            emitter.instruction(f"shufflevector {kind} {low}, {kind} {high}, <{2 * width} x i32> <{mask}>")
            for low, high in zip(pieces[0::2], pieces[1::2], strict=True)
        ]
        width *= 2
    return pieces[0]


def _piece(emitter: KernelEmitter, element: str, value: str, lanes: int, start: int, width: int) -> str:
    """So many lanes of a value."""
    if lanes == width:
        return value
    kind, mask = vector_type(element, lanes), ", ".join(f"i32 {start + lane}" for lane in range(width))
    return emitter.instruction(f"shufflevector {kind} {value}, {kind} poison, <{width} x i32> <{mask}>")


def _register(emitter: KernelEmitter, parts: str, operand: SSAValue, lanes: int, start: int, width: int) -> str:
    """So many lanes of the words of a factor as the instruction takes them: made once, for all rows that share them."""
    _, element, count = _INSTRUCTIONS[parts]
    owner = operand.owner
    words = vector_type("i32", width)
    if isinstance(owner, kernel.BroadcastOp) and emitter.lanes_of(owner.operands[0].type) == 1:
        name, start = emitter.name(owner.operands[0]), -1
    else:
        name = emitter.name(operand)
    known = emitter.levels[-1].addresses
    if (key := ("dot", parts, name, start, width)) not in known:
        if start < 0:
            first = emitter.instruction(f"insertelement {words} poison, i32 {name}, i64 0")
            mask = f"<{width} x i32> zeroinitializer"
            piece = emitter.instruction(f"shufflevector {words} {first}, {words} poison, {mask}")
        else:
            piece = _piece(emitter, "i32", name, lanes, start, width)
        kind = vector_type(element, width * count)
        known[key] = emitter.instruction(f"bitcast {words} {piece} to {kind}") if count > 1 else piece
    return known[key]


def _instruction(emitter: KernelEmitter, parts: str, a: str, b: str, value: str, width: int) -> str:
    name, element, count = _INSTRUCTIONS[parts]
    kind = vector_type(element, width * count)
    real, symbol = vector_type("float" if parts == "bf16" else "i32", width), f"@{name}.{32 * width}"
    declaration = f"declare {real} {symbol}({real}, {kind}, {kind})\n"
    emitter.functions[symbol] = MathFunction(symbol, declaration, frozenset(), frozenset())
    return emitter.instruction(f"call {real} {symbol}({real} {value}, {kind} {a}, {kind} {b})")


def _by_shifts(emitter: KernelEmitter, parts: str, a: str, b: str, value: str, lanes: int) -> str:
    """The parts one after the other."""
    words = vector_type("i32", lanes)

    def number(value: int) -> str:
        return str(value) if lanes == 1 else f"splat (i32 {value})"

    def moved(how: str, word: str, by: int) -> str:
        return word if by == 0 else emitter.instruction(f"{how} {words} {word}, {number(by)}")

    if parts == "i8":
        for part in range(4):
            unsigned = emitter.instruction(f"and {words} {moved('lshr', a, 8 * part)}, {number(255)}")
            signed = moved("ashr", moved("shl", b, 24 - 8 * part), 24)
            product = emitter.instruction(f"mul {words} {unsigned}, {signed}")
            value = emitter.instruction(f"add {words} {value}, {product}")
        return value
    real, suffix = vector_type("float", lanes), "f32" if lanes == 1 else f"v{lanes}f32"
    for part in range(2):
        factors: list[str] = []
        for word in (a, b):
            bits = emitter.instruction(f"and {words} {word}, {number(-65536)}") if part else moved("shl", word, 16)
            factors.append(emitter.instruction(f"bitcast {words} {bits} to {real}"))
        arguments = ", ".join(f"{real} {one}" for one in (*factors, value))
        value = emitter.instruction(f"call {real} @llvm.fmuladd.{suffix}({arguments})")
    return value


__all__ = ["add_dot", "emit_dot", "has_dot"]
