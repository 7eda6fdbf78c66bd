from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, UnrealizedConversionCastOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.universe import XDSL_UNIVERSE, Universe

import cuesta.pipeline
from cuesta.context import DIALECTS, make_context
from cuesta.dialects.core.contracts import Contract, nowhere
from cuesta.dialects.core.diagnostics import CuestaError, fail
from cuesta.dialects.core.locations import CuestaParser, print_text
from cuesta.passes import ALL_PASSES, class_name_of, parse_passes
from cuesta.pipeline import Stage, run_pipeline
from cuesta.universe import CUESTA, name_in_xdsl_opt

TEXT = """\
func.func @main(%a: i32) -> i32 {
  %b = builtin.unrealized_conversion_cast %a : i32 to i32 loc("model.py":42:0)
  func.return %b : i32
}
"""


def parse(text: str = TEXT) -> tuple[Context, ModuleOp]:
    context = make_context()
    return context, CuestaParser(context, text, "program.mlir").parse_module()


@dataclass(frozen=True)
class MarkPass(ModulePass):
    """Sets an attribute on the module."""

    name = "mark"
    text: str = "here"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["mark"] = StringAttr(self.text)


@dataclass(frozen=True)
class RefusePass(ModulePass):
    """Changes the program, then refuses the cast."""

    name = "refuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["half-done"] = StringAttr("yes")
        fail(next(inner for inner in op.walk() if isinstance(inner, UnrealizedConversionCastOp)), "no casts, please")


AVAILABLE = {"mark": lambda: MarkPass, "refuse": lambda: RefusePass}


@pytest.fixture
def own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuesta.pipeline, "parse_passes", lambda specification: parse_passes(specification, AVAILABLE))


@pytest.mark.parametrize("name", sorted(ALL_PASSES))
def test_file_name_class_name_and_pass_name_agree(name: str) -> None:
    pass_type = ALL_PASSES[name]()
    assert pass_type.name == name
    assert pass_type.__name__ == class_name_of(name)
    assert pass_type.__doc__


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_every_dialect_loads_under_its_name(name: str) -> None:
    context = make_context()
    context.load_registered_dialect(name)
    assert name in {dialect.name for dialect in context.loaded_dialects}


def test_specification_with_options() -> None:
    assert parse_passes("mark,mark{text=there}", AVAILABLE) == (MarkPass(), MarkPass("there"))
    assert parse_passes("  ", AVAILABLE) == ()


def test_unknown_names_say_the_valid_ones() -> None:
    with pytest.raises(CuestaError, match=r"did you mean mark.*the passes are: mark, refuse"):
        parse_passes("marks", AVAILABLE)
    with pytest.raises(CuestaError, match=r"its options are: text: 'str' = here"):
        parse_passes("mark{txt=a}", AVAILABLE)


@pytest.mark.usefixtures("own_passes")
def test_pipeline_runs_stages_in_order_and_reports_each() -> None:
    context, module = parse()
    seen: list[str] = []
    stages = [Stage("mark", "first"), Stage("mark{text=there}", "second")]
    run_pipeline(context, module, stages, verify_each=True, after_stage=lambda name, _, seconds: seen.append(name))
    assert seen == ["mark", "mark{text=there}"]
    assert module.attributes["mark"] == StringAttr("there")


@pytest.mark.usefixtures("own_passes")
def test_a_failure_says_stage_and_the_command_that_repeats_it() -> None:
    context, module = parse()
    kept: list[str] = []

    def keep(before: ModuleOp, name: str) -> str:
        kept.append(print_text(before))
        return f"/tmp/0000 {name}.mlir"

    with pytest.raises(CuestaError) as raised:
        run_pipeline(context, module, [Stage("mark", ""), Stage("refuse", "")], keep_input=keep)
    assert str(raised.value) == (
        "program.mlir:2  builtin.unrealized_conversion_cast: no casts, please\n"
        "  from: model.py:42\n"
        "  got: i32    stage: refuse\n"
        "  repeat: cuesta-opt '/tmp/0000 refuse.mlir' -p refuse"
    )
    # What is kept is the program as the stage got it, not as it left it half done.
    assert len(kept) == 1
    assert "mark" in kept[0]
    assert "half-done" not in kept[0]


@pytest.mark.usefixtures("own_passes")
def test_a_broken_contract_names_the_stage_before_it() -> None:
    context, module = parse()
    contract = Contract("kernel", (nowhere(UnrealizedConversionCastOp, because="a cast is left"),))
    with pytest.raises(CuestaError, match=r"a cast is left \(the contract of kernel\)[\s\S]*stage: mark"):
        run_pipeline(context, module, [Stage("mark", "", begins=contract)])


def test_stock_xdsl_opt_finds_our_dialects_and_passes() -> None:
    # What xDSL itself does with every universe: two passes or dialects of one name are an error.
    for kind in ("all_passes", "all_dialects"):
        assert not set(getattr(CUESTA, kind)) & set(getattr(XDSL_UNIVERSE, kind))
    assert set(DIALECTS) == set(CUESTA.all_dialects)
    assert set(map(name_in_xdsl_opt, ALL_PASSES)) == set(CUESTA.all_passes)
    assert name_in_xdsl_opt("cse") == "cuesta-cse"
    assert name_in_xdsl_opt("eliminate-views") == "eliminate-views"
    if not any(entry.name == "cuesta" for entry in entry_points(group="xdsl.universe")):
        pytest.skip("cuesta is on the path but not installed, so xDSL does not find it")
    assert set(CUESTA.all_passes) <= set(Universe.get_multiverse().all_passes)


@pytest.mark.parametrize("name", sorted(CUESTA.all_passes))
def test_stock_xdsl_makes_each_pass_by_the_name_it_has_there(name: str) -> None:
    (made,) = PassPipeline.parse_spec(CUESTA.all_passes, name).passes
    assert isinstance(made, ModulePass)
