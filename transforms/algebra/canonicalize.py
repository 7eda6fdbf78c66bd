"""`canonicalize`: the laws of the algebra, applied; what is constant is computed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import RewritePattern

from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.extension import active
from cuesta.dialects.core.operation import all_ops, ops_of
from cuesta.dialects.core.rewriting import apply_patterns
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.one_hot import SumOfOneHot
from cuesta.transforms.algebra.rules import Rules
from cuesta.transforms.algebra.table import LAWS


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """Left-hand sides of laws become right-hand sides, in the bodies of nests, until there are none. Exact, but for
    sums, which may be reassociated.

    One walk looks every op up; only where a rule may match anything else is done.
    """

    name = "canonicalize"

    exact: bool = False
    """Whether sums must not be reassociated either."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        canonicalize_block(entry_block(op), _rules(self.exact, active().rules))


def canonicalize_block(block: Block, rules: Rules) -> None:
    """Applies the rules in all nests of a block. A nest that loses its loops, as a sum over nothing does, is another:
    what its schedule said of them is left behind.
    """
    for nest in ops_of(block):
        if isinstance(nest, loops.NestOp):
            candidates = [op for op in all_ops(nest) if rules(op)]
            if candidates:
                had_loops = bool(nest.choices) and _has_loops(nest)
                apply_patterns(nest, rules, ops=candidates, erase_dead=True)
                if had_loops and not _has_loops(nest):
                    nest.properties.pop("schedule")


def _has_loops(nest: loops.NestOp) -> bool:
    return any(isinstance(op, loops.DomainOp) for op in nest.body.ops)


@lru_cache(maxsize=8)
def _rules(exact: bool, added: tuple[Law | RewritePattern, ...]) -> Rules:
    """Ours, then those of extensions."""
    laws = [rule for rule in (*LAWS, SumOfOneHot(), *added) if not exact or not isinstance(rule, Law) or rule.exact]
    for law in added:
        if isinstance(law, Law):
            law.check()
    return Rules(laws)
