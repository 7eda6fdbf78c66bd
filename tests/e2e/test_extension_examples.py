"""`examples/extensions`: each is small, imports nothing private, does what it says, and leaves alone what it should."""

from __future__ import annotations

import ast
import importlib
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
import cuesta.extend
from cuesta.opt import run_captured
from tests.test_architecture import imported_modules

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "extensions"
EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")
MOST_LINES, MOST_LINES_OF = 60, {"rms_norm_int8": 40, "c_target": 200}
"""Without blank lines and the part that shows the example at work."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    cuesta.clear_records()
    torch.manual_seed(0)


def example(name: str) -> ModuleType:
    return importlib.import_module(f"examples.extensions.{name}")


def compiled(module: ModuleType, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    chosen: dict[str, Any] = {"extensions": [module.extension], **options}
    return torch.compile(function, backend="cuesta", options=chosen)


def text_after(folder: Path, stage: str) -> str:
    """The text of a level, of the only graph in a dump."""
    (dump,) = folder.iterdir()
    return next(dump.glob(f"*_{stage}.mlir")).read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_small(path: Path) -> None:
    own = path.read_text().partition('if __name__ == "__main__":')[0]
    lines = [line for line in own.splitlines() if line.strip()]
    assert len(lines) <= MOST_LINES_OF.get(path.stem, MOST_LINES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_imports_public_names_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    public = {"cuesta": cuesta.__all__, "cuesta.extend": cuesta.extend.__all__}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in imported_modules(node):
                assert not name.startswith("cuesta.") or name == "cuesta.extend", name
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "cuesta":
            assert {alias.name for alias in node.names} <= set(public.get(str(node.module), [])), ast.unparse(node)
        if isinstance(node, ast.Attribute | ast.alias):
            name = node.attr if isinstance(node, ast.Attribute) else node.name.rpartition(".")[2]
            assert not name.startswith("_") or name.startswith("__"), f"line {node.lineno}: {name} is private"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_script_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an operator is registered once more
        runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_every_public_name_is_there() -> None:
    assert sorted(cuesta.extend.__all__, key=str) == sorted(set(cuesta.extend.__all__), key=str)
    assert all(hasattr(cuesta.extend, name) for name in cuesta.extend.__all__)


# -- each of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 2**-7)])
def test_lower_i0(dtype: torch.dtype, error: float) -> None:
    module, x = example("lower_i0"), torch.linspace(-12, 12, 1001).to(dtype)
    function = compiled(module, lambda x: torch.special.i0(x) + 1)
    torch.testing.assert_close(function(x), torch.special.i0(x) + 1, rtol=error, atol=0)
    assert (cuesta.records[-1].kernels, dict(cuesta.records[-1].fallbacks)) == (1, {})


def test_lower_i0_declines_f64() -> None:
    module, x = example("lower_i0"), torch.linspace(-12, 12, 101, dtype=torch.float64)
    torch.testing.assert_close(compiled(module, torch.special.i0)(x), torch.special.i0(x), rtol=0, atol=0)
    assert cuesta.records[-1].fallbacks == {"aten.i0.default": 1}


def test_library_op(tmp_path: Path) -> None:
    module, x = example("library_op"), torch.randn(5, 7)

    def model(x: Tensor) -> Tensor:
        return module.softcap(x * 3, 2.0) + 1

    torch.testing.assert_close(compiled(module, model, dump=str(tmp_path))(x), model(x))
    assert cuesta.records[-1].kernels == 1
    assert not cuesta.records[-1].fallbacks
    assert "softcap" in text_after(tmp_path, "accumulate-products")
    assert "elem.tanh" in text_after(tmp_path, "fuse-nests")


def test_library_op_without_its_lowering_stays_a_call() -> None:
    module, x = example("library_op"), torch.randn(5, 7)
    function = torch.compile(lambda x: module.softcap(x * 3, 2.0) + 1, backend="cuesta")
    torch.testing.assert_close(function(x), module.softcap(x * 3, 2.0) + 1)
    assert cuesta.records[-1].fallbacks == {"examples::softcap.default": 1}


def test_algebraic_law(tmp_path: Path) -> None:
    module = example("algebraic_law")
    assert cuesta.extend.prove(module.scale_once, effort=0.001).tried
    a, b = torch.randn(2, 5, 33)

    def model(a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a * 0.7, b * 0.7)

    assert torch.equal(compiled(module, model, dump=str(tmp_path))(a, b), model(a, b))
    assert text_after(tmp_path, "canonicalize").count("elem.mul") == 1


@pytest.mark.parametrize("factors", [(-2.0, -2.0), (2.0, 3.0)])
def test_algebraic_law_has_a_condition(tmp_path: Path, factors: tuple[float, float]) -> None:
    module = example("algebraic_law")
    a, b = torch.randn(2, 20)

    def model(a: Tensor, b: Tensor) -> Tensor:
        return torch.maximum(a * factors[0], b * factors[1])

    assert torch.equal(compiled(module, model, dump=str(tmp_path))(a, b), model(a, b))
    assert text_after(tmp_path, "canonicalize").count("elem.mul") == 2


@pytest.mark.parametrize("value", [1, 0.5])
def test_elem_row(tmp_path: Path, value: float) -> None:
    module = example("elem_row")
    x, a, b = torch.randn(3, 5, 33)

    def model(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return torch.addcmul(x, a, b, value=value)

    torch.testing.assert_close(compiled(module, model, dump=str(tmp_path))(x, a, b), model(x, a, b))
    assert "elem.fma %" in text_after(tmp_path, "fuse-nests")


def test_elem_row_is_not_for_integers() -> None:
    module = example("elem_row")
    x, a, b = torch.randint(-9, 9, (3, 20))
    torch.testing.assert_close(compiled(module, torch.addcmul)(x, a, b), torch.addcmul(x, a, b))


def test_loops_pass(tmp_path: Path) -> None:
    module, x = example("loops_pass"), torch.linspace(-1, 1, 21)
    expected = torch.where(x.sin().abs() < 0.2, 0.0, x.sin())
    torch.testing.assert_close(compiled(module, torch.sin, dump=str(tmp_path))(x), expected)
    assert "elem.select" not in text_after(tmp_path, "fuse-nests")
    assert "elem.select" in text_after(tmp_path, "prune-small")


def test_loops_pass_leaves_integers_alone(tmp_path: Path) -> None:
    module, x = example("loops_pass"), torch.arange(-3, 3)
    assert compiled(module, lambda x: x * 1 + 0, dump=str(tmp_path))(x).tolist() == x.tolist()
    assert "elem.select" not in text_after(tmp_path, "prune-small")


def test_loops_pass_on_the_command_line(tmp_path: Path) -> None:
    program = tmp_path / "program.mlir"
    program.write_text(
        """func.func @main(%x : tensor<4xf32>) -> tensor<4xf32> {
  %y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
    %a = loops.load %x[%i] : tensor<4xf32>
    loops.store %a, %o[%i] : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
"""
    )
    load = ["--load", str(FOLDER / "loops_pass.py")]
    status, out, err = run_captured([str(program), *load, "-p", "prune-small{below=0.5}"])
    assert (status, err) == (0, "")
    assert "elem.constant 0.5 : f32" in out
    assert "prune-small" in run_captured([*load, "--list-passes"])[1]
    stages = run_captured([*load, "--list-stages"])[1].splitlines()
    position = next(k for k, line in enumerate(stages) if line.startswith("prune-small"))
    assert stages[position - 1].startswith("fuse-nests ")
    assert stages[position].endswith("(extension prune)")
    status, _, err = run_captured([str(program), "-p", "prune-small"])
    assert status == 2
    assert "there is no pass prune-small" in err


def test_fusion_rule(tmp_path: Path) -> None:
    module, x = example("fusion_rule"), torch.randn(300, 400)
    for got, expected in zip(compiled(module, module.model, dump=str(tmp_path))(x), module.model(x), strict=True):
        torch.testing.assert_close(got, expected)
    assert text_after(tmp_path, "fuse-nests").count("elem.exp") == 2
    assert cuesta.records[-1].kernels == 2


def test_fusion_rule_leaves_other_functions_alone(tmp_path: Path) -> None:
    module, x = example("fusion_rule"), torch.randn(300, 400)

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        weights = x.sin()
        return weights.sum(0), weights.amax(1)

    compiled(module, model, dump=str(tmp_path))(x)
    assert text_after(tmp_path, "fuse-nests").count("elem.sin") == 1


def test_rms_norm_int8(tmp_path: Path) -> None:
    module, x, weight = example("rms_norm_int8"), torch.randn(37, 129), torch.rand(129)

    def model(x: Tensor) -> tuple[Tensor, Tensor]:
        return module.rms_norm_int8(x, weight, 1e-6)

    quantised, scale = compiled(module, model, dump=str(tmp_path))(x)
    expected, expected_scale = model(x)
    torch.testing.assert_close(scale, expected_scale)
    off = (quantised.int() - expected.int()).abs()
    assert off.max() <= 1  # where y / scale is half a step from both
    assert (off > 0).float().mean() < 0.01
    assert (cuesta.records[-1].kernels, cuesta.records[-1].library_calls) == (1, 0)
    assert not cuesta.records[-1].fallbacks


def test_rms_norm_int8_of_no_rows() -> None:
    module, weight = example("rms_norm_int8"), torch.rand(8)
    quantised, scale = compiled(module, lambda x: module.rms_norm_int8(x, weight, 1e-6))(torch.empty(0, 8))
    assert (quantised.shape, scale.shape, quantised.dtype) == ((0, 8), (0,), torch.int8)


def test_algebraic_rule(tmp_path: Path) -> None:
    module, (a, b) = example("algebraic_rule"), torch.randn(2, 50)
    model = compiled(module, lambda a, b: a.exp() * b.exp(), dump=str(tmp_path))
    torch.testing.assert_close(model(a, b), a.exp() * b.exp())
    assert text_after(tmp_path, "hoist-invariants").count("elem.exp ") == 2
    assert text_after(tmp_path, "canonicalize").count("elem.exp ") == 1


def test_algebraic_rule_leaves_what_is_read_elsewhere(tmp_path: Path) -> None:
    """Near misses: another function, and exponentials that are needed anyway."""
    module, (a, b) = example("algebraic_rule"), torch.randn(2, 50)

    def model(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return a.exp() * b.sin(), a.exp() * b.exp(), a.exp(), b.exp()

    for got, expected in zip(compiled(module, model, dump=str(tmp_path))(a, b), model(a, b), strict=True):
        torch.testing.assert_close(got, expected)
    assert text_after(tmp_path, "cse-2" if list(tmp_path.rglob("*cse-2*")) else "canonicalize").count("elem.mul ") == 2


def test_text_rule(tmp_path: Path) -> None:
    module, x = example("text_rule"), torch.randn(50)
    model = compiled(module, lambda x: (x * 2).exp().log(), dump=str(tmp_path))
    torch.testing.assert_close(model(x), x * 2, rtol=0, atol=0)
    after = text_after(tmp_path, "canonicalize")
    assert "elem.log " not in after
    assert "elem.exp " not in after


def test_text_rule_leaves_other_logarithms(tmp_path: Path) -> None:
    module, x = example("text_rule"), torch.rand(50)
    compiled(module, lambda x: (x + 1).log().exp(), dump=str(tmp_path))(x)
    assert "elem.log " in text_after(tmp_path, "canonicalize")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds none"),
        ("pdl.pattern {", "cannot be read"),
        (
            "pdl.pattern @a : benefit(1) { %o = pdl.operation pdl.rewrite %o { pdl.erase %o } }",
            "an operation with a name",
        ),
    ],
)
def test_texts_that_are_no_rules(text: str, message: str) -> None:
    with pytest.raises(cuesta.extend.CuestaError, match=message):
        cuesta.extend.rules_of(text)


def test_schedule_chooser(tmp_path: Path) -> None:
    module, x = example("schedule_chooser"), torch.randn(64, 1000)
    torch.testing.assert_close(compiled(module, lambda x: x.sum(1), dump=str(tmp_path))(x), x.sum(1))
    assert "unroll = 8>" in text_after(tmp_path, "loops-to-kernel")


def test_schedule_chooser_leaves_other_kernels(tmp_path: Path) -> None:
    module, x = example("schedule_chooser"), torch.randn(64, 1000)
    torch.testing.assert_close(compiled(module, lambda x: x.amax(1), dump=str(tmp_path))(x), x.amax(1))
    assert "unroll = 8>" not in text_after(tmp_path, "loops-to-kernel")
