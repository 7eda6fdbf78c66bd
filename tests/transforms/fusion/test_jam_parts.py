"""Parts of concatenations at one point: what is left of programs whose gradients are concatenations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from xdsl.dialects.builtin import ModuleOp

from benchmarks.on_cuda import on_cuda
from cuesta.context import make_context
from cuesta.dialects import loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.loops.surgery import loads_of, stores_of
from cuesta.lowering.capture.decompositions import decomposition_table
from cuesta.lowering.capture.fx_to_aten import import_graph
from cuesta.pipeline import STAGES, run_pipeline
from cuesta.targets.reference import check_equivalent
from cuesta.targets.reference import run as run_reference
from cuesta.transforms.fusion.jam import Parts, jam, parts_of
from tests.support.text import parse
from tests.support.triton_interpreter import run as interpreted

Function = Callable[..., Tensor]


def gated(function: Function, x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * function(b)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """A rotary embedding: halves of heads change places, and one of them its sign."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def interleaved(x: Tensor) -> Tensor:
    return functional.silu(x[..., ::2]) * (x[..., 1::2] + 1)


def in_thirds(x: Tensor) -> Tensor:
    a, b, c = x.chunk(3, -1)
    return torch.tanh(a) * torch.sigmoid(b) + c


PROGRAMS: dict[str, tuple[Function, list[Tensor]]] = {
    "glu": (lambda x: gated(torch.sigmoid, x), [torch.randn(64, 768)]),
    "glu of rows": (lambda x: gated(torch.sigmoid, x, 0), [torch.randn(64, 768)]),
    "geglu": (lambda x: gated(functional.gelu, x), [torch.randn(64, 768)]),
    "swiglu": (lambda x: gated(functional.silu, x, 1), [torch.randn(16, 64, 49)]),
    "mish": (lambda x: gated(functional.mish, x), [torch.randn(64, 768)]),
    "interleaved": (interleaved, [torch.randn(64, 768)]),
    "thirds": (in_thirds, [torch.randn(64, 768)]),
    "rotary": (rotated, [torch.randn(2, 8, 64, 64), torch.randn(64, 64), torch.randn(64, 64)]),
}


def gradient(function: Function, inputs: list[Tensor]) -> tuple[ModuleOp, list[Tensor]]:
    """The program of the gradient of the first input, and inputs of it."""

    def of_first(tangent: Tensor, x: Tensor, *rest: Tensor) -> Tensor:
        return torch.autograd.grad(function(x, *rest), x, tangent)[0]

    given = [torch.randn_like(function(*inputs)), inputs[0].requires_grad_(), *inputs[1:]]
    traced = make_fx(of_first, tracing_mode="fake", decomposition_table=decomposition_table())(*given)
    traced.graph.eliminate_dead_code()
    return import_graph(traced).module, [one.detach() for one in given]


def fused(module: ModuleOp) -> list[loops.NestOp]:
    run_pipeline(make_context(), module, STAGES[: [stage.label for stage in STAGES].index("dce-2") + 1])
    return [op for op in entry_block(module).ops if isinstance(op, loops.NestOp)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_gradient_is_one_nest_that_reads_everything_once(name: str, device: str) -> None:
    module, inputs = gradient(*PROGRAMS[name])
    if device == "cuda":
        module = on_cuda(module)
    (nest,) = fused(module)
    read = [(load.source, load.map, *load.indices) for load in loads_of(nest)]
    assert len(read) == len(set(read)), "no element is read twice"
    assert len(stores_of(nest)) == (3 if name == "thirds" else 2)
    if device == "cpu":
        before, _ = gradient(*PROGRAMS[name])
        check_equivalent(before, module, inputs, exact=False, pass_name="fusion")


def test_gates_and_what_is_kept_of_them_are_one_nest() -> None:
    """The gradients of a recurrent cell: three gates side by side, twice, and the state by itself."""

    def cell(gates: Tensor, hidden: Tensor, state: Tensor) -> Tensor:
        (r, z, n), (a, b, c) = gates.chunk(3, -1), hidden.chunk(3, -1)
        z = (z + b).sigmoid()
        return z * state + (1 - z) * (n + (r + a).sigmoid() * c).tanh()

    def gradients(tangent: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(cell(*inputs), inputs, tangent)

    given = [torch.randn(64, size) for size in (256, 768, 768, 256)]
    leaves = [given[0], *(one.requires_grad_() for one in given[1:])]
    traced = make_fx(gradients, tracing_mode="fake", decomposition_table=decomposition_table())(*leaves)
    traced.graph.eliminate_dead_code()
    for on_gpu in (False, True):
        module = import_graph(traced).module
        module = on_cuda(module) if on_gpu else module
        (nest,) = fused(module)
        assert len(nest.results) == 3 and len(stores_of(nest)) == 7


@pytest.mark.parametrize("name", ["glu", "swiglu", "interleaved", "rotary"])
def test_kernels_of_triton_mean_the_same(name: str) -> None:
    module, inputs = gradient(*PROGRAMS[name])
    found = interpreted(on_cuda(module), inputs)
    torch.testing.assert_close(found, list(run_reference(module, inputs)), rtol=1e-5, atol=1e-5)


def test_forms_that_are_alike_are_tried_once() -> None:
    """Halves decide all that quarters do; of twelve, what is cut at three and nine needs quarters."""

    def of(*cuts: int) -> list[tuple[int, int, bool]]:
        masks = "\n".join(
            f"""%c{k} = elem.constant {cut} : i64
            %m{k} = elem.lt %n, %c{k} : i64
            %v{k + 1} = elem.select %m{k}, %a, %v{k} : f32"""
            for k, cut in enumerate(cuts)
        )
        nest = entry_block(
            parse(f"""
            func.func @main(%x : tensor<12xf32>) -> tensor<12xf32> {{
              %y = loops.nest (%i : 12) outs(%o : tensor<12xf32>) {{
                %a = loops.load %x[%i] : tensor<12xf32>
                %v0 = elem.neg %a : f32
                %n = loops.index [%i] : i64
                {masks}
                loops.store %v{len(cuts)}, %o[%i] : tensor<12xf32>
              }}
              func.return %y : tensor<12xf32>
            }}""")
        ).first_op
        assert isinstance(nest, loops.NestOp)
        return [(parts.axis, parts.count, parts.in_turns) for parts in parts_of(nest)]

    assert of(6) == [(0, 2, False)]
    assert of(4, 8) == [(0, 3, False)]
    assert of(3, 6, 9) == [(0, 2, False), (0, 4, False)]
    assert of(5) == []
    assert of() == []


@pytest.mark.parametrize(("count", "in_turns"), [(2, False), (2, True), (3, False), (3, True)])
def test_every_point_runs_once(count: int, in_turns: bool) -> None:
    """Whatever masks do not decide stays as it is."""
    mask = "%i floordiv 3" if in_turns else "%i mod 4"
    text = f"""
    func.func @main(%x : tensor<12x5xf32>) -> tensor<12x5xf32> {{
      %y = loops.nest (%i : 12, %j : 5) outs(%o : tensor<12x5xf32>) {{
        %n = loops.index [{mask}] : i64
        %two = elem.constant 2 : i64
        %zero = elem.constant 0.0 : f32
        %m = elem.lt %n, %two : i64
        %a = loops.load %x[11 - %i, %j] if %m else %zero : tensor<12x5xf32>
        %b = loops.load %x[%i, %j] : tensor<12x5xf32>
        %c = elem.sub %b, %a : f32
        loops.store %c, %o[%i, %j] : tensor<12x5xf32>
      }}
      func.return %y : tensor<12x5xf32>
    }}"""
    before, after = parse(text), parse(text)
    nest = entry_block(after).first_op
    assert isinstance(nest, loops.NestOp)
    made = jam(nest, Parts(0, count, in_turns)).nest
    entry_block(after).insert_op_before(made, nest)
    nest.results[0].replace_all_uses_with(made.results[0])
    nest.detach()
    nest.erase()
    assert len(stores_of(made)) == count and made.sizes == (12 // count, 5)
    check_equivalent(before, after, [torch.randn(12, 5)], exact=True, pass_name="jam")
