"""`options={"frozen": True}`: what is computed of parameters alone is computed once, until somebody changes them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
import cuesta.frozen as marking
from cuesta.cuda_graphs import capturing
from cuesta.packages.graph import PackageError
from cuesta.programs.stages import Program
from cuesta.targets.cpu import facts
from cuesta.targets.host import kept
from cuesta.testing import compare
from tests.cuesta.cuda_graphs.test_capturing import FakeDevice

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """On whatever processor, as on one where our kernels are faster."""
    found = {"products": 1.4, "products_bf16": 1.1, "products_i8": 1.1}
    monkeypatch.setattr(facts, "facts_of_products", lambda: found)
    torch._dynamo.reset()
    cuesta.clear_records()
    torch.manual_seed(0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """An entry for every time that what may be kept was computed: whether it was kept."""
    found: list[bool] = []
    keep = kept.Kept.keep

    def counting(self: kept.Kept, key: Any, buffers: Any) -> Any:
        found.append(key is not None)
        return keep(self, key, buffers)

    monkeypatch.setattr(kept.Kept, "keep", counting)
    return found


def compiled_of(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    chosen: dict[str, Any] = {"cache": False, "frozen": True, **options}
    return torch.compile(function, backend="cuesta", fullgraph=True, options=chosen)


def check(eager: Callable[..., Tensor], inputs: list[Tensor], actual: Tensor) -> None:
    """Holds a result to that of eager, by float64: not to what another call would give."""
    truth = copy.deepcopy(eager).double() if isinstance(eager, nn.Module) else eager
    with torch.no_grad():
        found = compare("result", actual, eager(*inputs), truth(*(one.double() for one in inputs)))
    assert found.passes, found


class Dequantised(nn.Module):
    """A product with weights of int8, each row of which has a scale."""

    weight: Tensor
    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (256, 256), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(256) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.mm(x, (self.weight.to(x.dtype) * self.scale[:, None]).t())


def layer(dtype: torch.dtype = torch.float32) -> nn.Linear:
    return nn.Linear(256, 128).to(dtype).eval()


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, int], torch.dtype]] = {
    "f32": (layer, (64, 256), torch.float32),
    "f32, as many rows as a block": (layer, (8, 256), torch.float32),
    "bf16": (lambda: layer(torch.bfloat16), (16, 256), torch.bfloat16),
    "bf16, two": (
        lambda: nn.Sequential(layer(), nn.ReLU(), nn.Linear(128, 128)).bfloat16().eval(), (33, 256), torch.bfloat16
    ),
    "int8, scaled": (Dequantised, (300, 256), torch.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.covering
def test_it_is_computed_once(name: str, mode: Callable[[], Any], runs: list[bool]) -> None:
    make, sizes, dtype = CASES[name]
    module = make()
    compiled = compiled_of(module)
    with mode():
        for count in range(4):
            x = torch.randn(sizes).to(dtype)
            check(module, [x], compiled(x))
            if not count:
                computed = len(runs)
    assert computed >= 1
    assert runs == [True] * computed


@pytest.mark.parametrize("asked", [{"mode": "max-autotune"}, {"mode": "reduce-overhead"}, {"cuda_graphs": True}])
def test_modes_for_a_gpu_change_nothing_on_a_processor(asked: dict[str, Any], runs: list[bool]) -> None:
    """Of tensors on a processor nothing is captured as a CUDA graph."""
    module, x = layer(), torch.randn(256, 256)
    compiled = compiled_of(module, **asked)
    with torch.no_grad():
        for _ in range(3):
            check(module, [x], compiled(x))
        assert runs == [True]
        add_in_place(module)
        check(module, [x], compiled(x))
    assert runs == [True] * 2


def test_it_is_said_where_replays_compute_everything(runs: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor stands for a device that captures, as in `test_parts.py`."""
    monkeypatch.setattr(capturing, "_can_capture", lambda device: device.type == "cpu")
    monkeypatch.setattr(capturing, "CudaDevice", lambda index: FakeDevice())
    module, x = layer(), torch.randn(256, 256)
    compiled = compiled_of(module, mode="reduce-overhead")
    with torch.no_grad(), pytest.warns(UserWarning, match="'frozen' changes nothing .* every replay"):
        check(module, [x], compiled(x))
    with torch.no_grad():
        for _ in range(3):
            add_in_place(module)
            check(module, [x], compiled(x))
    assert not runs


def test_it_is_said_of_tensors_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marking, "_metadata", lambda: SimpleNamespace(tokens=(), subclass_inp_meta=(0, 1)))
    monkeypatch.setattr(marking, "static_inputs", lambda: (1,))
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    graph.output((graph.call_function(torch.ops.aten.mm.default, (x, w)),))
    gm = torch.fx.GraphModule({}, graph)
    x.meta["val"] = w.meta["val"] = SimpleNamespace(device=torch.device("cuda"))
    with pytest.warns(UserWarning, match="'frozen' changes nothing .* on a GPU"):
        marking.mark_frozen(gm, 2)
    assert marking.FROZEN not in gm.meta
    w.meta["val"] = SimpleNamespace(device=torch.device("cpu"))
    marking.mark_frozen(gm, 2)
    assert gm.meta[marking.FROZEN] == (1,)


def add_in_place(module: nn.Module) -> None:
    with torch.no_grad():
        next(module.parameters()).add_(1)


def add_to_a_view(module: nn.Module) -> None:
    with torch.no_grad():
        next(module.parameters())[3:5].mul_(-2)


def add_in_inference_mode(module: nn.Module) -> None:
    with torch.inference_mode():
        next(module.parameters()).add_(1)


def load(module: nn.Module) -> None:
    module.load_state_dict({name: torch.randn_like(value) for name, value in module.state_dict().items()})


def load_assigned(module: nn.Module) -> None:
    module.load_state_dict({name: torch.randn_like(one) for name, one in module.state_dict().items()}, assign=True)


def replace_data(module: nn.Module) -> None:
    parameter = next(module.parameters())
    parameter.data = torch.randn_like(parameter)


def replace_data_often(module: nn.Module) -> None:
    """The allocator gives the same memory again and again, but for what is still held."""
    parameter = next(module.parameters())
    sizes = parameter.shape
    for _ in range(8):
        parameter.data = torch.empty(0)
        parameter.data = torch.randn(sizes)


def replace_parameter(module: nn.Module) -> None:
    assert isinstance(module, nn.Linear)
    module.weight = nn.Parameter(torch.randn_like(module.weight))


def changed_parameter_of_the_same_memory(module: nn.Module) -> None:
    """Its count of changes is what that of the other was."""
    assert isinstance(module, nn.Linear)
    old = module.weight
    module.weight = nn.Parameter(old.detach().view(old.shape))
    with torch.no_grad():
        module.weight.data.mul_(3)
        while module.weight._version < old._version:
            module.weight.add_(1)


def step(module: nn.Module) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.ones(2, 256)).square().sum().backward()
    optimizer.step()


def compiled_step(module: nn.Module) -> None:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.ones(2, 256)).square().sum().backward()
    torch.compile(optimizer.step, backend="cuesta", options={"cache": False})()


def compiled_change(module: nn.Module) -> None:
    """A program of ours writes to the memory itself."""
    change = torch.compile(lambda one: one.add_(1), backend="cuesta", options={"cache": False})
    with torch.no_grad():
        change(next(module.parameters()))


CHANGES = [
    add_in_place,
    add_to_a_view,
    add_in_inference_mode,
    load,
    load_assigned,
    replace_data,
    replace_data_often,
    replace_parameter,
    changed_parameter_of_the_same_memory,
    step,
    compiled_step,
    compiled_change,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__)
def test_changes_that_are_seen(change: Callable[[nn.Module], None], runs: list[bool]) -> None:
    module, x = layer(), torch.randn(64, 256)
    compiled = compiled_of(module)
    with torch.no_grad():
        compiled(x)
        first = compiled(x)
    assert len(runs) == 1
    for count in (2, 3):
        change(module)
        with torch.no_grad():
            compiled(x)
            actual = compiled(x)
        check(module, [x], actual)
        assert not torch.allclose(actual, first)
        assert len(runs) == count
        first = actual


def test_a_change_that_nobody_sees() -> None:
    """What the user promised not to do: the result is that of the old weight."""
    module, x = layer(), torch.randn(64, 256)
    compiled = compiled_of(module)
    with torch.no_grad():
        first = compiled(x)
        module.weight.data.mul_(2)
        assert torch.equal(compiled(x), first)
        module.weight.add_(0)
        check(module, [x], compiled(x))


def test_two_models_of_one_kind(runs: list[bool]) -> None:
    """They share what was compiled, and each is given its own weights."""
    one, two, x = layer(), layer(), torch.randn(64, 256)

    def call(module: nn.Module, x: Tensor) -> Tensor:
        return module(x)

    compiled = compiled_of(call)
    with torch.no_grad():
        for _ in range(2):
            for module in (one, two):
                check(module, [x], compiled(module, x))
    assert runs == [True] * 4


def test_not_with_gradients(runs: list[bool]) -> None:
    module, x = layer(), torch.randn(64, 256)
    compiled = compiled_of(module)
    for _ in range(3):
        module.zero_grad()
        compiled(x).sum().backward()
        assert module.weight.grad is not None
        with torch.no_grad():
            module.weight.data.sub_(module.weight.grad)  # unseen
    actual = compiled(x)
    check(module, [x], actual)
    assert not runs


def test_not_of_other_inputs(runs: list[bool]) -> None:
    x, w = torch.randn(64, 256), torch.randn(256, 128)
    compiled = compiled_of(lambda x, w: torch.mm(x, w))
    for _ in range(3):
        w.data.add_(1)  # unseen
        check(torch.mm, [x, w], compiled(x, w))
    assert not runs


def test_not_without_the_option(runs: list[bool], tmp_path: Path) -> None:
    module, x = layer(), torch.randn(256, 256)
    compiled = compiled_of(module, frozen=False, dump=str(tmp_path))
    with torch.no_grad():
        compiled(x)
    assert not runs
    (text,) = tmp_path.glob("*/*_pool-buffers.mlir")
    assert "frozen" not in text.read_text()
    assert "kept" not in text.read_text()


class Changing(nn.Module):
    """What a call changes."""

    weight: Tensor
    other: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randn(256, 128))
        self.register_buffer("other", torch.randn(128, 128))

    def forward(self, x: Tensor) -> Tensor:
        result = torch.mm(torch.mm(x, self.weight), self.other)
        self.weight.add_(1)
        return result


def test_not_of_what_the_graph_changes(runs: list[bool]) -> None:
    module, eager, x = Changing(), Changing(), torch.randn(256, 256)
    eager.load_state_dict(module.state_dict())
    compiled = compiled_of(module)
    for _ in range(3):
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), eager(x), rtol=1e-4, atol=1e-2)
    assert torch.equal(module.weight, eager.weight)
    assert runs == [True]  # of `other`


class Sharing(nn.Module):
    """What a call changes by another name."""

    weight: Tensor
    part: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(300, 128))
        self.register_buffer("part", self.weight[44:])

    def forward(self, x: Tensor) -> Tensor:
        result = torch.mm(x, self.part)
        self.weight.mul_(2)
        return result


def test_not_of_what_the_graph_changes_by_another_name() -> None:
    module, x = Sharing(), torch.ones(256, 256)
    compiled = torch.compile(module, backend="cuesta", options={"cache": False, "frozen": True})
    for count in range(4):
        with torch.no_grad():
            assert torch.equal(compiled(x), torch.full((256, 128), 256.0 * 2**count))


class Returning(nn.Module):
    """What a call gives."""

    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (256, 256), dtype=torch.int8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weight = self.weight.float() * 0.5
        return torch.mm(x, weight), weight


def test_not_what_is_returned(runs: list[bool]) -> None:
    """Whoever gets it may change it."""
    module, x = Returning(), torch.randn(256, 256)
    compiled = compiled_of(module)
    for _ in range(3):
        with torch.no_grad():
            result, weight = compiled(x)
        check(lambda x: torch.mm(x, module.weight.to(x.dtype) * 0.5), [x], result)
        assert torch.equal(weight, module.weight.float() * 0.5)
        weight.zero_()
    assert not runs


def test_tensors_that_do_not_count(runs: list[bool]) -> None:
    """Tensors of inference mode have no count of changes: what is computed of them is not kept."""
    with torch.inference_mode():
        module, x = layer(), torch.randn(64, 256)
        compiled = compiled_of(module)
        for _ in range(3):
            module.weight.add_(1)
            check(module, [x], compiled(x))
    assert runs == [False] * 3


def test_kept_in_one_mode_and_used_in_another(runs: list[bool]) -> None:
    """A library's call is given what was made in inference mode."""
    module, x = Dequantised().double(), torch.randn(300, 256, dtype=torch.float64)
    compiled = compiled_of(module)
    found: list[Tensor] = []
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.no_grad):
        with mode():
            found.append(compiled(x).clone())
    for one in found:
        torch.testing.assert_close(one, module(x))
    assert all(runs)


def test_sizes_that_the_call_knows(runs: list[bool]) -> None:
    module = Dequantised()
    compiled = torch.compile(module, backend="cuesta", dynamic=True, options={"cache": False, "frozen": True})
    for rows in (300, 340, 400):
        x = torch.randn(rows, 256)
        with torch.no_grad():
            check(module, [x], compiled(x))
    assert runs == [True]


def test_threads(runs: list[bool]) -> None:
    """All begin at once, while the weight changes now and then, when none of them runs."""
    module, x = CASES["bf16, two"][0](), torch.randn(33, 256).bfloat16()
    compiled = compiled_of(module)
    plain = compiled_of(module, frozen=False)
    with torch.no_grad():
        plain(x)
        compiled(x)
    count = 6
    barrier = threading.Barrier(count + 1)
    wrong: list[int] = []
    expected: list[Tensor] = []

    def work() -> None:
        for number in range(20):
            barrier.wait(60)
            with torch.no_grad():
                for _ in range(3):
                    if not torch.equal(compiled(x), expected[number]):
                        wrong.append(number)
            barrier.wait(60)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for one in threads:
        one.start()
    for _ in range(20):
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.5)
            expected.append(plain(x))
        barrier.wait(60)
        barrier.wait(60)
    for one in threads:
        one.join(60)
    assert not wrong
    assert len(runs) >= 2 * 20


def test_from_the_cache(runs: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))
    module, x = layer(), torch.randn(256, 256)
    for frozen, known in [(False, False), (True, False), (True, True), (False, True)]:
        torch._dynamo.reset()
        cuesta.clear_records()
        runs.clear()
        compiled = compiled_of(module, cache=True, frozen=frozen)
        with torch.no_grad():
            for _ in range(3):
                check(module, [x], compiled(x))
            assert cuesta.records[0].from_cache is known
            assert runs == [True] * frozen
            module.weight.add_(1)
            check(module, [x], compiled(x))
        assert runs == [True] * (2 * frozen)


@pytest.mark.parametrize("options", [{"validate": "stages"}, {"validate": "kernels"}, {"target": "reference"}])
def test_with_the_interpreter(options: dict[str, Any], runs: list[bool]) -> None:
    module, x = CASES["bf16, two"][0](), torch.randn(33, 256).bfloat16()
    compiled = compiled_of(module, **options)
    with torch.no_grad():
        for _ in range(3):
            check(module, [x], compiled(x))
    assert runs == [True, True]


def test_with_a_profiler(runs: list[bool]) -> None:
    """Its twin keeps, and finds, the same."""
    module, x = layer(), torch.randn(64, 256)
    compiled = compiled_of(module)
    with torch.no_grad():
        compiled(x)
        with torch.profiler.profile():
            check(module, [x], compiled(x))
            module.weight.add_(1)
            check(module, [x], compiled(x))
        check(module, [x], compiled(x))
    assert runs == [True, True]


def test_from_a_text(runs: list[bool], tmp_path: Path) -> None:
    """The text says what is kept: it is obeyed, and the interpreter takes it for launches."""
    module, x = Dequantised(), torch.randn(300, 256)
    compiled = compiled_of(module, dump=str(tmp_path))
    with torch.no_grad():
        expected = compiled(x)
    (text,) = tmp_path.glob("*/*_pool-buffers.mlir")
    assert text.read_text().count("host.launch kept") == 2
    program = Program.read(text)
    arguments = [module.weight, x, module.scale]
    (interpreted,) = program.run(*arguments)
    torch.testing.assert_close(interpreted, expected, rtol=1e-4, atol=1e-2)
    function = program.compile()
    runs.clear()
    for _ in range(3):
        assert torch.equal(function(*arguments)[0], expected)
    module.scale.mul_(2)
    torch.testing.assert_close(function(*arguments)[0], expected * 2, rtol=1e-4, atol=1e-2)
    assert all(runs)


ADD = """
kernel.func @add(%x : !kernel.ptr<f32>, %y : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) schedule #kernel.schedule<grid = [128]> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 64 lanes 16) {
    %a = kernel.load %x[%p * 64 + %j] : vector<16xf32>
    %b = kernel.load %y[%p * 64 + %j] : vector<16xf32>
    %c = elem.add %a, %b : vector<16xf32>
    kernel.store %c, %o[%p * 64 + %j] : vector<16xf32>
  }
}
host.func @main(%x : T, %w : T, %u : T) -> (T, T, T) attributes {aten.frozen = [1 : i64, 2 : i64]} {
  %v = host.reinterpret %w offset 64 : T to tensor<126x64xf32>
  %a = host.alloc : T
  %k = host.alloc : T
  host.launch kept @add(%w, %w, %k) : T, T, T
  host.launch @add(%x, %k, %a) : T, T, T
  %vk = host.reinterpret %k offset 0 : T to tensor<8192xf32>
  %l = host.alloc : T
  host.launch kept @add(%u, %u, %l) : T, T, T
  %r = host.reinterpret %x offset 0 : T to tensor<8192xf32>
  %b = host.alloc : T
  host.launch @add(%r, %vk, %b) : tensor<8192xf32>, tensor<8192xf32>, T
  %m = host.alloc : T
  host.launch kept @add(%vk, %l, %m) : tensor<8192xf32>, T, T
  %c = host.alloc : T
  host.launch @add(%m, %vk, %c) : T, tensor<8192xf32>, T
  host.return %a, %b, %c : T, T, T
}
""".replace("T,", "tensor<128x64xf32>,").replace(" T", " tensor<128x64xf32>").replace("(T", "(tensor<128x64xf32>")  # fmt: skip  # noqa: E501


def test_a_text_in_another_order(runs: list[bool], tmp_path: Path) -> None:
    """Launches that are kept stand among others, and share aliases with them; the last needs two others."""
    path = tmp_path / "program.mlir"
    path.write_text(ADD)
    program = Program.read(path)
    x, w, u = (torch.randn(128, 64) for _ in range(3))
    function = program.compile()
    for count in range(3):
        for _ in range(2):
            expected = x + 2 * w, x + 2 * w, (2 * w + 2 * u) + 2 * w
            for found in (function(x, w, u), program.run(x, w, u)):
                torch.testing.assert_close(tuple(found), expected)
        assert runs == [True] * (1 + count)
        (w, u)[count % 2].add_(1)


def test_explained_and_lowered() -> None:
    module, x = layer(), torch.randn(64, 256)
    with torch.no_grad():
        explained = cuesta.explain(module, x, options={"frozen": True})
        lowered = cuesta.lower(module, x, options={"frozen": True})
    assert not explained.unseen
    (graph,) = explained.graphs
    assert [one.dies for one in graph.values if one.role == "buffer"] == [None, None]  # what is kept, and the result
    assert "aten.frozen = [0 : i64, 1 : i64]" in str(lowered.forward)


def test_packages_refuse(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="not the option 'frozen'"):
        cuesta.package(layer(), (torch.randn(8, 256),), tmp_path / "model.cuesta", options={"frozen": True})
