"""`relax-accuracy`: functions whose results are only ever rounded to bf16 or f16 may be approximations.

    %e = elem.exp %a : f32                      %e = elem.exp %a : f32 precision bf16
    %f = elem.mul %e, %b : f32             →    %f = elem.mul %e, %b : f32
    %g = elem.convert %f : f32 to bf16          %g = elem.convert %f : f32 to bf16

The law: the relative errors of all the approximations that reach one rounding are together at most `LIMITS` of its
type, a quarter of a unit in its last place. An op lies between a function and a rounding only if a relative error of
its operand is no larger in its result:

    a·b, a/b                errors add up            −a, |a|, √a, 1/√a           as large, or half of it
    a + b, Σ a, of a, b ≥ 0 the larger               max, min, select, copysign  the larger

Anything else (a difference, an exponential, a comparison, memory) takes a value as it is, and the value stays exact;
but for a function whose result eager rounds (`rounded bf16`, which `elide-roundings` says): an approximation is off by
less than that.
Two sums that are not well-conditioned themselves become functions that are: 1 + erf x = erfc(−x), 1 + tanh x = 2·σ(2x).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cuesta.dialects import elem, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.operation import replace_all_uses
from cuesta.dialects.core.tracing import no_match
from cuesta.transforms.accuracy.elide_roundings import exact_nests
from cuesta.transforms.devices import DEVICE, traits_for

LIMITS = {"bf16": 2.0**-10, "f16": 2.0**-13}
"""A quarter of a unit in the last place, of the largest number that has that unit."""
MOST = 16
"""Of approximations in one product."""

_FIRST = ("neg", "abs", "sqrt", "rsqrt", "copysign")
_PRODUCTS = ("mul", "div")
_EXTREMES = ("maximum", "minimum")
_POSITIVE = ("abs", "exp", "exp2", "sigmoid", "sqrt", "rsqrt", "erfc")


@dataclass(frozen=True)
class RelaxAccuracyPass(ModulePass):
    """Marks the ops of nests on a GPU that may be approximations. Not exact, by the law above; infinities, NaN and the
    signs of zeros stay as they are. On a CPU there are no approximations yet, and nothing is marked.

    Near miss: a nest in which nothing is left unrounded either (`exact_nests`): a gradient asks which of its values are
    equal to the greatest, and computes them again beside what needs them exactly.
    """

    name = "relax-accuracy"

    target: str = DEVICE
    """Whose facts count: those of the device that a nest's results lie on, or else of `cpu`, `cuda`, …"""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        nests = [
            one for one in block.ops if isinstance(one, loops.NestOp) and traits_for(one, self.target).approximates
        ]
        wanting = [(nest, found) for nest in nests if (found := _Analysis(nest)).is_wanting()]
        exact = exact_nests(block) if wanting else ()
        for nest, analysis in wanting:
            if nest in exact:
                no_match(nest, "others ask which of its values are equal, and compute them again")
                continue
            again = _Analysis(nest) if _sums_become_functions(analysis) else analysis
            for marked, precision in again.approximate().items():
                marked.properties["precision"] = StringAttr(precision)
                marked.properties.pop("rounded", None)


def _in_order(block: Block) -> Iterator[Operation]:
    """The ops of a block, each after those in it."""
    for op in block.ops:
        for region in op.regions:
            for inner in region.blocks:
                yield from _in_order(inner)
        yield op


def _narrow(value: SSAValue) -> str | None:
    scalar = elem.scalar_of(value.type)
    return "bf16" if isinstance(scalar, BFloat16Type) else "f16" if isinstance(scalar, Float16Type) else None


class _Analysis:
    """What the values of a nest are rounded to."""

    def __init__(self, nest: loops.NestOp) -> None:
        self.ops = list(_in_order(nest.body))
        self.positive: set[SSAValue] = set()
        """Those known to be no less than 0, or NaN."""
        self.wanted: dict[SSAValue, str | None] = {}
        """The type that every use of a value rounds it to, after ops that keep its relative error."""
        for op in self.ops:
            if self.is_positive(op):
                self.positive.update(op.results[:1])
        for op in reversed(self.ops):
            for result in op.results:
                self.wanted[result] = self.rounded_to(result)

    def is_wanting(self) -> bool:
        """Whether there is anything that is rounded."""
        return any(self.wanted.values()) or any(isinstance(op, elem.TableOp) and op.rounded for op in self.ops)

    def is_positive(self, op: Operation) -> bool:
        positive = [operand in self.positive for operand in op.operands]
        if isinstance(op, elem.ConstantOp):
            return op.value > 0
        if isinstance(op, elem.SelectOp):
            return all(positive[1:])
        if isinstance(op, loops.ReduceOp):
            return op.kind in ("sum", "maximum", "minimum") and op.yielded in self.positive
        if not isinstance(op, elem.TableOp):
            return False
        name = op.row.name
        if name == "maximum":
            return any(positive)
        is_square = name == "mul" and op.operands[0] is op.operands[1]
        return name in _POSITIVE or is_square or (name in ("add", "mul", "div", "minimum") and all(positive))

    def rounded_to(self, value: SSAValue) -> str | None:
        """The narrower of what the uses round the value to; None where one does not, and where there are none."""
        found: str | None = None
        for use in value.uses:
            precision = self.rounded_by(use.operation, use.index)
            if precision is None:
                return None
            found = "f16" if "f16" in (found, precision) else precision
        return found

    def rounded_by(self, user: Operation, index: int) -> str | None:
        if isinstance(user, elem.ConvertOp):
            exact = isinstance(elem.scalar_of(user.operands[0].type), Float32Type)
            return _narrow(user.result) if exact else None
        if isinstance(user, loops.YieldOp):
            reduce = user.parent_op()
            return self.wanted[reduce.results[0]] if isinstance(reduce, loops.ReduceOp) and self.keeps(reduce) else None
        if index in self.carried(user):
            return self.wanted[user.results[0]]
        return None

    def keeps(self, reduce: loops.ReduceOp) -> bool:
        """Whether a reduction's result is as good as what it reduces."""
        return reduce.kind in _EXTREMES or (reduce.kind == "sum" and reduce.yielded in self.positive)

    def carried(self, op: Operation) -> tuple[int, ...]:
        """The operands whose relative errors the result has, and no more."""
        if isinstance(op, elem.SelectOp):
            return 1, 2
        if not isinstance(op, elem.TableOp) or op.row.result != "same":
            return ()
        name = op.row.name
        if name in _FIRST:
            return (0,)
        if name == "add" and not all(operand in self.positive for operand in op.operands):
            return ()
        return (0, 1) if name in (*_PRODUCTS, *_EXTREMES, "add") else ()

    # What may be approximate

    def approximate(self) -> dict[elem.TableOp, str]:
        """The ops to mark, and for which type each."""
        errors: dict[elem.TableOp, float] = {}
        found: dict[elem.TableOp, str] = {}
        reaching: dict[SSAValue, Counter[elem.TableOp]] = {}
        for op in self.ops:
            if isinstance(op, elem.ConvertOp):
                self.fit(reaching.get(op.operands[0]), _narrow(op.result), found, errors)
                continue
            total = self.errors_of(op, reaching)
            precision = self.wanted[op.results[0]] if op.results else None
            if precision is None and isinstance(op, elem.TableOp) and op.rounded is not None:
                approximation = op.row.approximations[op.rounded]
                if approximation.error <= LIMITS[op.rounded]:
                    found[op] = op.rounded
            elif precision is not None and isinstance(op, elem.TableOp):
                approximation = op.row.approximations.get(precision)
                if approximation is not None and isinstance(elem.scalar_of(op.results[0].type), Float32Type):
                    found[op], errors[op] = precision, approximation.error
                    total[op] += 1
            if len(total) > MOST:
                for each in total:
                    found.pop(each, None)
                total.clear()
            if total:
                reaching[op.results[0]] = total
        return found

    def errors_of(self, op: Operation, reaching: dict[SSAValue, Counter[elem.TableOp]]) -> Counter[elem.TableOp]:
        """The approximations that are in the result of an op, and how many times each, its own apart."""
        if isinstance(op, loops.ReduceOp):
            parts = [reaching.get(op.yielded)] if self.keeps(op) else []
        else:
            parts = [reaching.get(op.operands[index]) for index in self.carried(op)]
        total: Counter[elem.TableOp] = Counter()
        is_product = isinstance(op, elem.TableOp) and op.row.name in _PRODUCTS
        for part in parts:
            if part:
                total = total + part if is_product else total | part
        return total

    @staticmethod
    def fit(
        reaching: Counter[elem.TableOp] | None,
        precision: str | None,
        found: dict[elem.TableOp, str],
        errors: dict[elem.TableOp, float],
    ) -> None:
        """Takes the coarsest approximations back until what reaches a rounding is within the limit."""
        if reaching is None or precision is None:
            return
        kept = {op: count * errors[op] for op, count in reaching.items() if op in found}
        while sum(kept.values()) > LIMITS[precision]:
            coarsest = max(kept, key=lambda op: kept[op])
            del kept[coarsest], found[coarsest]


def _sums_become_functions(analysis: _Analysis) -> bool:
    """1 + erf x = erfc(−x) and 1 + tanh x = 2·σ(2x), where the sum is only ever rounded. Whether there were any."""
    changed = False
    for op in analysis.ops:
        if not isinstance(op, elem.TableOp) or op.row.name != "add" or analysis.wanted[op.result] is None:
            continue
        for one, function in (op.operands, reversed(op.operands)):
            inner = function.owner
            if isinstance(inner, elem.TableOp) and _is_constant(one, 1.0) and function.has_one_use():
                new = _function_of_sum(inner)
                if new:
                    for each in new:
                        each.location = op.location
                    Rewriter.insert_op(new, InsertPoint.before(op))
                    replace_all_uses(op.result, new[-1].results[0])
                    Rewriter.erase_op(op)
                    changed = True
                    break
    return changed


def _is_constant(value: SSAValue, number: float) -> bool:
    return isinstance(value.owner, elem.ConstantOp) and value.owner.value == number


def _function_of_sum(inner: elem.TableOp) -> list[Operation]:
    """The ops that compute 1 + `inner`, the last of them the result; none where there is no better way."""
    x = inner.operands[0]
    if not isinstance(x.type, Float32Type):
        return []
    if inner.row.name == "erf":
        minus = elem.make("neg", x)
        return [minus, elem.make("erfc", minus.result)]
    if inner.row.name == "tanh":
        two = elem.constant(2.0, x.type)
        double = elem.make("mul", x, two.result)
        sigmoid = elem.make("sigmoid", double.result)
        return [two, double, sigmoid, elem.make("mul", sigmoid.result, two.result)]
    return []


__all__ = ["RelaxAccuracyPass"]
