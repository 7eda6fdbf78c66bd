"""Faults that bisection is tested on: what is edited, and who is to be named for it.

`rewrites` are the names that are right: the pattern, the function that makes the change, the overload whose lowering it
is, or the op whose machine code it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest import mock

from cuesta.transforms.algebra import canonicalize
from cuesta.transforms.algebra.law import Law
from cuesta.transforms.algebra.table import LAWS
from tests.support.seeding import Fault

_T, _L = "cuesta.transforms", "cuesta.lowering"
MEETING = "../lowering/kernel/loops-to-kernel/gpu_meetings.mlir"
"""Its first program: rows whose parts meet."""
_CPU, _GPU = "cuesta.targets.cpu", "cuesta.targets.triton"


@dataclass(frozen=True)
class FaultyLaw(Fault):
    """A law whose right-hand side is that of another law, over the same variables."""

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The `with` block in which the law is wrong."""
        named = {law.name: law for law in LAWS}
        right, other = named[self.old], named[self.new]
        wrong = Law(right.name, right.lhs, other.rhs, right.kinds, right.where)
        laws = tuple(wrong if law is right else law for law in LAWS)
        canonicalize._rules.cache_clear()
        try:
            with mock.patch.object(canonicalize, "LAWS", laws):
                yield
        finally:
            canonicalize._rules.cache_clear()


FAULTS: tuple[Fault, ...] = (
    # -- from aten to loops
    Fault("layer-norm-scaled-twice", "a wrong formula", f"{_L}.aten.normalization:_affine",
          "value * builder.load(weight", "value * value * builder.load(weight",
          "mlp", "aten-to-loops", ("aten.native_layer_norm.default",)),
    Fault("permute-backwards", "a wrong index map", f"{_L}.aten.view_maps:_permuted",
          "indices[source_dim] = sym.dim(k)", "indices[k] = sym.dim(source_dim)",
          "views", "aten-to-loops", ("aten.permute.default",)),
    Fault("flip-by-one", "an off-by-one", f"{_L}.aten.view_maps:flip_map",
          "[size - 1 - sym.dim(k)", "[size - sym.dim(k)",
          "views", "aten-to-loops", ("aten.flip.default",), quick=True),
    Fault("variance-of-squares", "a swapped operand", f"{_L}.aten.reductions:_variance_of",
          "squares / max(count - correction, 0)", "squares / max(count + correction, 0)",
          "norms", "aten-to-loops", ("aten.var.correction",)),
    Fault("slice-step-lost", "a wrong stride", f"{_L}.aten.view_maps:slice_map",
          "sym.dim(dim) * op.index(\"step\") +", "sym.dim(dim) +",
          "views", "aten-to-loops", ("aten.slice.Tensor",)),
    # -- loops
    Fault("factors-swapped", "a swapped operand", f"{_T}.products.accumulate_products:accumulate",
          "(product.tensor(\"self\"), product.tensor(\"mat2\"))",
          "(product.tensor(\"mat2\"), product.tensor(\"self\"))",
          "matrices", "accumulate-products", ("AccumulateProduct",)),
    Fault("mask-lost-behind-view", "a dropped mask", f"{_T}.views.eliminate_views:ReadThroughView.match_and_rewrite",
          "results, op.indices, op.mask, op.other)", "results, op.indices)",
          "padded_view", "eliminate-views", ("ReadThroughView",)),
    Fault("views-composed-backwards", "a wrong index map", f"{_T}.views.eliminate_views:ComposeViews.match_and_rewrite",
          "inner.map.compose(op.map)", "op.map.compose(inner.map)",
          "attention", "eliminate-views", ("ComposeViews",)),
    Fault("copy-of-source", "a wrong index map after view elimination",
          f"{_T}.views.materialize_views:materialize",
          "sym.simplify(index, sizes) for index in indices]",
          "sym.simplify(sym.dim(at), sizes) for at in range(len(indices))]",
          "flipped_product", "materialize-views", ("materialize",), quick=True),
    Fault("cse-by-first-operand", "a wrong equality", f"{_T}.cse:_key",
          "tuple(map(id, op.operand_values))", "tuple(map(id, op.operand_values[:1]))",
          "two_products", "cse-2", ("_replace", "merge_body", "merge_graph")),
    Fault("maximum-forgotten", "a wrong kind of reduction", f"{_T}.dce:_forget_position",
          "StringAttr(EXTREMES[op.kind])", "StringAttr(\"minimum\")",
          "extremes", "dce", ("_forget_position",), quick=True),
    Fault("select-swapped", "a swapped operand", f"{_T}.fusion.inline:inline_at",
          "elem.SelectOp.build(mask, value, other)", "elem.SelectOp.build(mask, other, value)",
          "padded_sum", "fuse-nests", ("inline_at",)),
    Fault("mask-lost-inlined", "a dropped mask", f"{_T}.fusion.inline:inline_at",
          "if mask is not None and isinstance(new, loops.LoadOp):", "if False and isinstance(new, loops.LoadOp):",
          "padded_sum", "fuse-nests", ("inline_at",)),
    Fault("stored-by-others", "a race", f"{_T}.fusion.append:_relation",
          "return \"the consumer reads what other parallel points of the producer store\"", "return None",
          "transposed_sums", "fuse-nests", ("append", "_merged", "end_merge", "begin_merge")),
    Fault("forwarded-row", "a wrong index map", f"{_T}.loops.forward_stores:Stage.value_at",
          "expressions[axis]", "expressions[0]",
          "loops/forward-stores/forward_stores.mlir", "forward-stores", ("Stage.compute_at", "Stage.value_at")),
    Fault("cast-elided", "a lost cast", f"{_T}.accuracy.elide_roundings:ElideRounding.match_and_rewrite",
          "isinstance(narrow, BFloat16Type | Float16Type) and ", "",
          "integers", "elide-roundings", ("ElideRounding",)),
    Fault("hoisted-too-far", "a use before its definition", f"{_T}.loops.hoist_invariants:_hoist_from",
          "inside.update(inner.results)", "pass",
          "attention", "hoist-invariants", ("_hoist_from",)),
    FaultyLaw("square-as-itself", "a wrong strength reduction", "", "second-power", "first-power",
              "powers", "canonicalize", ("second-power",)),
    FaultyLaw("absolute-of-negated", "a wrong law", "", "negate-twice", "absolute-twice",
              "constants", "canonicalize", ("negate-twice",)),
    Fault("folded-backwards", "a wrong constant", f"{_T}.algebra.folding:fold",
          "tuple(map(repr, numbers))", "tuple(map(repr, reversed(numbers)))",
          "foldable", "canonicalize", ("FoldConstants",), quick=True),
    Fault("equal-by-kind", "a wrong equality", f"{_T}.loops.reuse_across_stages:_Nest.number",
          "key = (type(op), operands, ", "key = (type(op), ",
          "two_exponentials", "reuse-across-stages", ("_Nest.read_back", "_Nest.keep", "_Nest.run")),
    Fault("parts-overlap", "a wrong stride", f"{_T}.reductions.domains:_equal_parts",
          "sym.dim(0) * inner[axis] + indices[axis]", "sym.dim(0) + indices[axis]",
          "long_sum", "split-reductions", ("split_in_parts", "_Splitting.run", "SplitReductionsPass.apply")),
    Fault("start-transposed", "a wrong index map", f"{_T}.scatters.starts:_first_nest",
          "zip(old_variables, first.induction_variables,", "zip(old_variables, first.induction_variables[::-1],",
          "scatter_into", "split-scatters", ("split_start", "_first_nest", "_without_stage")),
    # -- kernel
    Fault("mask-not-lowered", "a dropped mask", f"{_L}.kernel.kernel_builder:KernelBuilder.load",
          "(op.mask, op.other) if self.is_masked(op) else (None, None)", "(None, None)",
          "padded", "loops-to-kernel", ("lower_nests", "KernelBuilder.load")),
    Fault("tail-left-out", "an off-by-one tail", f"{_L}.kernel.kernel_builder:KernelBuilder.tile_bounds",
          "return sym.ceildiv(size, tile)", "return size // tile",
          "wide", "loops-to-kernel", ("lower_nests", "KernelBuilder.tile_bounds")),
    Fault("axes-joined", "a wrong stride", "cuesta.dialects.loops.merge_axes:_is_joint",
          "outer_stride == inner_stride * size", "outer_stride >= inner_stride * size",
          "sliced", "loops-to-kernel", ("lower_nests",), quick=True),
    Fault("condition-by-one", "an off-by-one", f"{_T}.kernel.split_index_sets:_condition",
          "{\"ge\": limit,", "{\"ge\": limit - 1,",
          "windows", "split-index-sets", ("_Splitter.fold", "replace_value", "fold_masks")),
    # -- host
    Fault("wrong-argument", "a swapped operand", f"{_L}.kernel.kernel_to_host:write_arguments",
          "zip(arguments, values, strict=True)", "zip(arguments, values[::-1], strict=True)",
          "updates", "kernel-to-host", ("write_arguments", "replace")),
    Fault("freed-early", "a wrong lifetime", f"{_T}.host.free_buffers:_insert_frees",
          "last[operand] = op", "last.setdefault(operand, op)",
          "chain", "free-buffers", ("_insert_frees",)),
    Fault("places-overlap", "a wrong overlap in a pool", f"{_T}.host.pool_buffers:_offsets",
          "offsets[life] = start", "offsets[life] = 0",
          "long_sum", "pool-buffers", ("_pool",)),
    Fault("added-too-early", "a wrong alias", f"{_T}.host.accumulate_in_place:is_only_written",
          "is_accumulation(user) and positions[user] < place for", "True for",
          "shared_product", "accumulate-in-place", ("AccumulateInPlacePass.apply",), quick=True),
    # -- races
    Fault("meeting-dropped", "a race", f"{_T}.reductions.cooperation:_Cooperation.join",
          "new.body.add_op(meeting)", "meeting.erase()",
          MEETING, "split-reductions{target=cuda}", ("cooperate_in_parts", "_Cooperation.join"), quick=True),
    Fault("stored-by-all", "a race", f"{_T}.reductions.cooperation:_Cooperation.join",
          "if first is not None:", "if first is False:",
          MEETING, "split-reductions{target=cuda}", ("cooperate_in_parts", "_Cooperation.join")),
    Fault("turned-over-itself", "a race", f"{_T}.host.in_place:may_overwrite",
          "if not isinstance(load, kernel.LoadOp) or load.map != store.map:",
          "if not isinstance(load, kernel.LoadOp):",
          "turned_product", "free-buffers", ("_Reuse.take_over",), quick=True),
    Fault("argument-over-itself", "a race", f"{_T}.host.in_place:may_overwrite",
          "if not isinstance(load, kernel.LoadOp) or load.map != store.map:",
          "if not isinstance(load, kernel.LoadOp):",
          "turned_state", "write-in-place", ("WriteInPlacePass.apply",)),
    Fault("joined-dependents", "a race", f"{_T}.host.join_launches:_levels",
          "levels[op] = level", "levels[op] = level = 0",
          "sums_of_sums_on_gpu", "join-launches", ("_put_in_order", "JoinLaunchesPass.apply", "_joined"),
          device="cuda"),
    # -- aliases
    Fault("base-for-view", "a wrong alias", f"{_T}.views.eliminate_views:DropIdentityView.match_and_rewrite",
          "if any(", "if False and any(",
          "views/eliminate-views/returned_identity.mlir", "eliminate-views", ("DropIdentityView",), quick=True),
    Fault("one-result-for-two", "a wrong alias", f"{_T}.cse:merge_graph",
          "elif not (escapes(op) and escapes(first)):", "elif True:",
          "equal_results", "cse", ("_replace", "merge_graph")),
    Fault("written-before-read", "a wrong alias", f"{_T}.host.write_in_place:_last_before",
          "elif order.positions[user] > order.positions[last]:", "elif False:",
          "read_after_update", "write-in-place", ("WriteInPlacePass.apply",)),
    Fault("alias-forgotten", "a wrong alias", f"{_T}.host.free_buffers:_Reuse.__init__",
          "self.add_alias(op.results[0], self.buffer(op.source))", "pass",
          "alias_of_product", "free-buffers", ("_Reuse.take_over",)),
    Fault("first-use-for-last", "a wrong alias", f"{_T}.host.free_buffers:_Reuse.__init__",
          "self.last[buffer] = op", "self.last.setdefault(buffer, op)",
          "product_read_twice", "free-buffers", ("_Reuse.take_over",)),
    # -- machine code of the CPU
    Fault("identity-zero", "a wrong identity of a reduction", f"{_CPU}.emit_reduce:SimpleAccumulator.identity",
          "constant(identity(self.op.kind, self.scalar), self.scalar, lanes)", "constant(0, self.scalar, lanes)",
          "negative_maximum", "cpu", ("kernel.reduce",), quick=True),
    Fault("mask-inverted", "a swapped operand", f"{_CPU}.emit_memory:_load_one",
          "{kind} {value}, {kind} {other}", "{kind} {other}, {kind} {value}",
          "narrow_padded", "cpu", ("kernel.load",)),
    Fault("half-rounds-down", "a wrong LLVM emission", f"{_CPU}.emit_ops:_emit_half",
          "add {kind} {floor}, {odd}", "add {kind} {floor}, {floor}",
          "integers", "cpu", ("elem.trunc_div",)),
    Fault("modulo-of-negative", "a wrong LLVM emission", f"{_CPU}.emit_ops:_emit_select",
          "{kind} {emitter.name(on_true)}, {kind} {emitter.name(on_false)}",
          "{kind} {emitter.name(on_false)}, {kind} {emitter.name(on_true)}",
          "choices", "cpu", ("elem.select",)),
    Fault("last-lane-first", "a wrong lane", f"{_CPU}.emit_scan:_last_lane",
          "lanes - 1", "0",
          "running", "cpu", ("kernel.running", "kernel.scan")),
    Fault("tanh-of-half", "a wrong constant", f"{_CPU}.polynomials:tanh",
          "text.constant(-2.0)), -20.0", "text.constant(-1.0)), -20.0",
          "hyperbolic", "cpu", ("elem.tanh",)),
    # -- Triton, interpreted
    Fault("quotient-inverted", "a wrong Triton emission", f"{_GPU}.emit_ops:quotient_by_constant",
          "elem.constant(1 / divisor, scalar)", "elem.constant(divisor, scalar)",
          "scaled", "triton", ("elem.div",), device="cuda"),
    Fault("where-swapped", "a wrong Triton emission", f"{_GPU}.emit_ops:_select",
          "{on_true}, {on_false})\"", "{on_false}, {on_true})\"",
          "choices", "triton", ("elem.select",), device="cuda"),
    Fault("lanes-of-nobody", "a dropped mask", f"{_GPU}.emit_reduce:SimpleAccumulator.masked",
          "if mask is None:", "if True:",
          "negative_maximum", "triton", ("kernel.reduce",), device="cuda"),
)  # fmt: skip


def faults_named(*names: str) -> list[Fault]:
    """Those of these names."""
    return [replace(fault) for fault in FAULTS if fault.name in names]
