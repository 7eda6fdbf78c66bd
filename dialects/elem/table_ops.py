"""The op class of every row of the table, so that `op: elem.DivOp` means something to a type checker.

To add an op, add its row to `table.py` and a class here; `tests/dialects/elem/test_classes.py` compares the two.
"""

from __future__ import annotations

from cuesta.dialects.elem.base import TableOp
from cuesta.dialects.elem.table import TABLE, Row


class AddOp(TableOp, row=TABLE["add"]):
    """a + b"""


class SubOp(TableOp, row=TABLE["sub"]):
    """a - b"""


class MulOp(TableOp, row=TABLE["mul"]):
    """a * b"""


class DivOp(TableOp, row=TABLE["div"]):
    """a / b"""


class FmodOp(TableOp, row=TABLE["fmod"]):
    """torch.fmod(a, b)"""


class TruncDivOp(TableOp, row=TABLE["trunc_div"]):
    """torch.div(a, b, rounding_mode='trunc')"""


class GcdOp(TableOp, row=TABLE["gcd"]):
    """torch.gcd(a, b).abs()"""


class MultiplyAddOp(TableOp, row=TABLE["multiply_add"]):
    """a * b + c"""


class NegOp(TableOp, row=TABLE["neg"]):
    """-a"""


class AbsOp(TableOp, row=TABLE["abs"]):
    """torch.abs(a)"""


class MaximumOp(TableOp, row=TABLE["maximum"]):
    """torch.maximum(a, b)"""


class MinimumOp(TableOp, row=TABLE["minimum"]):
    """torch.minimum(a, b)"""


class CopysignOp(TableOp, row=TABLE["copysign"]):
    """torch.copysign(a, b)"""


class PowOp(TableOp, row=TABLE["pow"]):
    """torch.pow(a, b)"""


class Atan2Op(TableOp, row=TABLE["atan2"]):
    """torch.atan2(a, b)"""


class HypotOp(TableOp, row=TABLE["hypot"]):
    """torch.hypot(a, b)"""


class FloorOp(TableOp, row=TABLE["floor"]):
    """torch.floor(a)"""


class CeilOp(TableOp, row=TABLE["ceil"]):
    """torch.ceil(a)"""


class TruncOp(TableOp, row=TABLE["trunc"]):
    """torch.trunc(a)"""


class RoundOp(TableOp, row=TABLE["round"]):
    """torch.round(a)"""


class SqrtOp(TableOp, row=TABLE["sqrt"]):
    """torch.sqrt(a)"""


class RsqrtOp(TableOp, row=TABLE["rsqrt"]):
    """torch.rsqrt(a)"""


class ExpOp(TableOp, row=TABLE["exp"]):
    """torch.exp(a)"""


class Exp2Op(TableOp, row=TABLE["exp2"]):
    """torch.exp2(a)"""


class Expm1Op(TableOp, row=TABLE["expm1"]):
    """torch.expm1(a)"""


class LogOp(TableOp, row=TABLE["log"]):
    """torch.log(a)"""


class Log2Op(TableOp, row=TABLE["log2"]):
    """torch.log2(a)"""


class Log10Op(TableOp, row=TABLE["log10"]):
    """torch.log10(a)"""


class Log1pOp(TableOp, row=TABLE["log1p"]):
    """torch.log1p(a)"""


class SigmoidOp(TableOp, row=TABLE["sigmoid"]):
    """torch.sigmoid(a)"""


class SinOp(TableOp, row=TABLE["sin"]):
    """torch.sin(a)"""


class CosOp(TableOp, row=TABLE["cos"]):
    """torch.cos(a)"""


class TanOp(TableOp, row=TABLE["tan"]):
    """torch.tan(a)"""


class AsinOp(TableOp, row=TABLE["asin"]):
    """torch.asin(a)"""


class AcosOp(TableOp, row=TABLE["acos"]):
    """torch.acos(a)"""


class AtanOp(TableOp, row=TABLE["atan"]):
    """torch.atan(a)"""


class SinhOp(TableOp, row=TABLE["sinh"]):
    """torch.sinh(a)"""


class CoshOp(TableOp, row=TABLE["cosh"]):
    """torch.cosh(a)"""


class TanhOp(TableOp, row=TABLE["tanh"]):
    """torch.tanh(a)"""


class AsinhOp(TableOp, row=TABLE["asinh"]):
    """torch.asinh(a)"""


class AcoshOp(TableOp, row=TABLE["acosh"]):
    """torch.acosh(a)"""


class AtanhOp(TableOp, row=TABLE["atanh"]):
    """torch.atanh(a)"""


class ErfOp(TableOp, row=TABLE["erf"]):
    """torch.erf(a)"""


class ErfcOp(TableOp, row=TABLE["erfc"]):
    """torch.erfc(a)"""


class LgammaOp(TableOp, row=TABLE["lgamma"]):
    """torch.lgamma(a)"""


class EqOp(TableOp, row=TABLE["eq"]):
    """a == b"""


class NeOp(TableOp, row=TABLE["ne"]):
    """a != b"""


class LtOp(TableOp, row=TABLE["lt"]):
    """a < b"""


class LeOp(TableOp, row=TABLE["le"]):
    """a <= b"""


class GtOp(TableOp, row=TABLE["gt"]):
    """a > b"""


class GeOp(TableOp, row=TABLE["ge"]):
    """a >= b"""


class AndOp(TableOp, row=TABLE["and"]):
    """a & b"""


class OrOp(TableOp, row=TABLE["or"]):
    """a | b"""


class XorOp(TableOp, row=TABLE["xor"]):
    """a ^ b"""


class ShlOp(TableOp, row=TABLE["shl"]):
    """torch.bitwise_left_shift(a, b)"""


class ShrOp(TableOp, row=TABLE["shr"]):
    """torch.bitwise_right_shift(a, b)"""


class NotOp(TableOp, row=TABLE["not"]):
    """~a"""


OPS: dict[str, type[TableOp]] = {
    op.row.name: op
    for op in (
        AddOp,
        SubOp,
        MulOp,
        DivOp,
        FmodOp,
        TruncDivOp,
        GcdOp,
        MultiplyAddOp,
        NegOp,
        AbsOp,
        MaximumOp,
        MinimumOp,
        CopysignOp,
        PowOp,
        Atan2Op,
        HypotOp,
        FloorOp,
        CeilOp,
        TruncOp,
        RoundOp,
        SqrtOp,
        RsqrtOp,
        ExpOp,
        Exp2Op,
        Expm1Op,
        LogOp,
        Log2Op,
        Log10Op,
        Log1pOp,
        SigmoidOp,
        SinOp,
        CosOp,
        TanOp,
        AsinOp,
        AcosOp,
        AtanOp,
        SinhOp,
        CoshOp,
        TanhOp,
        AsinhOp,
        AcoshOp,
        AtanhOp,
        ErfOp,
        ErfcOp,
        LgammaOp,
        EqOp,
        NeOp,
        LtOp,
        LeOp,
        GtOp,
        GeOp,
        AndOp,
        OrOp,
        XorOp,
        ShlOp,
        ShrOp,
        NotOp,
    )
}
"""The op class of every row, by the row's name."""


def class_of(row: Row) -> type[TableOp]:
    """A new op class for a row that is not in our table: an extension's."""
    class_name = "".join(part.capitalize() for part in row.name.split("_")) + "Op"
    return type(class_name, (TableOp,), {"__doc__": row.reference}, row=row)
