"""Rules written as text, in MLIR's PDL, which xDSL interprets: `rules_of(text)` gives what `Extension(rules=…)` takes.

pdl.pattern @log_of_exp : benefit(1) {
  %type = pdl.type
  %x = pdl.operand
  %exp = pdl.operation "elem.exp" (%x : !pdl.value) -> (%type : !pdl.type)
  %e = pdl.result 0 of %exp
  %log = pdl.operation "elem.log" (%e : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %log { pdl.replace %log with (%x : !pdl.value) }
}
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import pdl
from xdsl.dialects.builtin import Builtin
from xdsl.interpreters.pdl import PDLRewritePattern
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import ParseError, VerifyException

from cuesta.context import make_context
from cuesta.dialects.core.diagnostics import CuestaError, Diagnostic


class TextRule(RewritePattern):
    """One `pdl.pattern`, tried on the ops that its rewrite is rooted at."""

    def __init__(self, pattern: pdl.PatternOp, rewrite: pdl.RewriteOp, root: str) -> None:
        self.name = pattern.sym_name.data if pattern.sym_name is not None else root
        self.root = root
        self.pattern = pattern
        self.rewrite = rewrite
        self._made: PDLRewritePattern | None = None

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Rewrites the op where the pattern matches."""
        if op.name != self.root:
            return
        if self._made is None:  # here the scalar ops of extensions are known
            self._made = PDLRewritePattern(self.rewrite, make_context())
        self._made.match_and_rewrite(op, rewriter)

    def key_text(self) -> str:
        """What it is, for the key of the cache."""
        return str(self.pattern)


def rules_of(text: str) -> tuple[RewritePattern, ...]:
    """The rules of a text, in order. A rule is tried on ops in the bodies of nests.

    Errors: CuestaError for a text that cannot be read, has no rules, or one whose root is not an op with a name.
    """
    if not text.strip():
        raise CuestaError(Diagnostic("the text of rules holds none"))
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(pdl.PDL)
    try:
        module = Parser(context, text, "rules").parse_module()
        module.verify()
    except (ParseError, VerifyException) as error:
        raise CuestaError(Diagnostic(f"the text of rules cannot be read: {error}")) from None
    rules: list[RewritePattern] = []
    for pattern in module.ops:
        rewrites = [op for op in pattern.walk() if isinstance(op, pdl.RewriteOp)]
        if not isinstance(pattern, pdl.PatternOp) or len(rewrites) != 1:
            raise CuestaError(
                Diagnostic(f"a text of rules holds `pdl.pattern`, each with one rewrite, not {pattern.name}")
            )
        root = rewrites[0].root
        matched = None if root is None else root.owner
        if not isinstance(matched, pdl.OperationOp) or matched.opName is None:
            raise CuestaError(Diagnostic("a rule in text rewrites an operation with a name: `pdl.rewrite %op { … }`"))
        rules.append(TextRule(pattern, rewrites[0], matched.opName.data))
    if not rules:
        raise CuestaError(Diagnostic("the text of rules holds none"))
    return tuple(rules)
