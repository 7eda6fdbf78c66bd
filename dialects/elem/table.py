"""The table of elementwise scalar operations: one row says everything about one op.

A row gives the type rule, PyTorch's meaning as a torch expression (used by the reference interpreter), the Triton
spelling, the LLVM spelling per operand kind, and an accuracy bound. Adding a scalar op is one row here and one test.

Operand kinds are one letter each: ``f`` floating point, ``i`` signed integer, ``u`` unsigned integer, ``b`` bool (i1).

LLVM spellings are templates over ``{r}`` (result name; ``{r}.x`` may be used for temporaries), ``{a}``, ``{b}`` and
``{c}`` (operand names), ``{t}`` (the LLVM type, scalar or vector), ``{m}`` (its bool type), ``{s}`` (the suffix of an
intrinsic, such as ``v8f32``), ``{zero}``, ``{one}`` and ``{ones}`` (constants of the type; the last has all bits set).
A spelling ``math:NAME`` calls the CPU target's vector math function of that name.

Triton spellings are templates over ``{a}``, ``{b}`` and ``{c}``; where kinds differ they are given by kind, ``d`` for
f64 where that differs from ``f``. What is narrower than f32 is computed in f32. They must be as accurate as the row
says: ``libdevice`` where Triton's own function is a quick approximation, ``div_rn`` where its ``/`` is one.

``approximations`` are cheaper Triton spellings, for results that are only ever rounded to a narrower type: the key is
that type. `transforms/accuracy/relax_accuracy.py` marks the ops that may use them. The key ``weight`` is for
exponentials of what lies below the greatest of a row, or below its sum: `transforms/products/shorten_walks.py` marks
those.

An extension adds rows of its own (`dialects/core/extension.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from cuesta.dialects.core.structs import struct


@struct
class Approximation:
    """A cheaper spelling of a function of f32.

    ``error`` bounds the relative error of a normal result; one that is denormal may be off by that much of the least
    normal number, and by a unit; a denormal ``weight`` may be 0. Zeros, infinities and NaN come out where the exact
    function has them.
    """

    triton: str
    error: float


@struct
class Row:
    """One elementwise op.

    ``result`` is ``same`` (the operand type) or ``bool`` (i1, or a vector of it).
    ``ulp`` bounds the error in units in the last place for f32 operands; 0 means exact or correctly rounded.
    """

    name: str
    arity: int
    kinds: str
    reference: str
    triton: str | Mapping[str, str]
    llvm: Mapping[str, str] = field(default_factory=dict[str, str])
    result: str = "same"
    ulp: float = 0.0
    commutes: bool = False
    approximations: Mapping[str, Approximation] = field(default_factory=dict[str, Approximation])

    def __hash__(self) -> int:
        return hash(self.name)


def _approximately(error: float, triton: str) -> dict[str, Approximation]:
    """One approximation that is good enough for bf16 and for f16."""
    return dict.fromkeys(("bf16", "f16"), Approximation(triton, error))


def _weight(error: float, triton: str) -> dict[str, Approximation]:
    """One approximation of a weight (`transforms/products/shorten_walks.py`)."""
    return {"weight": Approximation(triton, error)}


def _float(
    name: str,
    reference: str | None = None,
    triton: str | Mapping[str, str] | None = None,
    llvm: str | None = None,
    ulp: float = 0.0,
    approximations: Mapping[str, Approximation] | None = None,
) -> Row:
    """A function of one floating-point operand; without an LLVM spelling it is a vector math function."""
    return Row(
        name,
        1,
        "f",
        reference or f"torch.{name}(a)",
        triton or f"libdevice.{name}({{a}})",
        {"f": llvm or f"math:{name}"},
        ulp=ulp,
        approximations=approximations or {},
    )


def _compare(name: str, symbol: str, float_predicate: str, signed: str, unsigned: str) -> Row:
    # IEEE comparisons with NaN are false, except ne, which is true: the predicates are ordered except `une`.
    spellings = {
        "f": f"{{r}} = fcmp {float_predicate} {{t}} {{a}}, {{b}}",
        "i": f"{{r}} = icmp {signed} {{t}} {{a}}, {{b}}",
        "u": f"{{r}} = icmp {unsigned} {{t}} {{a}}, {{b}}",
        "b": f"{{r}} = icmp {unsigned} {{t}} {{a}}, {{b}}",
    }
    return Row(
        name, 2, "fiub", f"a {symbol} b", f"{{a}} {symbol} {{b}}", spellings, "bool", commutes=name in ("eq", "ne")
    )


def _intrinsic(name: str, operands: int = 1) -> str:
    arguments = ", ".join(f"{{t}} {{{letter}}}" for letter in "ab"[:operands])
    return f"{{r}} = call {{t}} @llvm.{name}.{{s}}({arguments})"


def _arithmetic(name: str, symbol: str, *, commutes: bool = False) -> Row:
    spellings = {"f": f"{{r}} = f{name} {{t}} {{a}}, {{b}}", **_same(f"{{r}} = {name} {{t}} {{a}}, {{b}}", "iu")}
    return Row(name, 2, "fiu", f"a {symbol} b", f"{{a}} {symbol} {{b}}", spellings, commutes=commutes)


def _extreme(name: str, kind: str, on_bools: str) -> Row:
    """maximum and minimum: NaN when an operand is NaN."""
    # Three instructions with AVX-512. Where an operand is NaN the first line gives poison, which is not chosen then.
    floating = (
        f"{{r}}.e = call nnan nsz {{t}} @llvm.{kind}num.{{s}}({{t}} {{a}}, {{t}} {{b}})\n"
        "{r}.n = fcmp uno {t} {a}, {b}\n"
        "{r}.s = fadd {t} {a}, {b}\n"
        "{r} = select {m} {r}.n, {t} {r}.s, {t} {r}.e"
    )
    spellings = {
        "f": floating,
        "i": _intrinsic(f"s{kind}", 2),
        "u": _intrinsic(f"u{kind}", 2),
        "b": f"{{r}} = {on_bools} {{t}} {{a}}, {{b}}",
    }
    bools = {"or": "{a} | {b}", "and": "{a} & {b}"}[on_bools]
    triton = {**_same(f"tl.{name}({{a}}, {{b}}, tl.PropagateNan.ALL)", "fiu"), "b": bools}
    return Row(name, 2, "fiub", f"torch.{name}(a, b)", triton, spellings, commutes=True)


def _same(template: str, kinds: str) -> dict[str, str]:
    return dict.fromkeys(kinds, template)


_ROWS = (
    # Arithmetic. Integers wrap. `div` is true division, floats only: correctly rounded, but for a dividend below 2^-100
    # over a divisor that a loop does not change (`targets/cpu/division.py`), where the remainder may be denormal; and
    # on a GPU but for a denormal quotient by the divisor of a row.
    _arithmetic("add", "+", commutes=True),
    _arithmetic("sub", "-"),
    _arithmetic("mul", "*", commutes=True),
    Row(
        "div",
        2,
        "f",
        "a / b",
        {"f": "tl.div_rn({a}, {b})", "d": "{a} / {b}"},
        {"f": "{r} = fdiv {t} {a}, {b}"},
        ulp=1.0,
        approximations=_approximately(3e-7, "{a} / {b}"),
    ),
    # fmod has the sign of the dividend (C). remainder and floor_div round towards −∞ (Python): they are composed where
    # they are lowered. Integer division by zero is undefined here; who emits it guards it.
    Row(
        "fmod",
        2,
        "fiu",
        "torch.fmod(a, b)",
        {"f": "libdevice.fmod({a}, {b})", **_same("{a} % {b}", "iu")},
        {"f": "{r} = frem {t} {a}, {b}", "i": "{r} = srem {t} {a}, {b}", "u": "{r} = urem {t} {a}, {b}"},
    ),
    Row(
        "trunc_div",
        2,
        "iu",
        "torch.div(a, b, rounding_mode='trunc')",
        "{a} // {b}",
        {"i": "{r} = sdiv {t} {a}, {b}", "u": "{r} = udiv {t} {a}, {b}"},
    ),
    # Never negative, but for what wraps: of the least integer and itself or 0. Of zeros 0.
    Row(
        "gcd",
        2,
        "iu",
        "torch.gcd(a, b).abs()",
        "functions.gcd({a}, {b})",
        _same("math:gcd", "iu"),
        commutes=True,
    ),
    # Rounded once where the machine multiplies and adds at once, else twice: as eager's own kernels are, on the same
    # machine. What a sum of products may take, and those overloads of ATen that eager computes so.
    Row(
        "multiply_add",
        3,
        "f",
        "a * b + c",
        "tl.fma({a}, {b}, {c})",
        {"f": "{r} = call {t} @llvm.fmuladd.{s}({t} {a}, {t} {b}, {t} {c})"},
        ulp=1.0,
    ),
    # Triton's unary minus is 0 - a, which makes +0 of +0.
    Row(
        "neg",
        1,
        "fi",
        "-a",
        {"f": "{a} * -1.0", "i": "0 - {a}"},
        {"f": "{r} = fneg {t} {a}", "i": "{r} = sub {t} zeroinitializer, {a}"},
    ),
    Row(
        "abs",
        1,
        "fi",
        "torch.abs(a)",
        "tl.abs({a})",
        {"f": _intrinsic("fabs"), "i": "{r} = call {t} @llvm.abs.{s}({t} {a}, i1 false)"},
    ),
    # maximum and minimum propagate NaN; of −0 and +0 either may come out, as in eager.
    _extreme("maximum", "max", "or"),
    _extreme("minimum", "min", "and"),
    Row("copysign", 2, "f", "torch.copysign(a, b)", "libdevice.copysign({a}, {b})", {"f": _intrinsic("copysign", 2)}),
    Row("pow", 2, "f", "torch.pow(a, b)", "libdevice.pow({a}, {b})", {"f": "math:pow"}, ulp=2.5),
    Row("atan2", 2, "f", "torch.atan2(a, b)", "libdevice.atan2({a}, {b})", {"f": "math:atan2"}, ulp=2.5),
    # √(a² + b²), nearest for f32; of an infinite operand infinity, whatever the other is.
    Row("hypot", 2, "f", "torch.hypot(a, b)", "libdevice.hypot({a}, {b})", {"f": "math:hypot"}, ulp=2.5, commutes=True),
    # Rounding. `round` goes to the nearest even integer.
    _float("floor", llvm=_intrinsic("floor"), triton="libdevice.floor({a})"),
    _float("ceil", llvm=_intrinsic("ceil"), triton="libdevice.ceil({a})"),
    _float("trunc", llvm=_intrinsic("trunc"), triton="libdevice.trunc({a})"),
    _float("round", llvm=_intrinsic("roundeven"), triton="libdevice.rint({a})"),
    # Roots and exponentials.
    _float(
        "sqrt",
        llvm=_intrinsic("sqrt"),
        triton={"f": "tl.sqrt_rn({a})", "d": "tl.sqrt({a})"},
        approximations=_approximately(2.5e-7, "tl.sqrt({a})"),
    ),
    _float("rsqrt", llvm="{r}.s = call {t} @llvm.sqrt.{s}({t} {a})\n{r} = fdiv {t} {one}, {r}.s", ulp=1.5),
    # Of a weight, which belongs to a greatest one, or a sum, of 1: what is denormal may be 0.
    _float(
        "exp",
        ulp=1.0,
        approximations=_approximately(1.1e-5, "quick.exp({a})") | _weight(1.1e-5, "quick.exp_of_weight({a})"),
    ),
    _float(
        "exp2",
        ulp=1.0,
        approximations=_approximately(5e-7, "quick.exp2({a})") | _weight(3e-7, "quick.exp2_of_weight({a})"),
    ),
    _float("expm1", ulp=2.0, approximations=_approximately(2e-5, "quick.expm1({a})")),
    _float("log", ulp=1.0),
    _float("log2", ulp=1.5),
    _float("log10", ulp=1.5),
    _float("log1p", ulp=1.5),
    _float(
        "sigmoid",
        triton={"f": "tl.div_rn(1.0, 1.0 + libdevice.exp({a} * -1.0))", "d": "1.0 / (1.0 + libdevice.exp({a} * -1.0))"},
        ulp=2.5,
        approximations=_approximately(1.2e-5, "quick.sigmoid({a})"),
    ),
    # Trigonometry and the hyperbolic functions.
    _float("sin", ulp=2.0),
    _float("cos", ulp=2.0),
    _float("tan", ulp=3.5),
    _float("asin", ulp=2.5),
    _float("acos", ulp=2.5),
    _float("atan", ulp=2.5),
    _float("sinh", ulp=2.5),
    _float("cosh", ulp=2.0),
    _float("tanh", ulp=2.5, approximations=_approximately(1e-5, "quick.tanh({a})")),
    _float("asinh", ulp=3.0),
    _float("acosh", ulp=3.0),
    _float("atanh", ulp=2.5),
    # Special functions.
    _float("erf", ulp=5.5),
    _float(
        "erfc",
        ulp=2.5,
        approximations={
            "bf16": Approximation("quick.erfc({a})", 2.7e-4),
            "f16": Approximation("quick.erfc_of_f16({a})", 6e-5),
        },
    ),
    _float("lgamma", reference="torch.lgamma(a)", ulp=2.5),
    # Comparison.
    _compare("eq", "==", "oeq", "eq", "eq"),
    _compare("ne", "!=", "une", "ne", "ne"),
    _compare("lt", "<", "olt", "slt", "ult"),
    _compare("le", "<=", "ole", "sle", "ule"),
    _compare("gt", ">", "ogt", "sgt", "ugt"),
    _compare("ge", ">=", "oge", "sge", "uge"),
    # Bits; on i1 they are the logical connectives.
    Row("and", 2, "iub", "a & b", "{a} & {b}", _same("{r} = and {t} {a}, {b}", "iub"), commutes=True),
    Row("or", 2, "iub", "a | b", "{a} | {b}", _same("{r} = or {t} {a}, {b}", "iub"), commutes=True),
    Row("xor", 2, "iub", "a ^ b", "{a} ^ {b}", _same("{r} = xor {t} {a}, {b}", "iub"), commutes=True),
    # Shifts. By less than no bits, or as many as there are, they are undefined here; who emits one guards it.
    Row("shl", 2, "iu", "torch.bitwise_left_shift(a, b)", "{a} << {b}", _same("{r} = shl {t} {a}, {b}", "iu")),
    Row(
        "shr",
        2,
        "iu",
        "torch.bitwise_right_shift(a, b)",
        "{a} >> {b}",
        {"i": "{r} = ashr {t} {a}, {b}", "u": "{r} = lshr {t} {a}, {b}"},
    ),
    # Triton's interpreter cannot invert unsigned numbers; −1 − a is the same.
    Row(
        "not",
        1,
        "iub",
        "~a",
        {"i": "~{a}", "u": "(0 - {a}) - 1", "b": "{a} ^ True"},
        _same("{r} = xor {t} {a}, {ones}", "iub"),
    ),
)

TABLE: dict[str, Row] = {row.name: row for row in _ROWS}
"""Every row by its name: `elem.NAME` is the op."""
