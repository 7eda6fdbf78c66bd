"""Extensions at work: in scope and nowhere else, in the key of the cache, and blamed when they go wrong."""

from __future__ import annotations

import importlib.metadata
import os
import textwrap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

import cuesta
from cuesta.dialects import elem, loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.extension import After, Before, Extension
from cuesta.dialects.elem import Row
from cuesta.lowering.aten.builder import AtenCall, LoopBuilder, decline
from cuesta.lowering.aten.operands import sizes_of_value
from cuesta.lowering.schedule.schedule import ParallelAxis, Schedule
from cuesta.opt import run_captured
from cuesta.options import OptionError, Options
from cuesta.pipeline import STAGES, extended_stages
from cuesta.transforms.algebra import Law, apply, variables
from cuesta.transforms.fusion.pair import Pair
from tests.support.fresh import Piped

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()


def lower_i0(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    """Not what it ought to be, so that one sees who computed it: x² + 1."""
    source = op.operands[0]
    with builder.nest(sizes_of_value(source), [op.results[0].type]) as nest:
        x = builder.load(source, nest.indices)
        builder.store(x * x + 1.0, nest.handles[0], nest.indices)
    return nest.results


@dataclass(frozen=True)
class CountNestsPass(ModulePass):
    """Notes how many nests there are."""

    name = "count-nests"
    seen = list[tuple[str, int]]()
    label: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.seen.append((self.label, sum(isinstance(one, loops.NestOp) for one in op.walk())))


def i0(x: Tensor) -> Tensor:
    return torch.special.i0(x)


MINE = Extension("mine", lowerings={"aten.i0.default": lower_i0})
x = torch.linspace(-2, 2, 12)
SQUARES = x * x + 1.0


def compiled(function: Callable[..., Any], *extensions: Extension) -> Callable[..., Any]:
    options: dict[str, Any] = {"extensions": list(extensions)}
    return torch.compile(function, backend="cuesta", options=options)


# -- scope -------------------------------------------------------------------------------------------------------------


def test_a_lowering_takes_the_place_of_ours_and_is_gone_without_it() -> None:
    torch.testing.assert_close(compiled(i0, MINE)(x), SQUARES)
    assert not cuesta.records[-1].fallbacks
    torch.testing.assert_close(compiled(i0)(x), i0(x))  # another backend, as torch sees it: it compiles again
    assert cuesta.records[-1].kernels == 1 and not cuesta.records[-1].fallbacks


def test_in_force_in_a_block() -> None:
    with cuesta.extended(MINE):
        torch.testing.assert_close(torch.compile(i0, backend="cuesta")(x), SQUARES)
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(i0, backend="cuesta")(x), i0(x))


def test_the_environment_leaves_one_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_EXTENSIONS", "-mine")
    torch.testing.assert_close(compiled(i0, MINE)(x), i0(x))
    with cuesta.extended(MINE) as active:
        assert not active


def test_the_backward_pass_has_what_was_in_force_when_the_graph_was_handed_over() -> None:
    """It is compiled later, here in another thread, outside of the block."""
    seen: list[str] = []

    def lower_cos(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        seen.append(threading.current_thread().name)
        decline("it is enough to be asked")

    mine = Extension("mine", lowerings={"aten.cos.default": lower_cos})
    source = torch.randn(4, requires_grad=True)
    with cuesta.extended(mine):
        result = torch.compile(torch.sin, backend="cuesta")(source).sum()
    seen.clear()
    thread = threading.Thread(target=result.backward, name="another")
    thread.start()
    thread.join()
    torch.testing.assert_close(source.grad, source.detach().cos())
    kinds = [record.kind for record in cuesta.records]
    assert kinds == ["forward", "backward"]
    assert seen == ["another"]
    assert cuesta.records[1].extensions == ("mine (lowers aten.cos.default in our place)",)
    assert cuesta.records[1].fallbacks == {"aten.cos.default": 1}


def test_passes_stand_in_their_places() -> None:
    mine = Extension(
        "mine",
        passes=[
            After("fuse-nests", CountNestsPass("after"), why="how many are left"),
            Before("fuse-nests", CountNestsPass("before")),
            After("cse-2", CountNestsPass("end")),
        ],
    )
    CountNestsPass.seen.clear()
    compiled(lambda a: (a + 1).sum() * a, mine)(x)
    assert [label for label, _ in CountNestsPass.seen] == ["before", "after", "end"]
    assert CountNestsPass.seen[0][1] > CountNestsPass.seen[1][1]
    with cuesta.extended(mine):
        names = [stage.name for stage in extended_stages()]
        position = names.index("fuse-nests")
        assert names[position - 1] == 'count-nests{label="before"}'
        assert extended_stages()[position + 1].why == "how many are left"
        assert extended_stages()[position + 1].extension == "mine"
    assert extended_stages() is STAGES


def test_what_two_put_in_one_place_stands_in_their_order() -> None:
    class OtherPass(CountNestsPass):
        name = "other"

    a = Extension("a", passes=[After("cse", CountNestsPass), Before("dce", CountNestsPass)])
    b = Extension("b", passes=[After("cse", OtherPass), Before("dce", OtherPass)])
    with cuesta.extended(a, b):
        names = [stage.name for stage in extended_stages()]
    position = names.index("cse")
    assert names[position : position + 6] == ["cse", "count-nests", "other", "count-nests", "other", "dce"]


def test_a_place_that_there_is_not() -> None:
    mine = Extension("mine", passes=[After("fuse-nest", CountNestsPass)])
    with pytest.raises(Exception, match="'fuse-nest', which is no stage, did you mean fuse-nests"):
        compiled(i0, mine)(x)


ROW = Row(
    "fma",
    3,
    "f",
    "a * b + c",
    "tl.fma({a}, {b}, {c})",
    {"f": "{r} = call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})"},
    ulp=1.0,
)


def lower_addcmul(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    with builder.nest(sizes_of_value(op.results[0]), [op.results[0].type]) as nest:
        a, b, c = (builder.load(operand, nest.indices) for operand in op.operands)
        builder.store(builder.elem("fma", b, c, a), nest.handles[0], nest.indices)
    return nest.results


def test_a_scalar_op_goes_through_every_level(tmp_path: Path) -> None:
    mine = Extension("mine", elem=[ROW], lowerings={"aten.addcmul.default": lower_addcmul})
    options = {"extensions": [mine], "dump": str(tmp_path), "verify": "each"}
    a, b, c = torch.randn(3, 5, 33)
    function = torch.compile(torch.addcmul, backend="cuesta", options=options)
    torch.testing.assert_close(function(a, b, c), torch.addcmul(a, b, c))
    (folder,) = tmp_path.iterdir()
    assert "llvm.fma.v" in (folder / "kernels.ll").read_text()
    level = next(folder.glob("*_fuse-nests.mlir"))
    assert "elem.fma %" in level.read_text()
    torch.testing.assert_close(cuesta.load(level, options={"extensions": [mine]})(a, b, c)[0], torch.addcmul(a, b, c))
    with pytest.raises(Exception, match=r"elem\.fma"):
        cuesta.load(level)


# -- the cache ---------------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
import torch, cuesta
from helper import SHIFT
from cuesta.dialects.core.extension import Extension
from cuesta.lowering.aten.operands import sizes_of_value

def lower_i0(op, builder):
    with builder.nest(sizes_of_value(op.operands[0]), [op.results[0].type]) as nest:
        builder.store(builder.load(op.operands[0], nest.indices) + SHIFT, nest.handles[0], nest.indices)
    return nest.results

mine = Extension("mine", lowerings={"aten.i0.default": lower_i0})
options = {"extensions": [mine]} if "with" in sys.argv else {}
result = torch.compile(torch.special.i0, backend="cuesta", options=options)(torch.zeros(3))
print(round(result[0].item(), 3), cuesta.records[0].from_cache, flush=True)
"""

STARTER = """
import os, runpy, sys
import cuesta, cuesta.compiler

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.dont_write_bytecode = True  # Python tells bytecode's age in seconds

for line in sys.stdin.buffer:
    if os.fork() == 0:
        try:
            sys.argv = [sys.argv[1], *line.decode().split()]
            runpy.run_path(sys.argv[0], run_name="__main__")
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(0)
    os.wait()
"""
"""Starts a process of the script for each line, with its words; imports take longer than all they do."""


@pytest.mark.slow
def test_a_process_without_it_never_gets_its_programs(tmp_path: Path) -> None:
    script, helper = tmp_path / "mine.py", tmp_path / "helper.py"
    script.write_text(textwrap.dedent(SCRIPT))
    helper.write_text("SHIFT = 5.0\n")
    environment = {**os.environ, "CUESTA_CACHE": "1", "CUESTA_CACHE_DIR": str(tmp_path / "cache")}
    starter = Piped(STARTER, [str(script)], environment=environment, log=tmp_path / "log")

    def run(*arguments: str) -> str:
        starter.stdin.write(" ".join(arguments).encode() + b"\n")
        starter.stdin.flush()
        return starter.stdout.readline().decode().strip() or starter.said()

    try:
        assert run("with") == "5.0 False"
        assert run() == "1.0 False"
        assert run("with") == "5.0 True"
        script.write_text(script.read_text().replace("+ SHIFT", "+ SHIFT * 2"))
        assert run("with") == "10.0 False"
        helper.write_text("SHIFT = 7.0\n")  # what it uses from its own folder
        assert run("with") == "14.0 False"
        assert run() == "1.0 True"
    finally:
        starter.kill()


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def raises(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    raise ZeroDivisionError("by nothing")


def gives_nothing(op: AtenCall, builder: LoopBuilder) -> Any:
    return None


def gives_too_many(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return [*op.operands, *op.operands]


def gives_another_type(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return [builder.none()]


def gives_itself(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
    return list(op.results)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (raises, "raised ZeroDivisionError: by nothing, at"),
        (gives_nothing, "must give a list with a value for every result, not None"),
        (gives_too_many, "gives 2 values for a call with 1 results"),
        (gives_another_type, "gives !aten.literal for a result of type tensor<12xf32>"),
        (gives_itself, "gives a result of the call itself"),
    ],
)
def test_a_lowering_that_goes_wrong_is_named(rule: Any, message: str) -> None:
    bad = Extension("bad", lowerings={"aten.i0.default": rule})
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(i0, bad)(x)
    text = str(caught.value)
    assert message in text
    assert f"extension 'bad': {rule.__name__} ({__file__}:{rule.__code__.co_firstlineno})" in text
    assert "aten.i0.default: " in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text


def test_a_lowering_of_what_never_arrives_is_told() -> None:
    never = Extension("mine", lowerings={"aten.rms_norm.default": lower_i0})
    with pytest.warns(UserWarning, match=r"aten\.rms_norm\.default is never lowered, because autograd takes it apart"):
        compiled(lambda a: a + 1, never)(x)
    unknown = Extension("mine", lowerings={"aten.i0.tensor": lower_i0})
    with pytest.raises(Exception, match=r"is to lower aten\.i0\.tensor, which this torch \(.*\) does not have"):
        compiled(lambda a: a + 2, unknown)(x)


def test_a_lowering_that_declines_leaves_the_call_to_the_library() -> None:
    def declines(op: AtenCall, builder: LoopBuilder) -> Sequence[SSAValue]:
        with builder.nest([3], [op.results[0].type]):
            decline("not today")

    torch.testing.assert_close(compiled(i0, Extension("mine", lowerings={"aten.i0.default": declines}))(x), i0(x))


class RaisingPass(CountNestsPass):
    name = "raising"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("what is not there")


class BreakingPass(CountNestsPass):
    """Puts a nest behind what returns its result."""

    name = "breaking"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = entry_block(op)
        nest = next(one for one in block.ops if isinstance(one, loops.NestOp))
        nest.detach()
        block.add_op(nest)


@pytest.mark.parametrize(
    ("pass_type", "message"),
    [(RaisingPass, "raised KeyError: 'what is not there', at"), (BreakingPass, "extension 'bad': breaking")],
)
def test_a_pass_that_goes_wrong_is_named(pass_type: type[ModulePass], message: str) -> None:
    bad = Extension("bad", passes=[After("fuse-nests", pass_type)])
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(lambda a: a + 1, bad)(x)
    text = str(caught.value)
    assert message in text
    assert "extension 'bad'" in text
    assert __file__ in text
    assert f"stage: {pass_type.name}" in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text


class CsePass(CountNestsPass):
    name = "cse"


def test_names_of_ours_are_taken() -> None:
    for taken in (CsePass,):
        with pytest.raises(Exception, match="claims a name that is taken: there is a pass cse of ours") as caught:
            compiled(i0, Extension("bad", passes=[taken]))(x)
        assert f"{__file__}:" in str(caught.value)
        assert "without it: CUESTA_EXTENSIONS=-bad" in str(caught.value)


# -- what is said of them ----------------------------------------------------------------------------------------------


def test_records_and_dumps_name_them(tmp_path: Path) -> None:
    ours = Extension("mine", lowerings={"aten.sin.default": lower_i0})
    options: dict[str, Any] = {"extensions": [Extension("other"), ours], "dump": str(tmp_path)}
    torch.testing.assert_close(torch.compile(torch.sin, backend="cuesta", options=options)(x), SQUARES)
    told = "mine (lowers aten.sin.default in our place)"
    assert cuesta.records[-1].extensions == ("other", told)
    (folder,) = tmp_path.iterdir()
    for path in folder.glob("*.mlir"):
        assert f"// extensions: other, {told}\n" in path.read_text()


def test_a_text_says_which_extensions_it_misses(tmp_path: Path) -> None:
    counting = Extension("counting", passes=[After("dce-2", CountNestsPass)])
    options: dict[str, Any] = {"extensions": [counting], "dump": str(tmp_path)}
    torch.compile(torch.sin, backend="cuesta", options=options)(x)
    (folder,) = tmp_path.iterdir()
    level = next(folder.glob("*_fuse-nests.mlir"))
    with pytest.raises(CuestaError) as caught:
        cuesta.load(level)
    assert "there is no pass count-nests" in str(caught.value)
    assert "the text was written with counting; not in force here: counting" in str(caught.value)
    chosen: dict[str, Any] = {"extensions": [counting]}
    torch.testing.assert_close(cuesta.load(level, options=chosen)(x)[0], x.sin())


def test_what_has_no_source_is_not_kept_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    names: dict[str, Any] = {"lower_i0": lower_i0}
    exec("def lower(op, builder):\n    return lower_i0(op, builder)", names)
    torch.testing.assert_close(
        compiled(i0, Extension("mine", lowerings={"aten.i0.default": names["lower"]}))(x), SQUARES
    )
    assert "the lowering of aten.i0.default, lower, has no source file (<string>)" in str(cuesta.records[-1].not_kept)
    assert not list(tmp_path.rglob("*.graph"))


# -- fusion and schedules ----------------------------------------------------------------------------------------------


def softmax_like(a: Tensor) -> tuple[Tensor, Tensor]:
    weights = a.exp()
    return weights.sum(0), weights.amax(1)


def says_it_fused(pair: Pair) -> Any:
    return pair.consumer


def says_nothing_useful(pair: Pair) -> Any:
    return 3


def gives_away_what_it_made(pair: Pair) -> Any:
    pair.inline()
    return None


@pytest.mark.parametrize(
    ("move", "message"),
    [
        (says_it_fused, "says that the two are one nest, but it still reads what the producer stores"),
        (says_nothing_useful, "must give the nest that it made, a reason, or None, not 3"),
        (gives_away_what_it_made, "must give the nest that it made, a reason, or None, not None"),
        (lambda pair: pair.nothing, "raised AttributeError"),
    ],
)
def test_a_move_that_goes_wrong_is_named(move: Any, message: str) -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(softmax_like, Extension("bad", fusions=[move]))(torch.randn(30, 40))
    text = str(caught.value)
    assert message in text
    assert f"extension 'bad': {move.__qualname__} ({__file__}:{move.__code__.co_firstlineno})" in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text


def test_a_move_keeps_a_pair_apart_with_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    apart = Extension("apart", fusions=[lambda pair: "on principle"])
    options: dict[str, Any] = {"extensions": [apart], "trace": True}
    a = torch.randn(30, 40)
    result = torch.compile(lambda a: a.exp().sum(1), backend="cuesta", options=options)(a)
    torch.testing.assert_close(result, a.exp().sum(1))
    assert cuesta.records[-1].kernels == 2
    assert "on principle (extension 'apart')" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("chooser", "message"),
    [
        (lambda analysis, machine: 3, "must give a Schedule or None, not 3"),
        (lambda analysis, machine: 1 / 0, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_chooser_that_goes_wrong_is_named(chooser: Any, message: str) -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.sin, Extension("bad", schedules=[chooser]))(x)
    assert message in str(caught.value)
    assert "extension 'bad'" in str(caught.value)
    assert "without it: CUESTA_EXTENSIONS=-bad" in str(caught.value)


# -- where they come from ----------------------------------------------------------------------------------------------


class Point:
    """Of an installed package."""

    def __init__(self, value: object) -> None:
        self.loaded, self.value = value, "other:extension"

    def load(self) -> object:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


class Points(list[Point]):
    names = ("other", "broken")


def install(monkeypatch: pytest.MonkeyPatch, **values: object) -> list[str]:
    """Makes extensions installed; gives the names that are looked for."""
    asked: list[str] = []
    real = importlib.metadata.entry_points

    def entry_points(*, group: str, name: str | None = None) -> Any:
        if group != "cuesta.extensions":  # Dynamo looks for its backends, once in a process.
            return real(group=group)
        asked.append(name or "*")
        return Points([Point(values[name])] if name in values else [])

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    return asked


def test_an_installed_extension_is_loaded_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = install(monkeypatch, other=MINE)
    torch.testing.assert_close(compiled(i0)(x), i0(x))
    assert not asked
    options: dict[str, Any] = {"extensions": ["other"]}
    torch.testing.assert_close(torch.compile(i0, backend="cuesta", options=options)(x), SQUARES)
    monkeypatch.setenv("CUESTA_EXTENSIONS", "other")
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(i0)(x), SQUARES)
    monkeypatch.setenv("CUESTA_EXTENSIONS", "other, -mine")
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(i0)(x), i0(x))


def test_installed_extensions_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, broken=ImportError("no module"), number=3)
    for name, message in (
        ("oter", "no extension is installed as 'oter' .*, did you mean other"),
        ("broken", r"'broken' \(other:extension\) cannot be loaded: ImportError: no module"),
        ("number", "installed as 'number', is a int and no Extension"),
    ):
        with pytest.raises(CuestaError, match=message), cuesta.extended(name):
            pass


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "is no Python file that can be read"),
        ("3", "defines no Extension at its top level"),
        ("import nothing_of_the_kind", "cannot be loaded: ModuleNotFoundError"),
        ("from cuesta.extend import Extension\nmine = Extension('a b')", "mine.py:2  extension 'a b': a name is of"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    status, _, err = run_captured(["--load", str(path), "--list-stages"])
    assert status == 2
    assert message in err
    assert str(path) in err


def test_options_take_extensions_only() -> None:
    for wrong in (MINE, "mine", [3]):
        with pytest.raises(
            OptionError, match="'extensions' must be a list of extensions, or of names of installed ones"
        ):
            Options.parse(None, {"extensions": wrong})


# -- rules -------------------------------------------------------------------------------------------------------------


class SinToCos(RewritePattern):
    """sin x -> cos x, which is not so."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.TableOp, rewriter: PatternRewriter, /) -> None:
        if op.row.name == "sin":
            rewriter.replace(op, elem.make("cos", op.operands[0]))


class CosToSin(RewritePattern):
    """cos x -> sin x, and back again."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.TableOp, rewriter: PatternRewriter, /) -> None:
        if op.row.name == "cos":
            rewriter.replace(op, elem.make("sin", op.operands[0]))


class Raising(RewritePattern):
    """Nothing good."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.TableOp, rewriter: PatternRewriter, /) -> None:
        raise LookupError("no such thing")


class Breaking(RewritePattern):
    """An op whose type is not that of its operands."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.TableOp, rewriter: PatternRewriter, /) -> None:
        if op.row.name == "sin":
            wrong = elem.OPS["cos"].create(operands=[op.operands[0]], result_types=[f64])
            rewriter.replace(op, [wrong, elem.ConvertOp.build(wrong.result, f32)])


def test_a_rule_fires() -> None:
    mine = Extension("mine", rules=[SinToCos()])
    torch.testing.assert_close(compiled(torch.sin, mine)(x), x.cos())


def test_a_law_may_speak_of_a_scalar_op_of_the_extension(tmp_path: Path) -> None:
    a, b, c = variables("a", "b", "c")
    law = Law("contract", a * b + c, apply("fma", a, b, c), kinds="f", exact=False)
    options: dict[str, Any] = {"extensions": [Extension("mine", elem=[ROW], rules=[law])], "dump": str(tmp_path)}
    p, q, r = torch.randn(3, 40)
    result = torch.compile(lambda p, q, r: p * q + r, backend="cuesta", options=options)(p, q, r)
    torch.testing.assert_close(result, p * q + r)
    (folder,) = tmp_path.iterdir()
    text = next(folder.glob("*_canonicalize.mlir")).read_text()
    assert "elem.fma %" in text
    assert "elem.mul" not in text


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([SinToCos(), CosToSin()], "rewriting does not end"),
        ([Raising()], "raised LookupError: no such thing, at"),
        ([Breaking()], "elem.cos on f32 gives f32, not f64"),
    ],
)
def test_a_rule_that_goes_wrong_is_named(rules: list[RewritePattern], message: str) -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.sin, Extension("bad", rules=rules))(x)
    text = str(caught.value)
    assert message in text
    assert "'bad'" in text
    assert __file__ in text
    assert "stage: canonicalize" in text
    assert "without it: CUESTA_EXTENSIONS=-bad" in text


def test_a_schedule_without_meaning_is_no_traceback() -> None:
    def chooser(analysis: Any, machine: Any) -> Schedule:
        return Schedule(parallel=[ParallelAxis(7)], order=[9], lanes=3)

    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(torch.sin, Extension("bad", schedules=[chooser]))(x)
    assert "CuestaError" in str(caught.value)
    assert "schedules of 'bad'" in str(caught.value)
    assert "without it: CUESTA_EXTENSIONS=-bad" in str(caught.value)
