"""On a CUDA device: compiling, launching, CUDA graphs, and what goes wrong. `make test-gpu` runs these."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cuesta
from cuesta.testing import assert_close_to_float64
from tests.support.gpu_cases import cases

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuesta.targets.triton import build

    monkeypatch.setattr(build, "_codes", {})
    monkeypatch.setenv("CUESTA_CACHE", "0")


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", fullgraph=True, **options)


# -- kernels that have no machine code ---------------------------------------------------------------------------------


@pytest.fixture
def no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuesta.targets.triton import build

    def refuse(kernel: Any, architecture: int) -> Any:
        raise RuntimeError(f"injected: no code for {kernel.name}")

    monkeypatch.setattr(build, "compile_kernel", refuse)
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "0")


@pytest.mark.parametrize(
    "name", [name for name in cases() if name.partition(" ")[0] in ("bools", "transposed", "softmaxes", "casts")]
)
@pytest.mark.usefixtures("no_code")
def test_kernels_that_cannot_be_compiled_run_in_eager_on_the_device(name: str) -> None:
    function, inputs = cases("cuda")[name]
    with pytest.warns(UserWarning, match="cannot be compiled and runs in eager: injected: no code for"):
        assert_close_to_float64(compiled(function), function, inputs, ulps=8.0)


def test_one_kernel_of_several_runs_in_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuesta.targets.triton import build

    compile_kernel = build.compile_kernel

    def refuse(kernel: Any, architecture: int) -> Any:
        if "sum" in kernel.name:
            raise RuntimeError("injected")
        return compile_kernel(kernel, architecture)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x * 2).exp().sum(0) @ w).tanh().softmax(-1)

    monkeypatch.setattr(build, "compile_kernel", refuse)
    monkeypatch.setenv("CUESTA_COMPILE_WORKERS", "0")
    inputs = [torch.randn(300, 64, device="cuda"), torch.randn(64, 128, device="cuda")]
    with pytest.warns(UserWarning, match="cannot be compiled and runs in eager: injected") as caught:
        assert_close_to_float64(compiled(function), function, inputs, ulps=16.0)
    assert len([one for one in caught if "cuesta" in str(one.message)]) == 1
    assert cuesta.records[0].kernels >= 1


def test_code_that_the_driver_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuesta.targets.triton import build

    compile_kernel = build.compile_kernel

    def garbage(kernel: Any, architecture: int) -> Any:
        return replace(compile_kernel(kernel, architecture), binary=b"this is no cubin" * 8)

    monkeypatch.setattr(build, "compile_kernel", garbage)
    x = torch.randn(100, device="cuda")
    with pytest.warns(UserWarning, match=r"runs a graph in eager: CUDA error \d+: .*the driver is for CUDA \d+\.\d+"):
        assert torch.equal(compiled(lambda x: x * 2 + 1)(x), x * 2 + 1)
    assert torch.equal(x + 1, torch.add(x, 1)), "the context lives"


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def four_gibibytes() -> Iterator[None]:
    """As if the device had no more: other processes test at the same time."""
    torch.cuda.empty_cache()
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(min(1.0, (torch.cuda.memory_reserved() + (4 << 30)) / total))
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.usefixtures("four_gibibytes")
def test_out_of_memory_is_torchs_error_and_leaks_nothing() -> None:
    function = compiled(lambda x: ((x + 1).sum(0) * 2, x * 3, x.exp()), dynamic=True)
    small = torch.randn(64, 64, device="cuda")
    function(small)
    large = torch.randn(1 << 17, 4096, device="cuda")  # 2 GiB, and so is each of two results
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        with pytest.raises(torch.cuda.OutOfMemoryError):
            function(large)
        gc.collect()
        assert torch.cuda.memory_allocated() <= before  # less, where another test's memory was still to be collected
    del large
    torch.cuda.empty_cache()
    (total, three, exponential) = function(small)
    assert torch.equal(three, small * 3) and torch.allclose(total, (small + 1).sum(0) * 2, atol=1e-4)
    assert torch.allclose(exponential, small.exp())


def test_what_dies_between_kernels_takes_no_memory_of_its_own() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for step in range(8):
            x = x.softmax(step % 2) * 3.0
        return x

    x = torch.randn(4096, 4096, device="cuda")
    function_ = compiled(function)
    function_(x)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = function_(x)
    assert torch.cuda.max_memory_allocated() - before <= 3.5 * x.nbytes
    del result


# -- workers and the cache ---------------------------------------------------------------------------------------------


def test_many_kernels_are_compiled_by_workers_and_found_on_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from cuesta.targets.triton import workers

    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path / "cuesta"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(workers, "_pool", None)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [(x * k).softmax(k % 2) @ x for k in range(1, 5)] + [x.cumsum(0), x.argmax(1), x.var(0)]

    x = torch.randn(128, 128, device="cuda")
    assert_close_to_float64(compiled(function), function, [x], ulps=64.0)
    pool = workers.pool()
    assert pool.all and all(worker.process.poll() is None for worker in pool.all)
    pool.close()
    torch._dynamo.reset()
    cuesta.clear_records()
    monkeypatch.setattr(workers, "_pool", None)
    assert_close_to_float64(compiled(function), function, [x], ulps=64.0)
    assert cuesta.records[0].from_cache
    assert workers._pool is None or not workers._pool.all


# -- CUDA graphs -------------------------------------------------------------------------------------------------------


def graphs(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="cuesta", mode="reduce-overhead", **options)


def test_inference_is_replayed_and_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    first = torch.nn.Linear(64, 128)
    model = torch.nn.Sequential(first, torch.nn.GELU(), torch.nn.Linear(128, 10)).cuda().eval()
    with torch.no_grad():
        run = graphs(model)
        inputs = [torch.randn(32, 64, device="cuda") for _ in range(6)]
        results = [run(x) for x in inputs]
        for x, result in zip(inputs, results, strict=True):
            assert torch.allclose(result, model(x), atol=1e-5)
        assert cuesta.records[0].cuda_graph == "captured"
        first.weight.mul_(2)  # a parameter is read where it lies
        assert torch.allclose(run(inputs[0]), model(inputs[0]), atol=1e-5)
        monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", None)
        assert torch.allclose(run(inputs[1]), model(inputs[1]), atol=1e-5), "no new capture"


def test_results_are_handed_out_and_never_overwritten_while_somebody_has_them() -> None:
    run = graphs(lambda x, w: ((x @ w).relu(), x.softmax(-1)))
    w = torch.randn(256, 256, device="cuda")
    x = torch.randn(256, 256, device="cuda")
    addresses: list[int] = []
    previous: tuple[torch.Tensor, torch.Tensor] | None = None
    for _ in range(12):
        expected = (x @ w).relu(), x.softmax(-1)
        now = run(x, w)
        addresses.append(now[0].data_ptr())
        assert torch.allclose(now[0], expected[0], atol=1e-3) and torch.allclose(now[1], expected[1], atol=1e-6)
        if previous is not None:
            assert torch.equal(previous[0].view(-1), previous[1])
        previous = now[0].flatten().clone(), now[0].view(-1)
        del now
        x.normal_()
    assert len(set(addresses[2:])) == 2, "in turns"
    many = [run(x, w)[1] for _ in range(8)]
    kept = [one.clone() for one in many]
    for _ in range(4):
        x.normal_()
        run(x, w)
    assert all(map(torch.equal, many, kept))


def test_training_is_replayed() -> None:
    def losses(mode: str | None) -> list[float]:
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(64)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), norm, torch.nn.Tanh(), torch.nn.Linear(64, 4)).cuda()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = model if mode is None else torch.compile(model, backend="cuesta", mode=mode)
        found = []
        for step in range(12):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(16, 32, generator=generator).cuda()
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(run(x), torch.arange(16).cuda() % 4)
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        assert norm.running_var is not None
        found.append(float(norm.running_var.sum()))
        return found

    expected = losses(None)
    torch._dynamo.reset()
    assert losses("reduce-overhead") == pytest.approx(expected, rel=1e-3)
    assert [record.cuda_graph for record in cuesta.records] == ["captured", "captured"]


def test_activations_of_two_passes_at_a_time_and_gradients_that_accumulate() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4)).cuda()
    run = graphs(model)
    for step in range(6):
        x, y = (torch.randn(16, 32, device="cuda") for _ in range(2))
        expected = torch.autograd.grad(model(x).square().sum() + model(y).exp().sum(), list(model.parameters()))
        model.zero_grad()
        (run(x).square().sum() + run(y).exp().sum()).backward()
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            assert parameter.grad is not None
            assert torch.allclose(parameter.grad, gradient, rtol=1e-3, atol=1e-3), step


def test_every_size_and_every_stream_has_its_capture() -> None:
    run = graphs(lambda x: (x * 2).softmax(-1), dynamic=True)
    other = torch.cuda.Stream()
    for _ in range(3):
        for size in (16, 33, 70):
            x = torch.randn(8, size, device="cuda")
            assert torch.allclose(run(x), (x * 2).softmax(-1), atol=1e-6)
            torch.cuda.synchronize()
            with torch.cuda.stream(other):
                torch.cuda._sleep(1_000_000)
                y = torch.full((8, size), 3.0, device="cuda")
                result = run(y)
            other.synchronize()
            assert torch.allclose(result, torch.full_like(result, 1 / size))


def test_random_numbers_differ_from_call_to_call() -> None:
    run = graphs(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(4096, device="cuda")
    masks = [run(x) for _ in range(6)]
    assert cuesta.records[0].cuda_graph == "captured"
    for first in range(6):
        for second in range(first):
            assert not torch.equal(masks[first], masks[second])
    assert all(0.4 < (mask == 0).float().mean() < 0.6 for mask in masks)


@torch.library.custom_op("cuesta_tests::looks", mutates_args=())
def looks(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


@looks.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("name", ["a number of the CPU", "a size of the data"])
def test_a_graph_is_captured_in_parts(name: str) -> None:
    def function(x: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = ((x + 1) * step - x).sin()
        if name == "a size of the data":
            y = y + y.nonzero().sum()
        return (y.cos() * x + y).abs(), step + 1

    run = graphs(function)
    step = torch.tensor(1.0)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(5):
            x = torch.randn(64, device="cuda")
            for ours, theirs in zip(run(x, step), function(x, step), strict=True):
                assert torch.allclose(ours, theirs, atol=1e-4) and ours.device == theirs.device
    assert any(str(record.cuda_graph).startswith("captured (part") for record in cuesta.records)


@torch.library.custom_op("cuesta_tests::waits", mutates_args=())
def waits(x: torch.Tensor) -> torch.Tensor:
    torch.cuda.synchronize()  # which no debug mode of torch sees
    return x * 2


@waits.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("name", ["looks", "waits"])
def test_what_waits_for_the_device_is_not_captured(name: str) -> None:
    op = {"looks": looks, "waits": waits}[name]
    dropped = graphs(lambda x: torch.nn.functional.dropout(x, 0.5))
    ones = torch.ones(4096, device="cuda")
    for _ in range(3):
        dropped(ones)
    run = graphs(lambda x: op(x + 1) * 3)
    x = torch.randn(64, device="cuda")
    with pytest.warns(UserWarning, match="is not captured as a CUDA graph"):
        for _ in range(4):
            assert torch.allclose(run(x), op(x + 1) * 3, atol=1e-4)
    assert str(cuesta.records[1].cuda_graph).startswith("not captured: ")
    assert torch.rand(8, device="cuda").std() > 0, "the generator works"
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(dropped(ones))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2]), "also that of other captures"
    del masks
    torch.cuda.empty_cache()
    reserved = torch.cuda.memory_reserved()
    large = torch.empty(1 << 28, device="cuda")
    del large
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() <= reserved, "the allocator gives memory back"
    a = torch.randn(32, 32, device="cuda")
    assert torch.allclose(a @ a, (a.double() @ a.double()).float(), atol=1e-2)
    again = graphs(lambda x: (x + 1).sin())
    for _ in range(3):
        assert torch.allclose(again(x), (x + 1).sin(), atol=1e-6)
    assert cuesta.records[-1].cuda_graph == "captured"
    assert cuesta.records[0].cuda_graph == "captured"


def test_a_number_on_the_cpu_is_not_captured() -> None:
    run = graphs(lambda x, s: x * s)
    x = torch.randn(64, device="cuda")
    with pytest.warns(UserWarning, match=r"not captured as a CUDA graph: its input .* is on the CPU"):
        assert torch.equal(run(x, torch.tensor(2.0)), x * 2)


def test_a_users_own_capture() -> None:
    for mode in (None, "reduce-overhead"):
        torch._dynamo.reset()
        run = torch.compile(lambda x: (x * 2).softmax(-1), backend="cuesta", mode=mode)
        x = torch.randn(64, 100, device="cuda")
        for _ in range(3):
            run(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run(x)
        x.normal_()
        graph.replay()
        assert torch.allclose(result, (x * 2).softmax(-1), atol=1e-6)


# -- threads, devices --------------------------------------------------------------------------------------------------


def test_threads_on_streams_of_their_own() -> None:
    run = compiled(lambda x: (x * 2).softmax(-1) + x.sum(-1, keepdim=True))
    x = torch.randn(512, 1000, device="cuda")
    run(x)
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                y = torch.full((512, 1000), float(number), device="cuda")
                if not torch.allclose(run(y), torch.full_like(y, 0.001 + number * 1000), rtol=1e-4):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_captured_product_has_its_own_workspace() -> None:
    """Another who captures (TorchInductor) has cuBLAS forget its workspaces, whose memory others take then."""
    x, weight = torch.randn(64, 4096, device="cuda"), torch.randn(4096, 64, device="cuda")
    run = compiled(lambda x: (x @ weight).relu(), mode="reduce-overhead")
    for _ in range(4):
        run(x)
    assert cuesta.records[-1].cuda_graph == "captured"
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(64)]
    for _ in range(3):
        result = run(x)
    torch.cuda.synchronize()
    assert torch.allclose(result, (x @ weight).relu(), atol=1e-3)
    assert all(bool((other == 7.0).all()) for other in others)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two CUDA devices")
def test_tensors_of_another_device_than_the_present_one() -> None:
    run = compiled(lambda x: (x * 2).softmax(-1))
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        x = torch.randn(64, 100, device=device)
        assert torch.allclose(run(x), (x * 2).softmax(-1), atol=1e-6)
        with torch.cuda.device(1):
            assert torch.allclose(run(x), (x * 2).softmax(-1), atol=1e-6)
    assert torch.cuda.current_device() == 0


# -- texts that access what is not there -------------------------------------------------------------------------------

ROWS = """
kernel.func @k_0(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>)
    schedule #kernel.schedule<grid = [6], target = cuda, warps = 1> {
  %p = kernel.program_id 0
  kernel.for (%j = 0 to 10 lanes 8) {
    %a = kernel.load %x[%p * 10 + %j] : vector<8xf32>
    %b = elem.add %a, %a : vector<8xf32>
    kernel.store %b, %o[%p * 10 + %j] : vector<8xf32>
  }
}
host.func @main(%x : TAKEN) -> (GIVEN) {
  %y = host.alloc : GIVEN
  host.launch @k_0(%x, %y) : TAKEN, GIVEN
  host.return %y : GIVEN
}
""".replace("TAKEN", 'tensor<SIZExf32, #aten.layout<device = "cuda:0">>').replace(
    "GIVEN", 'tensor<60xf32, #aten.layout<device = "cuda:0">>'
)


def test_an_access_beyond_a_buffer_is_an_index_error_and_the_device_goes_on(tmp_path: Path) -> None:
    short, whole = tmp_path / "short.mlir", tmp_path / "whole.mlir"
    short.write_text(ROWS.replace("SIZE", "55"))
    whole.write_text(ROWS.replace("SIZE", "60"))
    x = torch.randn(60, device="cuda")
    with pytest.raises(IndexError, match=r"short.mlir:6  kernel.load of %x in @k_0: element 5\d is not one of the 55"):
        cuesta.load(short)(x[:55])
    (result,) = cuesta.load(whole)(x)
    assert torch.equal(result, x + x)
