"""`cuesta.lower`: programs between stages, which print, are edited, run and go on, and never change."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from xdsl.utils.exceptions import ParseError

import cuesta
from cuesta.dialects.aten import AtenOp
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.locations import format_location, origin_of
from cuesta.options import OptionError
from cuesta.programs.capturing import Lowered
from cuesta.programs.stages import LEVELS, Program, StageError

WEIGHT = torch.linspace(-1, 1, 32).reshape(4, 8)


def layer(bias: torch.Tensor, x: torch.Tensor, scale: float) -> torch.Tensor:
    y = x @ WEIGHT
    return torch.softmax(y * scale + bias, dim=-1)


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, torch.Tensor, float]:
    return torch.linspace(0, 1, 8), torch.linspace(-2, 2, 12).reshape(3, 4), 2.0


@pytest.fixture(scope="module")
def lowered(inputs: tuple[torch.Tensor, torch.Tensor, float]) -> Lowered:
    return cuesta.lower(layer, *inputs)


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_runs_and_compiles(lowered: Lowered, inputs: tuple[object, ...], level: str) -> None:
    program = getattr(lowered, level)
    assert program.level == level
    other = torch.linspace(1, 0, 8), torch.ones(3, 4), 2.0
    for given in (inputs, other):
        expected = layer(*given)  # type: ignore[arg-type]
        for results in (program.run(*given), program.compile()(*given)):
            torch.testing.assert_close(results[0], expected)
    torch.testing.assert_close(program.run()[0], layer(*inputs))  # type: ignore[arg-type]
    assert program.run(*inputs, precise=True)[0].dtype is torch.float64


def test_what_is_seen_of_a_program(lowered: Lowered) -> None:
    aten = lowered.aten
    assert (aten.stage, aten.level) == ("import", "aten")
    assert str(aten).splitlines()[0].startswith(f"// cuesta {cuesta.__version__} · after import · 0 of ")
    assert "aten._softmax.default" in aten.text and str(lowered) == str(aten)
    assert (
        aten.remaining[:3] == ("accumulate-products", "widen-products", "aten-to-loops") and "cse-2" in aten.remaining
    )
    assert aten.next().stage == "accumulate-products"
    fused = lowered.until("fuse-nests")
    assert (fused.stage, fused.level) == ("fuse-nests", "loops")
    assert fused.remaining == aten.remaining[aten.remaining.index("fuse-nests") + 1 :]
    assert fused.loops is fused and fused.kernel.text == lowered.kernel.text
    assert lowered.host.stage == lowered.aten.remaining[-1]
    assert repr(fused) == f"<a program after fuse-nests, with {len(fused.remaining)} stages before it>"
    softmax = next(op for op in aten.module.walk() if isinstance(op, AtenOp) and "softmax" in op.name)
    assert format_location(softmax.location).startswith(f"{__file__}:")


def test_generated_texts(lowered: Lowered) -> None:
    source = lowered.source
    assert "def call(args)" in source.wrapper and "define" in source.llvm and not source.triton
    assert "=== wrapper.py\n" in str(source) and lowered.kernel.source.wrapper == source.wrapper


def test_stages_run_when_somebody_looks(lowered: Lowered, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    original = Program._run_stages
    monkeypatch.setattr(
        Program, "_run_stages", lambda self, stages: (ran.append(self.stage), original(self, stages))[1]
    )
    program = lowered.until("dce").until("fuse-nests").next()
    assert ran == []
    assert "loops.nest" in program.text
    assert ran == ["fuse-nests", "dce", "import"] and program.text and len(ran) == 3


def test_editing_changes_no_other_program(lowered: Lowered, inputs: tuple[object, ...]) -> None:
    fused = lowered.until("fuse-nests")
    before = fused.text
    edited = fused.edit("loops.reduce maximum", "loops.reduce minimum")
    module = edited.module
    next(op for op in module.walk() if op.name == "loops.nest").detach()
    assert fused.text == before and "minimum" in edited.text and edited.remaining == fused.remaining
    twice = edited.edit("loops.reduce minimum", "loops.reduce maximum")
    torch.testing.assert_close(twice.compile()(*inputs)[0], layer(*inputs))  # type: ignore[arg-type]
    assert "loops.nest" in edited.text


def test_an_edited_op_still_comes_from_the_model(lowered: Lowered) -> None:
    edited = lowered.aten.edit("aten._softmax.default(%add, -1, false)", "aten._softmax.default(%add, 0, false)")
    softmax = next(op for op in edited.edit("%add", "%sum", count=2).module.walk() if "softmax" in op.name)
    origin = origin_of(softmax.location)
    assert format_location(origin).startswith(f"{__file__}:")
    assert '"<import, edited>":' in str(softmax.location)


def test_a_module_from_builders(lowered: Lowered, inputs: tuple[object, ...]) -> None:
    module = lowered.aten.module
    softmax = next(op for op in module.walk() if op.name.startswith("aten._softmax"))
    softmax.results[0].name_hint = "weights"
    again = lowered.aten.with_module(module)
    assert "%weights" in again.text and again.remaining == lowered.aten.remaining
    torch.testing.assert_close(again.run(*inputs)[0], layer(*inputs))  # type: ignore[arg-type]


def test_a_text_without_its_first_lines_goes_on_from_its_level(lowered: Lowered) -> None:
    text = lowered.kernel.text.partition("builtin.module")[2]
    program = lowered.aten.with_text(f"builtin.module{text}")
    assert program.level == "kernel" and program.remaining == lowered.kernel.remaining


def test_programs_of_files(lowered: Lowered, tmp_path: Path) -> None:
    path = tmp_path / "fused.mlir"
    path.write_text(lowered.until("fuse-nests").text)
    program = Program.read(path)
    assert program.stage == "fuse-nests"
    assert program.host.text == lowered.host.text
    arguments = lowered.forward.arguments()
    torch.testing.assert_close(program.run(*arguments)[0], lowered.aten.run()[0])
    with pytest.raises(ParseError, match=r"<.*fused.mlir, edited>:\d+:\d+"):
        program.edit("loops.reduce sum", "loops.reduce some thing")


def test_a_backward_pass() -> None:
    model = torch.nn.Linear(4, 2)
    x = torch.ones(3, 4, requires_grad=True)
    lowered = cuesta.lower(model, x, training=True)
    assert len(lowered.graphs) == 2 and model.weight.grad is None and x.grad is None
    gradients = [one for one in lowered.backward.run() if one is not None]
    assert any(one.shape == (2, 4) and torch.allclose(one, torch.full((2, 4), 3.0)) for one in gradients)
    torch.testing.assert_close(lowered.forward.run(torch.zeros(3, 4))[0], model.bias.expand(3, 2))


def test_one_function_many_times(inputs: tuple[torch.Tensor, ...]) -> None:
    """Dynamo gives up after eight compilations of one function."""
    assert len({cuesta.lower(layer, *inputs).aten.text for _ in range(10)}) == 1


def test_inputs_that_are_no_tensors() -> None:
    lowered = cuesta.lower(lambda x, y, n: x * n if y is None else x, torch.ones(2), None, 3)
    assert lowered.loops.run(torch.ones(2) * 2, None, 3)[0].tolist() == [6.0, 6.0]
    with pytest.raises(TypeError, match="input 1 was None when the function was captured, and is a tensor"):
        lowered.loops.run(torch.ones(2), torch.ones(2), 3)


def test_inputs_that_are_written_to() -> None:
    def counts(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.add_(1)
        return x * n

    n = torch.ones(2)
    lowered = cuesta.lower(counts, torch.ones(2), n)
    assert n[0] == 2
    results = [lowered.host.run()[0], lowered.host.run(torch.ones(2), n)[0]]
    assert [one[0].item() for one in results] == [2, 3] and n[0] == 2  # as it was called, and on what is there now


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("fuse-nets", "no stage 'fuse-nets', did you mean 'fuse-nests'"),
        ("aten-to-loops", "the stage 'aten-to-loops' is past: the program stands after fuse-nests"),
        ("tune-kernels", "the stage 'tune-kernels' is not among those of this program"),
        ("nothing", "no stage 'nothing'; left are: nest-row-products, "),
    ],
)
def test_stages_that_a_program_cannot_be_taken_to(lowered: Lowered, stage: str, message: str) -> None:
    with pytest.raises(StageError, match=message):
        lowered.until("fuse-nests").until(stage)


def test_bad_use(lowered: Lowered) -> None:
    with pytest.raises(StageError, match=r"no 'aten' of a program at 'loops', after aten-to-loops: that level is past"):
        _ = lowered.loops.aten
    with pytest.raises(StageError, match="no stage is left after"):
        lowered.host.next()
    with pytest.raises(StageError, match=r"stands in the text 2 times, not 1"):
        lowered.aten.edit("tensor<4x8xf32>", "tensor<4x9xf32>")
    with pytest.raises(StageError, match=r"0 times, not 1: .*; there is: .*aten._softmax.default\("):
        lowered.aten.edit("aten._softmax.defalt(%add, -1, false)", "")
    with pytest.raises(TypeError, match="the function was captured with 3 tensors and numbers, got 1"):
        lowered.aten.run(torch.ones(3))
    with pytest.raises(TypeError, match=r"input 2 was 2.0 when the function was captured, and is 3.0: lower it again"):
        lowered.aten.run(torch.ones(8), torch.ones(3, 4), 3.0)
    with pytest.raises(
        TypeError, match="input 0 was a tensor when the function was captured, and is 1: lower it again"
    ):
        lowered.aten.run(1, torch.ones(3, 4), 2.0)
    with pytest.raises(StageError, match="there is no backward pass"):
        _ = lowered.backward
    with pytest.raises(CuestaError, match=r"<import, edited>:\d+  aten.add.Tensor: "):
        lowered.aten.edit("aten.mm.default(", "aten.add.Tensor(")


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (lambda x: x + 1 if x.sum() > 0 else x, {}, StageError, "is no single graph"),
        (lambda x: 3, {}, StageError, "nothing was captured"),
        (lambda x: x + 1, {"dmup": "x"}, OptionError, "did you mean 'dump'"),
        (lambda x: x.undefined(), {}, StageError, "no single graph: Observed exception: .*'undefined'"),
    ],
)
def test_functions_that_cannot_be_lowered(
    function: object, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        cuesta.lower(function, torch.ones(2), options=options)  # type: ignore[arg-type]


def test_options_choose_the_stages() -> None:
    lowered = cuesta.lower(torch.exp, torch.ones(2, dtype=torch.bfloat16), options={"emulate_precision_casts": True})
    assert "elide-roundings" not in lowered.aten.remaining
    assert cuesta.lower(torch.exp, torch.ones(2), options={"pipeline": "aten-to-loops,cse"}).aten.remaining == (
        "aten-to-loops",
        "cse",
    )
