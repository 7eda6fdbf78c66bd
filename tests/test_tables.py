"""What a process keeps at module level has an end: each table is bounded, weak, or finite for a reason given here."""

from __future__ import annotations

import ast
import gc
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import cuesta
from cuesta.compiler import compile_graph
from cuesta.dialects.core.interning import Interned, Memo
from cuesta.options import Options
from cuesta.record import CompileRecord

ROOT = Path(__file__).parent.parent
FOLDERS = ("cuesta", "dialects", "lowering", "targets", "transforms")

TYPES = "one for each element type of ours"
TEXTS = "one for each of a few names, element types, and powers of two as lanes"
OVERLOADS = "one for each overload that torch has"
CONSTANT = "never changed"

FINITE = {
    "cuesta/caching/cache.py:_warned": "one for each place that a cache can be",
    "cuesta/cuda_graphs/capturing.py:_streams": "one for each device and thread's stream",
    "cuesta/explain/reading.py:_fields": "one for each dataclass of explanations",
    "cuesta/fallbacks.py:_told": OVERLOADS,
    "cuesta/fallbacks.py:_listeners": "those of `with` blocks that are open",
    "cuesta/record.py:_numbers": "one for each name of a stage, ours and of extensions",
    "cuesta/record.py:records": "documented: `clear_records()` empties it; torch itself keeps more of every graph",
    "cuesta/laws/values.py:numbers_of": TYPES,
    "dialects/aten/ops.py:_classes": OVERLOADS,
    "dialects/elem/meaning.py:_function": "one for each row of the table of scalar ops, ours and of extensions",
    "dialects/sym/simplify.py:_NO_RANGES": CONSTANT,
    "dialects/sym/syntax.py:_NO_NAMES": CONSTANT,
    "lowering/capture/decompositions.py:_table": "one with the operators of quantisation, and one without",
    "lowering/capture/fx_foreach.py:of_each": OVERLOADS,
    "lowering/capture/fx_overloads.py:callee_of": OVERLOADS,
    "lowering/capture/fx_overloads.py:is_symbolic_query": OVERLOADS,
    "lowering/capture/whole_operators.py:_kept": "the kernels of the operators listed there, while somebody traces",
    "lowering/capture/whole_operators.py:_effects": "one, while somebody traces",
    "targets/cpu/bf16.py:_rounding": TEXTS,
    "targets/cpu/division.py:division": TEXTS,
    "targets/cpu/emit_types.py:byte_width": TYPES,
    "targets/cpu/emit_types.py:memory_text": TYPES,
    "targets/cpu/emit_types.py:scalar_text": TYPES,
    "targets/cpu/integer_functions.py:gcd": TEXTS,
    "targets/cpu/jit.py:_target_machine": "one for each set of features that the host is said to have",
    "targets/cpu/philox.py:philox": TEXTS,
    "targets/cpu/philox.py:random_word": TEXTS,
    "targets/cpu/remainders.py:remainder": TEXTS,
    "targets/cpu/vector_math.py:_math_function": TEXTS,
    "targets/library.py:_version": "one for each library that a key names",
    "targets/lookup.py:_made": "one for each target of the process",
    "targets/reference/numerics.py:dtype_named": "one for each dtype of torch",
    "targets/triton/build.py:_codes": "`_remember` drops the oldest",
    "transforms/fusion/cost.py:_cost_of": "one for each class of ops",
}
"""Tables that no number bounds, and what does. A function without arguments has one answer, and needs no reason."""


def tables() -> Iterator[str]:
    """Every empty container made at module level, and every function with a cache that has no bound."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                name = _name_of(node)
                if name is not None:
                    yield f"{path.relative_to(ROOT).as_posix()}:{name}"


def _name_of(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef):
        has_arguments = bool(node.args.args or node.args.kwonlyargs)
        return node.name if has_arguments and any(map(_is_unbounded, node.decorator_list)) else None
    if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None and _is_empty(node.value):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def _is_unbounded(decorator: ast.expr) -> bool:
    return ast.unparse(decorator) in ("cache", "functools.cache", "lru_cache(maxsize=None)")


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        containers = ("dict", "set", "list", "defaultdict", "Counter", "Records")
        return ast.unparse(value.func).partition("[")[0] in containers
    return False


def test_every_table_has_an_end() -> None:
    found = set(tables())
    assert len(found) > 10, "the search finds what there is"
    assert found == set(FINITE), "a table that is new: `core/interning.py` has bounded ones; one that is gone"


def graph() -> torch.fx.GraphModule:
    with FakeTensorMode() as mode:
        return make_fx(lambda x: F.layer_norm(F.gelu(x) @ x.T, (8,)).softmax(-1).cumsum(0).sum(0)[torch.arange(5)])(
            mode.from_tensor(torch.ones(8, 8))
        )


def entries() -> int:
    """How much the tables hold that have an end, but a far one."""
    gc.unfreeze()  # conftest.py takes what is old from the collector, which then does not tell of it
    try:
        found = [len(table) for table in gc.get_objects() if type(table) in (Interned, Memo)]
    finally:
        gc.freeze()
    assert found
    return sum(found)


def growth(cycle: Callable[[], object], cycles: int, before: int = 10) -> float:
    """How many blocks of Python's memory a cycle leaves behind, after some that fill what is filled once."""
    blocks: list[int] = []
    for count in (before, cycles):
        for _ in range(count):
            cycle()
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    return (blocks[1] - blocks[0]) / cycles


def test_a_program_that_is_compiled_again_adds_to_no_table() -> None:
    def cycle() -> None:
        cuesta.clear_records()
        compile_graph(graph(), CompileRecord("inference"), Options.parse(None, {"cache": False}))([torch.ones(8, 8)])

    growth(cycle, 2)
    before = entries()
    left = growth(cycle, 10)
    assert entries() == before
    assert left < 40, "make_fx leaves some ten, and a table by the ids of attributes left 90"


@pytest.mark.slow
def test_compiling_and_resetting_leaves_no_more_than_with_a_backend_that_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)  # pytest keeps what is logged
    monkeypatch.setattr(torch._dynamo.utils, "_compilation_metrics", deque(maxlen=8))  # of the last 64 compilations

    def nothing(gm: torch.fx.GraphModule, _: object) -> object:
        return make_boxed_func(gm.forward)

    def function(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.gelu(x), (8,)).softmax(-1).cumsum(0).sum(0)

    def left_by(backend: Any) -> float:
        def cycle() -> None:
            torch._dynamo.reset()
            cuesta.clear_records()
            torch.compile(function, backend=backend, dynamic=False)(torch.ones(8, 8))

        return growth(cycle, 24, before=14)

    ours, theirs = left_by("cuesta"), left_by(aot_autograd(fw_compiler=nothing))
    assert ours < theirs + 12, f"{ours} and {theirs} blocks a cycle"
