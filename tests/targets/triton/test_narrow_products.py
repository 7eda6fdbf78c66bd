"""Products of floats of 8 bits, and of what was only widened: on matrix units, with what surrounds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from cuesta.context import make_context
from cuesta.dialects import host, kernel
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.elem import scalar_of
from cuesta.dialects.layout import sizes_of, tensor_type_of
from cuesta.pipeline import STAGES, default_stages, remaining_stages, run_pipeline
from cuesta.testing import compare
from cuesta.transforms.products import product_plans
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.products import products_of, static
from tests.support import triton_interpreter
from tests.support.triton_interpreter import interpreted_cuda, run, to_host
from tests.support.triton_kernels import assert_compiles, texts_of

pytest.importorskip("triton")

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2
Function = Callable[..., Tensor]
scaled_mm: Any = torch.ops.aten._scaled_mm.default


def scaled(a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return functional.gelu(scaled_mm(a, b.t(), s, t, out_dtype=torch.bfloat16))


def listed(a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """As `torch.nn.functional.scaled_mm` calls it."""
    kind = [int(s.numel() > 1)]
    product = torch.ops.aten._scaled_mm_v2.default(a, b.t(), [s], kind, [0], [t], kind, [0], None, torch.bfloat16)
    return functional.gelu(product)


def with_bias(a: Tensor, b: Tensor, s: Tensor, t: Tensor, c: Tensor) -> Tensor:
    return functional.relu(scaled_mm(a, b.t(), s, t, bias=c, out_dtype=torch.bfloat16))


def wide(a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return scaled_mm(a, b.t(), s, t, out_dtype=torch.float32).sigmoid()


def given(a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """Rows are scaled, and made of 8 bits, for the product."""
    rows = (a / s).clamp(-448, 448).to(E4)
    return functional.silu(scaled_mm(rows, b.t(), s, t, out_dtype=torch.bfloat16))


def widened(a: Tensor, b: Tensor) -> Tensor:
    return a.float() @ b.float().t()


def half(a: Tensor, b: Tensor) -> Tensor:
    return a.to(torch.bfloat16) @ b.to(torch.bfloat16).t()


def batched(a: Tensor, b: Tensor) -> Tensor:
    return torch.bmm(a.float(), b.float())


def drawn(*shape: int, dtype: torch.dtype = torch.float32, size: float = 1.0) -> Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * size).to(dtype)


ONE, FEW = torch.tensor(0.25), torch.tensor([0.5])
OF_ROWS, OF_COLUMNS = drawn(48, 1).abs() + 0.1, drawn(1, 32).abs() + 0.1
A, B = drawn(48, 128, dtype=E4, size=2), drawn(32, 128, dtype=E4)

SCALED: dict[str, tuple[Function, list[Tensor], str]] = {
    "of the whole": (scaled, [A, B, ONE, FEW], "f8"),
    "of rows and columns": (scaled, [A, B, OF_ROWS, OF_COLUMNS], "f8"),
    "of lists": (listed, [A, B, FEW, FEW], "f8"),
    "of lists of rows and columns": (listed, [A, B, OF_ROWS, OF_COLUMNS], "f8"),
    "other types": (scaled, [A, drawn(32, 128, dtype=E5), ONE, ONE], "f8"),
    "in f32": (wide, [A, B, ONE, FEW], "f8"),
    "a bias": (with_bias, [A, B, ONE, ONE, drawn(32, dtype=torch.bfloat16)], "f8"),
    "made before": (given, [drawn(48, 128, size=3), B, ONE, ONE], "f8"),
    "odd rows": (scaled, [drawn(37, 128, dtype=E4), drawn(48, 128, dtype=E4), ONE, ONE], "f8"),
}
WIDENED: dict[str, tuple[Function, list[Tensor], str]] = {
    "of 8 bits": (widened, [A, B], "bf16"),
    "of 8 and 16 bits": (widened, [A, drawn(32, 128, dtype=torch.float16)], "f16"),
    "of 16 bits": (widened, [drawn(48, 128, dtype=torch.bfloat16), drawn(32, 128, dtype=torch.bfloat16)], "bf16"),
    "a batch": (batched, [drawn(3, 20, 64, dtype=torch.float16), drawn(3, 64, 24, dtype=torch.float16)], "f16"),
    "to 16 bits": (half, [A, B], "bf16"),
}
CASES = SCALED | WIDENED


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are one kernel with what is around them, whatever that is predicted to take."""
    monkeypatch.setattr(product_plans, "SURE", 0.0)


def truth_of(function: Function, inputs: Sequence[Tensor]) -> Tensor:
    """In f64, which no library multiplies floats of 8 bits in."""
    a, b, *rest = (one.double() for one in inputs)
    if function is given:
        a = (a / rest[0]).clamp(-448, 448).to(E4).double()
    if not rest:
        return a @ b if function is batched else a @ b.t()
    product = (a @ b.t()) * rest[0] * rest[1]
    if function is with_bias:
        return (product + rest[2]).relu()
    last = {scaled: functional.gelu, listed: functional.gelu, wide: torch.sigmoid, given: functional.silu}[function]
    return last(product)


def programs_of(function: Function, inputs: Sequence[Tensor]) -> ModuleOp:
    with interpreted_cuda(run_it=False) as programs:
        torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(*inputs)
    return programs[0]


def factors_of(program: ModuleOp) -> set[str]:
    """The types of the factors of all contractions."""
    found = [op for op in to_host(program).walk() if isinstance(op, kernel.ContractOp)]
    return {str(scalar_of(factor.type)) for op in found for factor in op.factors}


@contextmanager
def tf32(allowed: bool) -> Generator[None]:
    """Whether products of f32 may be rounded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_interpreter, "STAGES", default_stages(tf32=allowed))
        yield


@pytest.mark.parametrize(
    ("name", "allowed", "kind"),
    [
        ("of 8 bits", False, "bf16"),
        ("of 16 bits", False, "f32"),
        ("of 16 bits", True, "bf16"),
        ("a batch", False, "f32"),
    ],
)
def test_matrix_units_add_up_less_precisely_than_f32(name: str, allowed: bool, kind: str) -> None:
    """2048 points of 16 bits were off by 2.1e-6 on an H200, ten times as much as f32; of 8 bits by 3.8e-8. So factors
    of 16 bits are taken for the f32 that they became, in pieces, unless rounding is allowed.
    """
    function, inputs, _ = WIDENED[name]
    with tf32(allowed):
        program = to_host(programs_of(function, inputs))
    assert not [op for op in program.walk() if isinstance(op, host.ExternOp)]
    assert factors_of(program) == {kind}


@pytest.mark.slow  # the interpreter takes a second for a kernel
@pytest.mark.parametrize("name", CASES)
def test_it_is_one_kernel_as_near_to_the_truth_as_the_library(name: str) -> None:
    function, inputs, kind = CASES[name]
    try:
        theirs = function(*inputs)
    except (RuntimeError, NotImplementedError) as error:  # torch 2.11 on a CPU
        assert "only supports per-tensor scaling" in str(error) or "_scaled_mm_v2" in str(error)
        pytest.skip("there is nothing to compare with")
    with tf32(name in WIDENED), interpreted_cuda() as programs:
        ours = torch.compile(function, backend="cuesta", fullgraph=True, dynamic=False)(*inputs)
        (program,) = programs
        assert not [op for op in to_host(program).walk() if isinstance(op, host.ExternOp)]
        factors = factors_of(program)
    found = compare(name, ours, theirs, truth_of(function, inputs), factor=1.5, ulps=1.0)
    assert found.passes, str(found)
    assert len(factors) in (1, 2)
    assert all(one.startswith(kind) for one in factors)


@pytest.mark.parametrize("name", ["of the whole", "other types", "odd rows", "of 8 bits"])
def test_machine_code_for_hopper(name: str) -> None:
    function, inputs, _ = CASES[name]
    texts = texts_of(programs_of(function, inputs))
    assert_compiles(texts)
    if name in SCALED:
        assert "max_num_imprecise_acc=" in texts[0].source


def scaled_result(a: Tensor, b: Tensor, s: Tensor, t: Tensor) -> Tensor:
    return scaled_mm(a, b.t(), s, t, out_dtype=torch.bfloat16)


def computed_wide(a: Tensor, b: Tensor) -> Tensor:
    """What is scaled is no number of 8 bits any more."""
    return (a.float() * 1.1) @ b.float().t()


def of_two(a: Tensor, b: Tensor) -> Tensor:
    """No type of 16 bits has the numbers of both."""
    return a.float() @ b.float().t()


NEAR_MISSES: dict[str, tuple[Function, list[Tensor], set[str]]] = {
    "nothing around it": (scaled_result, [A, B, ONE, ONE], set()),
    "points that fill no step": (scaled, [drawn(48, 80, dtype=E4), drawn(32, 80, dtype=E4), ONE, ONE], set()),
    "numbers of 32 bits": (computed_wide, [A, B], {"f32"}),
    "bf16 and f16": (of_two, [drawn(48, 128, dtype=torch.bfloat16), drawn(32, 128, dtype=torch.float16)], {"f32"}),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    """No product of narrow factors: the library's, or one of f32."""
    function, inputs, kinds = NEAR_MISSES[name]
    assert factors_of(programs_of(function, inputs)) == kinds


@pytest.mark.slow
@pytest.mark.parametrize("points", [80, 40])
def test_a_last_step_of_fewer_points(points: int) -> None:
    """Beyond them factors are 0, which floats of 8 bits have, too."""
    inputs = [drawn(37, points, dtype=E4), drawn(24, points, dtype=E4), ONE, ONE]
    program = programs_of(scaled, inputs)
    stages = remaining_stages(program, STAGES)
    run_pipeline(make_context(), program, stages[: [stage.label for stage in stages].index("choose-products")])
    (product,) = products_of(entry_block(program), precision="")
    replace(product, fused_nest(product), {"rows": 16, "columns": 32, "depth": 32, "warps": 4, "stages": 2})
    assert_compiles(texts_of(program))
    a, b, s, t = inputs
    by_size = {math.prod(one.shape): one for one in (a, b, s)}
    (ours,) = run(
        program, [by_size[math.prod(static(sizes_of(tensor_type_of(one))))] for one in entry_block(program).args]
    )
    found = compare("a last step", ours, scaled(a, b, s, t), truth_of(scaled, inputs), factor=1.5, ulps=1.0)
    assert found.passes, str(found)
