"""Attention as a kernel that never stores the scores, at the level `kernel`: softmax(q · kᵀ · scale + mask) · v.

python -m tests.support.attention_kernels head=64 rows=128 tile=64 lanes=64 element=bf16 warps=8 > attention.mlir
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes and choices. `rows` queries and `tile` keys are done at a time; `lanes` is `head` rounded up."""

    heads: int = 2
    queries: int = 40
    keys: int = 40
    head: int = 16
    element: str = "f16"
    rows: int = 16
    tile: int = 16
    lanes: int = 16
    causal: bool = True
    bias: bool = False
    warps: int = 4
    stages: int = 2
    index: int = 32
    tf32: bool = True
    depth: int = 0
    """The lanes along which scores are summed; `lanes` if 0."""
    split: bool = False
    """Whether the tiles in which no score is masked come first, in a fold of their own."""
    all_there: bool = False
    """Whether all lanes are keys."""
    more: str = ""
    """More choices of the schedule, such as `, whole = 1`."""

    @property
    def scale(self) -> float:
        """What the scores are multiplied by."""
        return float(self.head) ** -0.5

    @property
    def tensors(self) -> tuple[str, ...]:
        """The types of q, k, v, and the bias where there is one."""
        heads, rest = self.heads, f"{self.head}x{self.element}"
        q, k = f"tensor<{heads}x{self.queries}x{rest}>", f"tensor<{heads}x{self.keys}x{rest}>"
        return (q, k, k, *([f"tensor<{heads}x{self.queries}x{self.keys}xf32>"] if self.bias else []))

    def scores(self, prefix: str) -> str:
        """The scores of a tile, after the loop over keys has begun; the last is `%PREFIXw`."""
        rows, tile, lanes, element = self.rows, self.tile, self.depth or self.lanes, self.element
        block = f"vector<{rows}x1x{tile}x"
        p = f"%{prefix}"
        left, right = f"vector<{rows}x1x1x{lanes}x{element}>", f"vector<1x1x{tile}x{lanes}x{element}>"
        tf32 = "tf32 " if element == "f32" and self.tf32 else ""
        text = f"""
{p}s = kernel.contract {tf32}(%e = 0 to {self.head} lanes {lanes} dim 3) {{
  %x = kernel.load %q[%h * {self.queries * self.head} + %i * {self.head} + %e] : {left}
  %y = kernel.load %k[%h * {self.keys * self.head} + %j * {self.head} + %e] : {right}
  kernel.factors %x, %y : {left}, {right}
}} : {block}f32>
{p}c = elem.constant {self.scale!r} : {block}f32>
{p}b = elem.mul {p}s, {p}c : {block}f32>"""
        if self.bias:
            text += f"""
{p}t = kernel.load %bias[%h * {self.queries * self.keys} + %i * {self.keys} + %j] : {block}f32>
{p}a = elem.add {p}b, {p}t : {block}f32>"""
        else:
            text = text.replace(f"{p}b = ", f"{p}a = ")
        if not self.causal:
            return text.replace(f"{p}a = ", f"{p}w = ")
        return f"""{text}
{p}jj = kernel.index [%j] : vector<1x1x{tile}xi64>
{p}ii = kernel.index [%i] : vector<{rows}xi64>
{p}jw = kernel.broadcast {p}jj : vector<1x1x{tile}xi64> to {block}i64>
{p}iw = kernel.broadcast {p}ii : vector<{rows}xi64> to {block}i64>
{p}le = elem.le {p}jw, {p}iw : {block}i64>
{p}no = elem.constant -inf : {block}f32>
{p}w = elem.select {p}le, {p}a, {p}no : {block}f32>"""

    def less(self, prefix: str) -> str:
        """exp(scores − maximum), after `scores`; the last is `%PREFIXg`."""
        block = f"vector<{self.rows}x1x{self.tile}xf32>"
        p = f"%{prefix}"
        return f"""
{p}mm = kernel.broadcast %m1 : vector<{self.rows}xf32> to {block}
{p}d = elem.sub {p}w, {p}mm : {block}
{p}g = elem.exp {p}d : {block}"""

    def fold(self, results: Sequence[str], initials: Sequence[str], bounds: str) -> str:
        """The tiles of keys from one to another: the maxima of rows, the sums, and what is accumulated."""
        rows, tile, lanes, element = self.rows, self.tile, self.lanes, self.element
        row, out = f"vector<{rows}xf32>", f"vector<{rows}x{lanes}xf32>"
        given = f"%mm : {row}, %ll : {row}, %aa : {out}"
        keys = f"%j = %c * {tile} to min(%c * {tile} + {tile}, {self.keys}) lanes {tile} dim 2"
        if self.keys % tile == 0 or self.all_there:
            keys = f"%j = %c * {tile} to %c * {tile} + {tile} lanes {tile} dim 2"
        narrow = element != "f32"
        left, right = f"vector<{rows}x1x{tile}x{element}>", f"vector<1x{lanes}x{tile}x{element}>"
        tf32 = "tf32 " if element == "f32" and self.tf32 else ""
        weight = f"%g = elem.convert %ug : vector<{rows}x1x{tile}xf32> to {left}" if narrow else ""
        g = "%g" if narrow else "%ug"
        return f"""
      {", ".join(results)} = kernel.fold (%c = {bounds}) from ({", ".join(initials)}) carries ({given}) {{
        %t = kernel.reduce maximum ({keys}) {{{self.scores("t")}
          kernel.yield %tw : vector<{rows}x1x{tile}xf32>
        }} : {row}
        %m1 = elem.maximum %mm, %t : {row}
        %df = elem.sub %mm, %m1 : {row}
        %f = elem.exp %df : {row}
        %r = kernel.reduce sum ({keys}) {{{self.scores("r")}{self.less("r")}
          kernel.yield %rg : vector<{rows}x1x{tile}xf32>
        }} : {row}
        %u = kernel.contract {tf32}({keys}) {{{self.scores("u")}{self.less("u")}
          {weight}
          %z = kernel.load %v[%h * {self.keys * self.head} + %j * {self.head} + %d] : {right}
          kernel.factors {g}, %z : {left}, {right}
        }} : {out}
        %lf = elem.mul %ll, %f : {row}
        %l1 = elem.add %lf, %r : {row}
        %fw = kernel.broadcast %f : {row} to {out}
        %af = elem.mul %aa, %fw : {out}
        %a1 = elem.add %af, %u : {out}
        kernel.carry %m1, %l1, %a1 : {row}, {row}, {out}
      }} : {row}, {row}, {out}"""

    @property
    def kernel(self) -> str:
        """The kernel `@attention_0`."""
        rows, tile, lanes, element = self.rows, self.tile, self.lanes, self.element
        row, out = f"vector<{rows}xf32>", f"vector<{rows}x{lanes}xf32>"
        result_block = f"vector<{rows}x{lanes}x{element}>"
        queries = f"%i = %p * {rows} to min(%p * {rows} + {rows}, {self.queries}) lanes {rows}"
        if self.queries % rows == 0:
            queries = f"%i = %p * {rows} to %p * {rows} + {rows} lanes {rows}"
        last = -(-self.keys // tile)
        blocks = f"min({last}, (%p * {rows} + {rows - 1}) floordiv {tile} + 1)" if self.causal else f"{last}"
        narrow = element != "f32"
        folds = self.fold(("%m", "%l", "%a"), ("%m0", "%l0", "%a0"), f"0 to {blocks}")
        if self.split and self.causal:
            whole = f"min({self.keys // tile}, (%p * {rows} + 1) floordiv {tile})"
            early = replace(self, causal=False, all_there=True)
            folds = early.fold(("%m2", "%l2", "%a2"), ("%m0", "%l0", "%a0"), f"0 to {whole}")
            folds += self.fold(("%m", "%l", "%a"), ("%m2", "%l2", "%a2"), f"{whole} to {blocks}")
        end, result = "", "%n"
        if narrow:
            end, result = f"%z = elem.convert %n : {out} to {result_block}", "%z"
        pointers = ["%q", "%k", "%v", *(["%bias"] if self.bias else [])]
        elements = [element] * 3 + ["f32"]
        inputs = ", ".join(f"{one} : !kernel.ptr<{kind}>" for one, kind in zip(pointers, elements, strict=False))
        choices = f"target = cuda, warps = {self.warps}, stages = {self.stages}, index = {self.index}{self.more}"
        grid = f"[{self.heads}, {-(-self.queries // rows)}]"
        schedule = f"#kernel.schedule<grid = {grid}, {choices}>"
        return f"""
kernel.func @attention_0({inputs}) outs(%o : !kernel.ptr<{element}>) schedule {schedule} {{
  %h = kernel.program_id 0
  %p = kernel.program_id 1
  kernel.for ({queries}) {{
    kernel.for (%d = 0 to {self.head} lanes {lanes} dim 1) {{
      %m0 = elem.constant -inf : {row}
      %l0 = elem.constant 0.0 : {row}
      %a0 = elem.constant 0.0 : {out}
{folds}
      %lw = kernel.broadcast %l : {row} to {out}
      %n = elem.div %a, %lw : {out}
      {end}
      kernel.store {result}, %o[%h * {self.queries * self.head} + %i * {self.head} + %d] : {result_block}
    }}
  }}
}}"""

    @property
    def program(self) -> str:
        """The kernel, and the `@main` that launches it."""
        names = ["%q", "%k", "%v", *(["%bias"] if self.bias else [])]
        arguments = ", ".join(f"{name} : {one}" for name, one in zip(names, self.tensors, strict=True))
        out = self.tensors[0]
        return f"""{self.kernel}
func.func @main({arguments}) -> {out} {{
  %o = kernel.launch @attention_0({", ".join(names)}) : ({", ".join(self.tensors)}) -> ({out})
  func.return %o : {out}
}}"""


def gradients(case: Attention) -> str:
    """The program of the gradients of k and v, which recomputes the scores: of q, k, v, the gradient of the result, the
    log Σ exp of rows of scores, and the sums over a row of the gradient times the result. No bias.
    """
    rows, tile, lanes, element = case.rows, case.tile, case.lanes, case.element
    out, right = f"vector<{tile}x{lanes}x", f"vector<1x{lanes}x{rows}x{element}>"
    block, own = f"vector<{tile}x1x{rows}x", f"vector<1x1x{rows}x"
    along_keys, along_queries = f"vector<{tile}x1x1x{lanes}x{element}>", f"vector<1x1x{rows}x{lanes}x{element}>"
    size = case.keys * case.head
    stored = f"{out}{element}>"
    tf32 = "tf32 " if element == "f32" and case.tf32 else ""
    queries = f"%i = %c * {rows} to min(%c * {rows} + {rows}, {case.queries}) lanes {rows} dim 2"
    keys = f"%j = %p * {tile} to min(%p * {tile} + {tile}, {case.keys}) lanes {tile}"
    narrow = element != "f32"

    def product(name: str, left: str, of: str) -> str:
        return f"""
%{name} = kernel.contract {tf32}(%e = 0 to {case.head} lanes {lanes} dim 3) {{
  %x = kernel.load %{left}[%h * {case.keys * case.head} + %j * {case.head} + %e] : {along_keys}
  %y = kernel.load %{of}[%h * {case.queries * case.head} + %i * {case.head} + %e] : {along_queries}
  kernel.factors %x, %y : {along_keys}, {along_queries}
}} : {block}f32>"""

    def of_queries(name: str, source: str) -> str:
        return f"""
%{name}0 = kernel.load %{source}[%h * {case.queries} + %i] : {own}f32>
%{name} = kernel.broadcast %{name}0 : {own}f32> to {block}f32>"""

    def factors(value: str, of: str) -> str:
        narrowed = f"%n = elem.convert %{value} : {block}f32> to {block}{element}>" if narrow else ""
        return f"""
{narrowed}
%z = kernel.load %{of}[%h * {case.queries * case.head} + %i * {case.head} + %d] : {right}
kernel.factors %{"n" if narrow else value}, %z : {block}{element}>, {right}"""

    weights = f"""{product("s", "k", "q")}
%f = elem.constant {case.scale!r} : {block}f32>
%a = elem.mul %s, %f : {block}f32>{of_queries("l", "lse")}
%b = elem.sub %a, %l : {block}f32>
%w0 = elem.exp %b : {block}f32>"""
    weights += (
        f"""
%jj = kernel.index [%j] : vector<{tile}xi64>
%ii = kernel.index [%i] : {own}i64>
%jw = kernel.broadcast %jj : vector<{tile}xi64> to {block}i64>
%iw = kernel.broadcast %ii : {own}i64> to {block}i64>
%le = elem.le %jw, %iw : {block}i64>
%no = elem.constant 0.0 : {block}f32>
%w = elem.select %le, %w0, %no : {block}f32>"""
        if case.causal
        else ""
    )
    weights = weights if case.causal else weights.replace("%w0", "%w")
    first = f"(%p * {tile}) floordiv {rows}" if case.causal else "0"
    finish = "".join(
        f"""
{f"%r{name} = elem.convert %{name} : {out}f32> to {out}{element}>" if narrow else ""}
kernel.store %{f"r{name}" if narrow else name}, %{to}[%h * {size} + %j * {case.head} + %d] : {stored}"""
        for name, to in (("gk", "dk"), ("gv", "dv"))
    )
    types = [*case.tensors, case.tensors[0], *[f"tensor<{case.heads}x{case.queries}xf32>"] * 2]
    names = ["q", "k", "v", "g", "lse", "delta"]
    inputs = ", ".join(f"%{name} : !kernel.ptr<{element if len(name) == 1 else 'f32'}>" for name in names)
    schedule = f"grid = [{case.heads}, {-(-case.keys // tile)}], target = cuda, warps = {case.warps}"
    schedule += f", stages = {case.stages}, index = {case.index}"
    given = ", ".join(f"%{name} : {one}" for name, one in zip(names, types, strict=True))
    return f"""
kernel.func @gradients_0({inputs}) outs(%dk : !kernel.ptr<{element}>, %dv : !kernel.ptr<{element}>)
    schedule #kernel.schedule<{schedule}> {{
  %h = kernel.program_id 0
  %p = kernel.program_id 1
  kernel.for ({keys}) {{
    kernel.for (%d = 0 to {case.head} lanes {lanes} dim 1) {{
      %none = elem.constant 0.0 : {out}f32>
      %gk, %gv = kernel.fold (%c = {first} to {-(-case.queries // rows)}) from (%none, %none)
          carries (%ak : {out}f32>, %av : {out}f32>) {{
        %u = kernel.contract {tf32}({queries}) {{{weights}{factors("w", "g")}
        }} : {out}f32>
        %bv = elem.add %av, %u : {out}f32>
        %t = kernel.contract {tf32}({queries}) {{{weights}{product("dp", "v", "g")}{of_queries("m", "delta")}
          %dd = elem.sub %dp, %m : {block}f32>
          %ds = elem.mul %w, %dd : {block}f32>
          %dt = elem.mul %ds, %f : {block}f32>{factors("dt", "q")}
        }} : {out}f32>
        %bk = elem.add %ak, %t : {out}f32>
        kernel.carry %bk, %bv : {out}f32>, {out}f32>
      }} : {out}f32>, {out}f32>{finish}
    }}
  }}
}}
func.func @main({given}) -> ({types[1]}, {types[1]}) {{
  %dk, %dv = kernel.launch @gradients_0({", ".join(f"%{name}" for name in names)}) : ({", ".join(types)})
      -> ({types[1]}, {types[1]})
  func.return %dk, %dv : {types[1]}, {types[1]}
}}"""


def main(arguments: list[str]) -> None:
    """Prints the program of choices such as `rows=128`. Errors: SystemExit for any other."""
    names = {one.name for one in fields(Attention)}
    choices = {name: value for name, _, value in (one.partition("=") for one in arguments)}
    if not choices.keys() <= names or not all(value.isalnum() for value in choices.values()):
        raise SystemExit(f"choices are NAME=VALUE, of {', '.join(sorted(names))}")
    given = {name: int(value) if value.isdecimal() else value for name, value in choices.items()}
    print(Attention(**given).program)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1:])


__all__ = ["Attention", "gradients", "main"]
