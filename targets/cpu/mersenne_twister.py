"""Eager's random words on the CPU: the Mersenne Twister mt19937 as LLVM IR text, on the state of torch's generator.

    x[k + 624] = x[k + 397] ^ (y >> 1) ^ (y odd ? 0x9908B0DF : 0),  y = upper bit of x[k] | lower 31 bits of x[k + 1]

No word depends on one that is less than 227 places before it, so that 16 are made at a time. What eager hands out is
the next word, *tempered*. torch calls mt19937 one word at a time.

Source: Matsumoto, Nishimura, "Mersenne Twister" (1998); the state: `at::CPUGeneratorImpl`'s, as `get_state` gives it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

from cuesta.targets.cpu.machine_code import load_object

_WORDS = 624
_FAR = 397
_LANES = 16
_MATRIX = 0x9908B0DF
_UPPER, _LOWER = 0x80000000, 0x7FFFFFFF
_TEMPERING = (("lshr", 11, None), ("shl", 7, 0x9D2C5680), ("shl", 15, 0xEFC60000), ("lshr", 18, None))

STATE_BYTES = 5056
"""Of a state: the seed, `left` and `seeded` (32 bits each), `next` and the words of 64 bits each, then what normal
numbers leave behind, which words do not change."""
_LEFT, _NEXT, _STATE = 8, 16, 24
"""Bytes before `left` (the words that are left and one), `next` (which word that is), and the first word."""

SYMBOL = "cuesta_mt19937"


def _splat(value: int, lanes: int) -> str:
    signed = value - (1 << 32) if value >> 31 else value
    return f"<{', '.join([f'i32 {signed}'] * lanes)}>"


def _tempered(lanes: int) -> str:
    """A function of `lanes` words, which tempers them."""
    kind, word, lines = f"<{lanes} x i32>", "%word", list[str]()
    for number, (shift, places, mask) in enumerate(_TEMPERING):
        lines.append(f"  %s{number} = {shift} {kind} {word}, {_splat(places, lanes)}")
        changed = f"%s{number}"
        if mask is not None:
            changed = f"%m{number}"
            lines.append(f"  {changed} = and {kind} %s{number}, {_splat(mask, lanes)}")
        lines.append(f"  %w{number} = xor {kind} {word}, {changed}")
        word = f"%w{number}"
    body = "\n".join(lines)
    header = f"define private {kind} @tempered{lanes}({kind} %word) alwaysinline nounwind {{"
    return f"{header}\n{body}\n  ret {kind} {word}\n}}\n"


def _loop(name: str, count: str, step: int, body: str, then: str, start: str = "0") -> str:
    """Blocks that run `body`, text over `%NAME`, from `start` on while there is a whole step up to `count`; what
    comes next stands in the block `then`.
    """
    return f"""\
  br label %{name}.before
{name}.before:
  br label %{name}.test
{name}.test:
  %{name} = phi i64 [ {start}, %{name}.before ], [ %{name}.next, %{name}.body ]
  %{name}.next = add i64 %{name}, {step}
  %{name}.more = icmp sle i64 %{name}.next, {count}
  br i1 %{name}.more, label %{name}.body, label %{then}
{name}.body:
{body}  br label %{name}.test
{then}:
"""


def _twist() -> str:
    """A function of a buffer of 624 words, with room for as many, which puts the next 624 in their place."""
    kind = f"<{_LANES} x i32>"
    body = f"""\
  %here = getelementptr i32, ptr %buffer, i64 %k
  %one = getelementptr i32, ptr %here, i64 1
  %far = getelementptr i32, ptr %here, i64 {_FAR}
  %new = getelementptr i32, ptr %here, i64 {_WORDS}
  %a = load {kind}, ptr %here, align 4
  %b = load {kind}, ptr %one, align 4
  %c = load {kind}, ptr %far, align 4
  %upper = and {kind} %a, {_splat(_UPPER, _LANES)}
  %lower = and {kind} %b, {_splat(_LOWER, _LANES)}
  %y = or {kind} %upper, %lower
  %half = lshr {kind} %y, {_splat(1, _LANES)}
  %bit = and {kind} %b, {_splat(1, _LANES)}
  %odd = icmp ne {kind} %bit, zeroinitializer
  %matrix = select <{_LANES} x i1> %odd, {kind} {_splat(_MATRIX, _LANES)}, {kind} zeroinitializer
  %d = xor {kind} %c, %half
  %e = xor {kind} %d, %matrix
  store {kind} %e, ptr %new, align 4
"""
    return f"""\
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define private void @twist(ptr %buffer) nounwind {{
{_loop("k", str(_WORDS), _LANES, body, "done")}\
  %after = getelementptr i32, ptr %buffer, i64 {_WORDS}
  call void @llvm.memcpy.p0.p0.i64(ptr %buffer, ptr %after, i64 {4 * _WORDS}, i1 false)
  ret void
}}
"""


def _temper() -> str:
    """A function that writes the tempered words of some."""

    def body(counter: str, lanes: int) -> str:
        kind = f"<{lanes} x i32>"
        return f"""\
  %from.{counter} = getelementptr i32, ptr %from, i64 %{counter}
  %to.{counter} = getelementptr i32, ptr %to, i64 %{counter}
  %w.{counter} = load {kind}, ptr %from.{counter}, align 4
  %t.{counter} = call {kind} @tempered{lanes}({kind} %w.{counter})
  store {kind} %t.{counter}, ptr %to.{counter}, align 4
"""

    return f"""\
define private void @temper(ptr %from, ptr %to, i64 %count) nounwind {{
{_loop("k", "%count", _LANES, body("k", _LANES), "rest")}\
{_loop("j", "%count", 1, body("j", 1), "done", "%k")}\
  ret void
}}
"""


def module_text() -> str:
    """The LLVM module: `cuesta_mt19937(state, words, count)` writes that many words, and what the state becomes."""
    wide, narrow = f"<{_LANES} x i64>", f"<{_LANES} x i32>"
    load = f"""\
  %held.i = getelementptr i64, ptr %held, i64 %i
  %buffer.i = getelementptr i32, ptr %buffer, i64 %i
  %wide.i = load {wide}, ptr %held.i, align 8
  %narrow.i = trunc {wide} %wide.i to {narrow}
  store {narrow} %narrow.i, ptr %buffer.i, align 4
"""
    keep = f"""\
  %held.o = getelementptr i64, ptr %held, i64 %o
  %buffer.o = getelementptr i32, ptr %buffer, i64 %o
  %narrow.o = load {narrow}, ptr %buffer.o, align 4
  %wide.o = zext {narrow} %narrow.o to {wide}
  store {wide} %wide.o, ptr %held.o, align 8
"""
    return f"""\
{_tempered(_LANES)}
{_tempered(1)}
{_twist()}
{_temper()}
define void @{SYMBOL}(ptr %state, ptr %words, i64 %count) nounwind {{
  %buffer = alloca [{2 * _WORDS} x i32], align 64
  %left.place = getelementptr i8, ptr %state, i64 {_LEFT}
  %next.place = getelementptr i8, ptr %state, i64 {_NEXT}
  %held = getelementptr i8, ptr %state, i64 {_STATE}
  %left = load i32, ptr %left.place, align 4
  %before = sub i32 %left, 1
  %ready = zext i32 %before to i64
  %next = load i64, ptr %next.place, align 8
{_loop("i", str(_WORDS), _LANES, load, "loaded")}\
  %enough = icmp sle i64 %count, %ready
  %first = select i1 %enough, i64 %count, i64 %ready
  %from = getelementptr i32, ptr %buffer, i64 %next
  call void @temper(ptr %from, ptr %words, i64 %first)
  %next.first = add i64 %next, %first
  %ready.first = sub i64 %ready, %first
  br label %test
test:
  %done = phi i64 [ %first, %loaded ], [ %done.next, %block ]
  %next.now = phi i64 [ %next.first, %loaded ], [ %taken, %block ]
  %ready.now = phi i64 [ %ready.first, %loaded ], [ %still, %block ]
  %more = icmp slt i64 %done, %count
  br i1 %more, label %block, label %keep
block:
  %rest = sub i64 %count, %done
  %last = icmp slt i64 %rest, {_WORDS}
  %taken = select i1 %last, i64 %rest, i64 {_WORDS}
  %still = sub i64 {_WORDS}, %taken
  %to = getelementptr i32, ptr %words, i64 %done
  call void @twist(ptr %buffer)
  call void @temper(ptr %buffer, ptr %to, i64 %taken)
  %done.next = add i64 %done, %taken
  br label %test
keep:
{_loop("o", str(_WORDS), _LANES, keep, "kept")}\
  %left.low = trunc i64 %ready.now to i32
  %left.now = add i32 %left.low, 1
  store i32 %left.now, ptr %left.place, align 4
  store i64 %next.now, ptr %next.place, align 8
  ret void
}}
"""


@functools.cache
def machine_function() -> Callable[[int, int, int], None]:
    """The function of the addresses of a state and of words, and their number. It keeps Python's lock while it runs, so
    that no other thread starts to draw meanwhile.

    Requires: a valid state, of `STATE_BYTES`; memory for the words.
    Errors: ImportError where there is no LLVM.
    """
    from cuesta.targets.cpu.jit import compile_module

    module = load_object(compile_module(module_text()), [SYMBOL])
    kind = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    function = kind(module.symbols[SYMBOL])
    function.module = module  # type: ignore[attr-defined]  # its memory lives as long
    return function
