"""Functions of integers for compiled code, as LLVM IR text on any number of lanes."""

from __future__ import annotations

import functools

from cuesta.targets.cpu.vector_math import MathFunction
from cuesta.targets.cpu.vector_text import vector_type


@functools.cache
def gcd(dtype: str, lanes: int, *, signed: bool) -> MathFunction:
    """The greatest common divisor in lanes of an integer type (`i64`).

    Stein's: of two odd numbers the lesser, and their difference without its factors of two, until it is 0 in all lanes.
    No step divides, and there are no more of them than two numbers have bits.
    """
    kind, boolean = vector_type(dtype, lanes), vector_type("i1", lanes)
    width, suffix = int(dtype[1:]), dtype if lanes == 1 else f"v{lanes}{dtype}"
    last = str(width - 1) if lanes == 1 else f"splat ({dtype} {width - 1})"
    symbol = f"@cuesta.gcd.{'' if signed else 'u'}{dtype}x{lanes}"
    zeros, lesser, greater = (f"@llvm.{name}.{suffix}" for name in ("cttz", "umin", "umax"))
    declarations = {
        f"declare {kind} {zeros}({kind}, i1 immarg)",
        *(f"declare {kind} {name}({kind}, {kind})" for name in (lesser, greater)),
    }
    any_of = "  %go = or i1 %rest, false"
    if lanes > 1:
        reduction = f"@llvm.vector.reduce.or.v{lanes}i1"
        declarations.add(f"declare i1 {reduction}({boolean})")
        any_of = f"  %go = call i1 {reduction}({boolean} %rest)"

    if signed:
        declarations.add(f"declare {kind} @llvm.abs.{suffix}({kind}, i1 immarg)")
    size = f"call {kind} @llvm.abs.{suffix}({kind} {{}}, i1 false)" if signed else f"or {kind} {{}}, zeroinitializer"

    def odd(result: str, value: str) -> str:
        """A number without its factors of two; 0 has none."""
        return (
            f"  {result}.z = call {kind} {zeros}({kind} {value}, i1 false)\n"
            f"  {result}.s = and {kind} {result}.z, {last}\n"
            f"  {result} = lshr {kind} {value}, {result}.s"
        )

    definition = f"""\
define private {kind} {symbol}({kind} %p, {kind} %q) alwaysinline nounwind {{
entry:
  %x = {size.format("%p")}
  %y = {size.format("%q")}
  %both = or {kind} %x, %y
  %shared.z = call {kind} {zeros}({kind} %both, i1 false)
  %shared = and {kind} %shared.z, {last}
  %none = icmp eq {kind} %x, zeroinitializer
  %first = select {boolean} %none, {kind} %y, {kind} %x
  %second = select {boolean} %none, {kind} zeroinitializer, {kind} %y
{odd("%start", "%first")}
  br label %step
step:
  %a = phi {kind} [ %start, %entry ], [ %a.next, %step ]
  %b = phi {kind} [ %second, %entry ], [ %b.next, %step ]
{odd("%c", "%b")}
  %low = call {kind} {lesser}({kind} %a, {kind} %c)
  %high = call {kind} {greater}({kind} %a, {kind} %c)
  %apart = sub {kind} %high, %low
  %done = icmp eq {kind} %b, zeroinitializer
  %a.next = select {boolean} %done, {kind} %a, {kind} %low
  %b.next = select {boolean} %done, {kind} zeroinitializer, {kind} %apart
  %rest = icmp ne {kind} %b.next, zeroinitializer
{any_of}
  br i1 %go, label %step, label %end
end:
  %result = shl {kind} %a.next, %shared
  ret {kind} %result
}}
"""
    return MathFunction(symbol, definition, frozenset(declarations), frozenset())
