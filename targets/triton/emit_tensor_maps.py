"""Tensor descriptors of launches, as LLVM text: each call of a run makes those of its launches, from the addresses.

A descriptor is 128 bytes, a parameter of a kernel like any other: the driver copies it when it launches, and so does a
CUDA graph that records the launch. It takes a fraction of what a launch takes. An address that is no multiple of 16
bytes has none, and the launch is done by other code (`emit_launches.py`).

`@cuesta.encode` is the address of `cuTensorMapEncodeTiled`, written when the object code is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cuesta.dialects.kernel.descriptors import Descriptor
from cuesta.targets.program import ENCODE_SYMBOL, POINTER_ALIGNMENT, inner_box, swizzle_of

MAP_WORDS, ALIGNED_WORDS = 16, 8
"""Words of 8 bytes that a descriptor has, and that its address is a multiple of.

Source: a definition (CUDA): `CUtensorMap`.
"""
_TYPES = {8: 0, 16: 1, 32: 2}
"""By bits, the driver's types of elements: unsigned integers. What is copied is bits."""
_PROMOTION = 2
"""How much the second-level cache reads at least: 128 bytes, as the driver counts.

Source: what Triton's own launcher asks for.
"""

_RUNTIME = f"""\
; An element's type, the dimensions, the swizzle; sizes from the innermost on; bytes between all but the innermost; the
; tile that one copy takes.
%cuesta.tensor = type {{ i32, i32, i32, [3 x i64], [2 x i64], [3 x i32] }}
@{ENCODE_SYMBOL} = dso_local global ptr null
@cuesta.ones = internal constant [3 x i32] [i32 1, i32 1, i32 1], align 4

define internal i64 @cuesta.describe(ptr %map, i64 %address, ptr %tensor) {{
  %low = and i64 %address, {POINTER_ALIGNMENT - 1}
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %make, label %none
none:
  ret i64 0
make:
  %type = load i32, ptr %tensor, align 8
  %rank.p = getelementptr inbounds %cuesta.tensor, ptr %tensor, i64 0, i32 1
  %rank = load i32, ptr %rank.p, align 4
  %swizzle.p = getelementptr inbounds %cuesta.tensor, ptr %tensor, i64 0, i32 2
  %swizzle = load i32, ptr %swizzle.p, align 4
  %sizes = getelementptr inbounds %cuesta.tensor, ptr %tensor, i64 0, i32 3
  %strides = getelementptr inbounds %cuesta.tensor, ptr %tensor, i64 0, i32 4
  %box = getelementptr inbounds %cuesta.tensor, ptr %tensor, i64 0, i32 5
  %where = inttoptr i64 %address to ptr
  %call = load ptr, ptr @{ENCODE_SYMBOL}, align 8
  %error = call i32 %call(ptr %map, i32 %type, i32 %rank, ptr %where, ptr %sizes, ptr %strides, ptr %box, \
ptr @cuesta.ones, i32 0, i32 %swizzle, i32 {_PROMOTION}, i32 0)
  %wide = zext i32 %error to i64
  ret i64 %wide
}}
"""


@dataclass
class Maps:
    """The descriptors of a program's launches, so far."""

    numbers: dict[Descriptor, int] = field(default_factory=dict[Descriptor, int])
    calls: int = 0

    def call(self, launch: int, address: str, place: int, one: Descriptor) -> str:
        """The text that makes a descriptor of what lies at an address, at a place among the values of a run; where that
        cannot be done, the run stops at the launch.
        """
        number, self.calls = self.numbers.setdefault(one, len(self.numbers)), self.calls + 1
        at, offset = f"%d{self.calls}", one.offset * one.bits // 8
        return f"""\
{at}.p = getelementptr inbounds i64, ptr %values, i64 {place}
  {at}.a = add i64 {address}, {offset}
  {at}.e = call i64 @cuesta.describe(ptr {at}.p, i64 {at}.a, ptr @cuesta.tensor.{number})
  {at}.b = icmp ne i64 {at}.e, 0
  br i1 {at}.b, label {at}.stop, label {at}.go
{at[1:]}.stop:
  {at}.t = or i64 {at}.e, {launch << 32}
  ret i64 {at}.t
{at[1:]}.go:"""

    def text(self) -> str:
        """What the calls need; nothing where there are none."""
        if not self.numbers:
            return ""
        return "\n".join([_RUNTIME, *(_constant(one, number) for one, number in self.numbers.items())])


def _constant(one: Descriptor, number: int) -> str:
    size = one.bits // 8

    def row(kind: str, numbers: list[int], count: int) -> str:
        every = [*numbers, *[1] * (count - len(numbers))]
        return f"[{count} x {kind}] [{', '.join(f'{kind} {each}' for each in every)}]"

    box = [*one.box[:-1], inner_box(one.box[-1], size)]
    fields = [
        *(f"i32 {each}" for each in (_TYPES[one.bits], len(one.sizes), swizzle_of(one.box[-1], size))),
        row("i64", list(one.sizes[::-1]), 3),
        row("i64", [stride * size for stride in one.strides[::-1]], 2),
        row("i32", box[::-1], 3),
    ]
    return f"@cuesta.tensor.{number} = internal constant %cuesta.tensor {{ {', '.join(fields)} }}, align 8\n"


__all__ = ["ALIGNED_WORDS", "MAP_WORDS", "Maps"]
