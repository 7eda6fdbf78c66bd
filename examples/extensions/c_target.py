"""A target: the kernels of the CPU as plain C, through the machine's `cc`.

    torch.compile(model, backend="cuesta", options={"extensions": [extension]})

A kernel becomes a function, with loops for the grid. Lanes are points of a loop like any others, so a vector is a
scalar here; what becomes of the loops is the C compiler's business. What has no spelling is refused by name: that
kernel runs through the interpreter, with a warning, and the rest as C.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from cuesta.extend import BoundSite, Extension, LibraryTarget, Run, elem, fail, identity, kernel, sym

TYPES = {"f16": "_Float16", "f32": "float", "f64": "double", "i1": "bool", "index": "int64_t"}
TYPES |= {f"{sign}i{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)}

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "trunc_div": "/", "and": "&", "or": "|", "xor": "^"}
INFIX |= {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "shl": "<<", "shr": ">>"}
UNARY = "floor ceil trunc sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh"
SPELLINGS = {name: f"{{a}} {sign} {{b}}" for name, sign in INFIX.items()}
SPELLINGS |= {name: f"{name}{{f}}({{a}})" for name in (*UNARY.split(), "acosh", "atanh", "erf", "erfc")}
SPELLINGS |= {name: f"{name}{{f}}({{a}}, {{b}})" for name in ("copysign", "pow", "atan2", "fmod")}
SPELLINGS |= {"fmod i": "{a} % {b}", "fmod u": "{a} % {b}", "round": "rint{f}({a})", "rsqrt": "1 / sqrt{f}({a})"}
SPELLINGS |= {"abs f": "fabs{f}({a})", "abs": "{a} < 0 ? -{a} : {a}", "neg": "-{a}", "not b": "!{a}", "not": "~{a}"}
SPELLINGS |= {"maximum": "{a} > {b} || {a} != {a} ? {a} : {b}", "minimum": "{a} < {b} || {a} != {a} ? {a} : {b}"}
SPELLINGS |= {"sigmoid": "1 / (1 + exp{f}(-{a}))"}
"""By the op's name, and where kinds of operands differ by `name kind`. `{f}` is what functions of a float end in."""

UPDATES = {"sum": "{a} += {v}", "prod": "{a} *= {v}", "any": "{a} |= {v}", "all": "{a} &= {v}"}
UPDATES |= {"maximum": "if ({v} > {a} || {v} != {v}) {a} = {v}", "minimum": "if ({v} < {a} || {v} != {v}) {a} = {v}"}
UPDATES |= {"assign": "{a} = {v}", "assign_any": "{a} = {v}"}
UPDATES |= {"argmax": "if ({v} > {a} || {v} != {v} && {a} == {a}) {a} = {v}, {i} = {n}"}
UPDATES |= {"argmin": "if ({v} < {a} || {v} != {v} && {a} == {a}) {a} = {v}, {i} = {n}"}
UPDATES |= {"argmax_last_nan": "if ({v} > {a} || {v} != {v}) {a} = {v}, {i} = {n}"}
UPDATES |= {"welford": "double d = {v} - {a}; {a} += d / ({n} + 1), {d} += d * ({v} - {a})"}
"""What value `v`, the `n`-th, does to an element, or to what a reduction has come to: `a`, also `i` or `d`."""

VALUES = {
    "bound": lambda e, op: f"bound(error, {e.site(op)}, {e.given(op)[0]}, {e.index(op.size)}, {op.wrap:d})",
    "broadcast": lambda e, op: e.given(op)[0],
    "constant": lambda e, op: e.literal(op.value, op.result),
    "convert": lambda e, op: f"{e.given(op)[0]}{' != 0' * (elem.kind_of(op.results[0].type) == 'b')}",
    "index": lambda e, op: e.index(op.offset, op.indices),
    "load": lambda e, op: (f"!{e.names[op.mask]} ? {e.names[op.other]} : " if op.mask else "") + e.place(op),
    "program_id": lambda e, op: f"p{op.axis}",
    "select": lambda e, op: "{} ? {} : {}".format(*e.given(op)),
}
"""Ops with one result, as expressions: of the emitter of the kernel, and the op."""

PRELUDE = """#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>
#define inf INFINITY
#define nan NAN
#define least(a, b) ((a) < (b) ? (a) : (b))\n#define greatest(a, b) ((a) > (b) ? (a) : (b))
static inline int64_t floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
static inline int64_t mod(int64_t a, int64_t b) { return a - b * floordiv(a, b); }
static inline int64_t bound(int64_t *error, int64_t site, int64_t given, int64_t size, bool wrap) {
  int64_t v = wrap && given < 0 ? given + size : given, bad = v < 0 || v >= size;
  if (bad && !error[0]) error[0] = site, error[1] = given, error[2] = size;
  return bad ? 0 : v;
}
static int64_t hand_out(const int64_t *error) {
  int64_t *copy = malloc(24);
  for (int k = 0; copy && k < 3; k++) copy[k] = error[k];
  return copy ? (int64_t)copy : -1;
}"""


class _Text(str):
    """C as a number: index expressions are evaluated on it."""


_FORMS = {"add": "({} + {})", "mul": "({} * {})", "floordiv": "floordiv({}, {})", "mod": "mod({}, {})"}
for _name, _form in _FORMS.items():
    setattr(_Text, f"__{_name}__", lambda a, b, form=_form: _Text(form.format(a, b)))
    setattr(_Text, f"__r{_name}__", lambda a, b, form=_form: _Text(form.format(b, a)))


class _Emitter:
    """Writes one kernel. A method `op_NAME` writes the op of that name, where VALUES and SPELLINGS have none."""

    def __init__(self, func: kernel.FuncOp, sites: list[BoundSite]) -> None:
        self.func, self.sites, self.names = func, sites, dict[Any, _Text]()
        pointers = [f"{self.type(cast('Any', p.type).element_type)} *{self.name(p)}" for p in func.body.args]
        symbols = [f"int64_t {symbol}" for symbol in func.symbols]
        self.lines = [f"static void k_{func.sym_name}({', '.join(['int64_t *error', *pointers, *symbols])}) {{"]
        for axis, size in enumerate(func.schedule.grid):
            self.lines.append(f"for (int64_t p{axis} = 0; p{axis} < {self.index(size)}; p{axis}++) {{")
        self.block(func.body)
        self.lines.append("}" * (len(func.schedule.grid) + 1))

    def block(self, block: Any) -> None:
        for op in block.ops:
            name = op.name.partition(".")[2]
            if hasattr(self, f"op_{name}"):
                getattr(self, f"op_{name}")(op)
                continue
            kind = elem.kind_of(op.operands[0].type) if op.operands else ""
            spelling = SPELLINGS.get(f"{name} {kind}", SPELLINGS.get(name))
            if spelling is None:
                text = VALUES[name](self, op) if name in VALUES else fail(op, "has no spelling in C here")
            else:
                a, b = [*self.given(op), ""][:2]
                text = spelling.format(a=a, b=b, f="" if self.type(op.operands[0].type) == "double" else "f")
            self.define(op.results[0], text)

    def type(self, value_type: Any) -> str:
        scalar = elem.scalar_of(value_type)
        return TYPES.get(str(scalar)) or fail(self.func, f"C has no type for {scalar} here")

    def name(self, value: Any) -> _Text:
        return self.names.setdefault(value, _Text(f"v{len(self.names)}"))

    def given(self, op: Any) -> list[_Text]:
        return [self.names[operand] for operand in op.operands]

    def define(self, value: Any, text: object) -> None:
        self.lines.append(f"{self.type(value.type)} {self.name(value)} = {text};")

    def index(self, expression: Any, operands: Sequence[Any] = ()) -> str:
        symbols = {symbol: _Text(symbol) for symbol in self.func.symbols}
        least, most = (lambda a, b, f=f: _Text(f"{f}({a}, {b})") for f in ("least", "greatest"))
        dims = [self.names[operand] for operand in operands]
        return str(sym.evaluate(expression, dims, symbols, minimum=least, maximum=most))

    def literal(self, value: float, of: Any) -> str:
        return f"({self.type(of.type)}){value.hex() if isinstance(value, float) else f'{value}LL'}"

    def site(self, op: Any) -> str:
        self.sites.append(BoundSite.of(op))
        return f"FIRST_SITE + {len(self.sites)}"

    def place(self, op: Any) -> str:
        return f"{self.names[op.pointer]}[{self.index(op.offset, op.indices)}]"

    def op_local(self, op: Any) -> None:
        self.lines.append(f"{self.type(op.result.type.element_type)} {self.name(op.result)}[{op.size + 1}];")

    def op_store(self, op: Any) -> None:
        mask, kind = f"if ({self.names[op.mask]}) " if op.mask else "", getattr(op, "kind", "assign")
        self.lines.append(f"{mask}{{ {UPDATES[kind].format(a=self.place(op), v=self.names[op.value])}; }}")

    def op_for(self, op: Any) -> None:
        for running in op.body.ops:
            if isinstance(running, kernel.RunningOp):
                self.begin(running, running.value)
        for axis, variable in enumerate(op.induction_variables):
            low, high = (self.index(bound.results[axis], op.operands) for bound in (op.lowers, op.uppers))
            i = self.name(variable)
            self.lines.append(f"for (int64_t {i} = {low}; {i} < {high}; {i}++) {{")
        self.block(op.body)
        self.lines.append("}" * len(op.induction_variables))

    def op_reduce(self, op: Any) -> None:
        self.begin(op, op.yielded)
        self.op_for(op)
        self.end(op)

    def begin(self, op: Any, value: Any) -> None:
        """Declares what a reduction comes to. Floats are summed in f64."""
        if op.kind not in UPDATES:
            fail(op, f"the kind {op.kind} has no spelling in C here")
        wide = elem.kind_of(value.type) == "f" and op.kind in ("sum", "prod", "welford")
        kind = {"max": "maximum", "min": "minimum", "wel": "sum"}.get(op.kind.removeprefix("arg")[:3], op.kind)
        first = self.literal(identity(kind, elem.scalar_of(value.type)), value)
        name, held = self.name(op.results[0]), "double" if wide else self.type(value.type)
        self.lines.append(f"{held} {name}_a = {first}, {name}_d = 0; int64_t {name}_i = 0, {name}_n = 0;")

    def op_yield(self, op: Any) -> None:
        """One more point. They come in row-major order, so their number is the linear index."""
        of = op if op.results else op.parent_op()
        state = {letter: f"{self.names[of.results[0]]}_{letter}" for letter in "adin"}
        self.lines.append("{ " + (UPDATES[of.kind] + "; {n}++; }}").format(v=self.given(op)[0], **state))
        if op.results:
            self.end(op)

    def end(self, op: Any) -> None:
        for result, letter in zip(op.results, "ad" if op.kind == "welford" else "ai", strict=False):
            self.define(result, f"{self.name(op.results[0])}_{letter}")

    op_combine, op_scan, op_running = op_store, op_for, op_yield


class _CTarget(LibraryTarget):
    """Plain C for the CPU."""

    name, devices, suffix = "c", ("cpu",), ".c"
    command = "cc -shared -fPIC -O3 -march=native -fwrapv -fno-math-errno -ffp-contract=off -w -x c - -o {out} -lm"

    def kernel_text(self, func: kernel.FuncOp, sites: list[BoundSite]) -> str:
        return "\n".join(_Emitter(func, sites).lines)

    def run_text(self, run: Run, kernels: Mapping[str, kernel.FuncOp]) -> str:
        lines = [f"int64_t {run.name}({', '.join(f'int64_t {name}' for name in run.parameters)}) {{"]
        lines.append("int64_t error[3] = {0};  // of this call alone: other threads call the run, too")
        for one in run.launches:
            given = [f"(void *)({run.parameters[place]} + {offset})" for place, offset in one.pointers]
            lines.append(f"k_{one.kernel}({', '.join(['error', *given, *kernels[one.kernel].symbols])});")
            lines.append("if (error[0]) return hand_out(error);")
        return "\n".join([*lines, "return 0;\n}"])

    def program_text(self, texts: Sequence[str], first_site: int) -> str:
        return "\n".join([PRELUDE, f"enum {{ FIRST_SITE = {first_site} }};", *texts])


extension = Extension("c", targets=[_CTarget()])

if __name__ == "__main__":
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128))
    options: dict = {"extensions": [extension]}
    x = torch.randn(8, 64)
    print((torch.compile(model, backend="cuesta", options=options)(x) - model(x)).abs().max())
