"""A package gives what eager gives, in a process that has no compiler, and refuses all else by name."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import Dim

import cuesta
from cuesta.command import main
from cuesta.packages import container
from cuesta.packages.container import Container
from cuesta.packages.graph import PackageError
from cuesta.packages.signature import InputError
from cuesta.testing import assert_close_to_float64

B = Dim("b", min=2, max=64)


class Model(torch.nn.Module):
    """With parameters, buffers that change, a constant, and results of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 5)
        self.norm = torch.nn.BatchNorm1d(5)
        self.register_buffer("calls", torch.zeros(3))
        self.constant = torch.arange(5.0)

    def forward(self, x: torch.Tensor, *, scale: int = 2) -> Mapping[str, Any]:
        self.calls += 1
        result = self.norm(self.linear(x)) * scale + self.constant
        return {"result": result, "rest": (x.view(-1), x, None, 3)}


def packaged(function: Callable[..., Any], inputs: Sequence[Any], folder: Path, **chosen: Any) -> Any:
    """The function, through a package."""
    path = folder / "model.cuesta"
    cuesta.package(function, tuple(inputs), path, **chosen)
    return cuesta.load_package(path)


def check(function: Callable[..., Any], inputs: Sequence[Any], folder: Path, **chosen: Any) -> Any:
    """Through a package, and in eager: equal in all that a call leaves behind."""
    loaded = packaged(function, inputs, folder, **chosen)
    assert_close_to_float64(loaded, function, list(inputs))
    return loaded


# -- what a package gives ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """A packaged model for inference, and the model."""
    torch.manual_seed(0)
    path, module = tmp_path_factory.mktemp("package") / "model.cuesta", Model()
    eager = copy.deepcopy(module)
    shapes = {"x": {0: B}, "scale": None}
    cuesta.package(module, (torch.randn(3, 4),), path, kwargs={"scale": 3}, dynamic_shapes=shapes, texts=True)
    return path, eager


def test_a_model_of_dynamic_sizes_whose_buffers_change(model: tuple[Path, Model]) -> None:
    path, eager = model[0], copy.deepcopy(model[1])
    loaded: Any = cuesta.load_package(path)
    for rows in (3, 64, 2):
        x = torch.randn(rows, 4)
        found = loaded(x, scale=3)
        with torch.no_grad():
            expected = eager(x, scale=3)
        torch.testing.assert_close(found["result"], expected["result"])
        assert list(found) == ["result", "rest"] and found["rest"][2:] == (None, 3) and found["rest"][1] is x
        assert found["rest"][0].untyped_storage()._cdata == x.untyped_storage()._cdata
    torch.testing.assert_close(loaded.state_dict(), eager.state_dict())
    assert loaded.calls.tolist() == [3.0, 3.0, 3.0]


def test_inputs_in_other_strides_are_laid_out_anew(model: tuple[Path, Model]) -> None:
    loaded, x = cuesta.load_package(model[0]), torch.randn(4, 3).t()
    torch.testing.assert_close(
        loaded(x, scale=3)["result"], cuesta.load_package(model[0])(x.contiguous(), scale=3)["result"]
    )


def test_training(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Model()
    eager = copy.deepcopy(model)
    shapes = {"x": {0: B}, "scale": None}
    loaded = packaged(model, (torch.randn(3, 4),), tmp_path, kwargs={"scale": 3}, dynamic_shapes=shapes, training=True)
    for rows in (3, 7):
        x = torch.randn(rows, 4)
        gradients: list[list[torch.Tensor]] = []
        for module in (loaded, eager):
            own = x.clone().requires_grad_(False)
            (module(own, scale=3)["result"].sin().sum()).backward()
            gradients.append([torch.clone(one.grad) for one in module.parameters() if one.grad is not None])
        assert len(gradients[0]) == 4
        torch.testing.assert_close(gradients[0], gradients[1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(loaded.state_dict(), eager.state_dict())
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    before = loaded.linear.weight.clone()
    optimizer.step()
    assert not torch.equal(before, loaded.linear.weight)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "a result that is a view of an input": (lambda x: (x.t(), x.exp()), [torch.randn(3, 4)]),
    "a view of an input that changed": (lambda x: (x.add_(1)[1:, 1], x.sin()), [torch.randn(4, 3)[1:]]),
    "a view with the negative bit": (lambda x: (torch.ops.aten._neg_view(x)[1], x.exp()), [torch.randn(4, 3)]),
    "a view with the conjugate bit": (lambda x: (x.conj()[1], x.imag.exp()), [torch.randn(4, 3, dtype=torch.cfloat)]),
    "two results of one memory": (lambda x: ((y := x.exp()), y.view(-1), y.t()), [torch.randn(3, 4)]),
    "an input that changes": (lambda x, y: x.add_(y).sin(), [torch.randn(5), torch.randn(5)]),
    "a result of no element, and numbers": (lambda x: (x[:0], x.size(0), 2.5, True), [torch.randn(3)]),
    "a dropout that drops nothing": (
        lambda x: ((y := x * 2), torch.nn.functional.dropout(y, 0.5, False), y.mul_(3))[1],
        [torch.randn(3)],
    ),
    "half precision": (lambda x: torch.softmax(x, -1).bfloat16(), [torch.randn(3, 40).half()]),
    "a product": (lambda x, y: torch.relu(x @ y) * 2, [torch.randn(8, 16), torch.randn(16, 8)]),
    "a scatter": (lambda x, i: x.index_add(0, i, x[i] * 2), [torch.randn(9, 3), torch.tensor([1, 1, 4])]),
    "a branch": (lambda x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,)), [torch.randn(6)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, tmp_path: Path) -> None:
    function, inputs = FUNCTIONS[name]
    check(function, inputs, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["a result that is a view of an input", "a view with the negative bit", "two results of one memory", "a product"],
)
def test_gradients_of_functions(name: str, tmp_path: Path) -> None:
    function, inputs = FUNCTIONS[name]
    leaves = [one.clone().requires_grad_() for one in inputs]
    check(function, leaves, tmp_path, training=True)


@pytest.mark.parametrize("training", [False, True])
def test_what_may_raise(training: bool, tmp_path: Path) -> None:
    """Its calls are kept in order by tokens, which nobody gives a package."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.linalg.inv(x) @ y, torch.linalg.inv(x + 1).sin(), y[1:]

    x = torch.eye(3) * 2 + torch.rand(3, 3) * 0.1
    inputs = [one.requires_grad_(training) for one in (x, torch.randn(3, 4))]
    loaded = check(function, inputs, tmp_path, training=training)
    with pytest.raises(RuntimeError, match="singular"):
        loaded(torch.zeros(3, 3), inputs[1])


def test_a_view_of_an_input_is_a_view_where_gradients_are_taken(tmp_path: Path) -> None:
    x = torch.randn(5, 4, requires_grad=True)
    rows = Dim("rows", min=3, max=9)
    loaded = packaged(lambda x: x[1:].t(), (x,), tmp_path, training=True, dynamic_shapes=({0: rows},))
    y = torch.randn(7, 4, requires_grad=True)
    found = loaded(y)
    assert found.data_ptr() == y[1:].data_ptr() and found.shape == (4, 6) and found.stride() == (1, 4)
    found.sum().backward()
    torch.testing.assert_close(y.grad, torch.ones(7, 4).index_fill(0, torch.tensor([0]), 0))


def test_an_input_that_takes_over_a_gradient(tmp_path: Path) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.cat([x, x]).sin()
        x.narrow(0, 0, 1).copy_(y)
        return before.exp(), x * 2

    check(function, [torch.randn(3), torch.randn(1, requires_grad=True)], tmp_path, training=True)


def test_a_gradient_that_a_package_for_training_does_not_have(tmp_path: Path) -> None:
    loaded = packaged(lambda x, y: x * y, (torch.randn(3, requires_grad=True), torch.randn(3)), tmp_path, training=True)
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    loaded(x, y).sum().backward()
    torch.testing.assert_close(x.grad, y)
    with pytest.raises(InputError, match="y wants a gradient, and the package has none for it"):
        loaded(x, y.requires_grad_())


def test_inputs_that_are_moved_to_a_device_want_gradients_still(tmp_path: Path) -> None:
    loaded = packaged(
        lambda x: x.exp(), (torch.zeros(3, requires_grad=True),), tmp_path, training=True, devices=["cpu"]
    )
    x = torch.zeros(3, requires_grad=True)
    loaded(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones(3))


def test_the_gradient_of_a_gradient_is_refused(tmp_path: Path) -> None:
    x = torch.randn(4, requires_grad=True)
    loaded = packaged(lambda x: x.exp() * x, (x,), tmp_path, training=True)
    (gradient,) = torch.autograd.grad(loaded(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_several_kinds_of_inputs(tmp_path: Path) -> None:
    kinds = [(torch.randn(3, 4),), (torch.randn(5),), (torch.arange(6),)]

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1 if x.dim() == 1 else x.sum(0)

    cuesta.package(function, kinds, tmp_path / "m.cuesta")
    loaded = cuesta.load_package(tmp_path / "m.cuesta")
    for (one,) in kinds:
        torch.testing.assert_close(loaded(one), function(one))
    with pytest.raises(InputError, match=r"x has the size \(7,\).*or x has torch.float32"):
        loaded(torch.randn(7))


def test_weights_that_are_one_stay_one_and_keep_their_strides(tmp_path: Path) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Parameter(torch.randn(4, 6).t())
            self.second = torch.nn.ParameterList([self.first])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.first) * self.second[0].sum()

    model = Tied()
    loaded: Any = packaged(model, (torch.randn(2, 6),), tmp_path, training=True)
    assert loaded.first.data_ptr() == loaded.second._parameters["0"].data_ptr()
    assert loaded.first.stride() == (1, 6)
    x = torch.randn(2, 6)
    loaded(x).sum().backward()
    model(x).sum().backward()
    torch.testing.assert_close(loaded.first.grad, model.first.grad, rtol=1e-4, atol=1e-4)


def test_a_program_that_torch_export_made(tmp_path: Path) -> None:
    x = torch.randn(3, 4)
    program = torch.export.export(torch.nn.Linear(4, 2), (x,))
    cuesta.package(program, None, tmp_path / "m.cuesta")
    with torch.no_grad():
        torch.testing.assert_close(cuesta.load_package(tmp_path / "m.cuesta")(x), program.module()(x))
    with pytest.raises(PackageError, match="are known: say None"):
        cuesta.package(program, (x,), tmp_path / "m.cuesta")


def test_other_weights(tmp_path: Path) -> None:
    first, second = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    cuesta.package(first, (torch.randn(3, 4),), tmp_path / "m.cuesta")
    x = torch.randn(3, 4)
    loaded = cuesta.load_package(tmp_path / "m.cuesta", weights=second.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(loaded(x), second(x))
        loaded.load_state_dict(first.state_dict(), assign=True)
        torch.testing.assert_close(loaded(x), first(x))
    # A package may refer to a file that is there already.
    (tmp_path / "other").mkdir()
    cuesta.package(first, (x,), tmp_path / "other" / "n.cuesta", weights=tmp_path / "m.safetensors")
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["n.cuesta"]
    with torch.no_grad():
        torch.testing.assert_close(cuesta.load_package(tmp_path / "other" / "n.cuesta")(x), first(x))
    with pytest.raises(PackageError, match=r"have another \w+ than the model"):
        cuesta.package(second, (x,), tmp_path / "n.cuesta", weights=tmp_path / "m.safetensors")


# -- without a compiler ------------------------------------------------------------------------------------------------

LOADING = """
import sys, torch, cuesta
loaded = cuesta.load_package(sys.argv[1])
x = torch.ones(3, 4)
print(loaded(x, scale=3)["result"].sum().item())
compilers = ["xdsl", "llvmlite", "triton", "torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd"]
print([name for name in compilers if name in sys.modules])
"""


def run(script: str, *arguments: object) -> str:
    """What a script says in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_process_that_loads_one_has_no_compiler(model: tuple[Path, Model]) -> None:
    number, compilers = run(LOADING, model[0]).splitlines()
    assert compilers == "[]"
    assert float(number) == pytest.approx(
        cuesta.load_package(model[0])(torch.ones(3, 4), scale=3)["result"].sum().item(), rel=1e-5
    )


def test_equal_programs_are_equal_files(tmp_path: Path) -> None:
    digests = [cuesta.package(torch.sin, (torch.ones(3),), tmp_path / f"{k}.cuesta") for k in range(2)]
    assert digests[0] == digests[1]


@pytest.mark.gpu
@pytest.mark.parametrize("training", [False, True])
def test_on_a_device(training: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.LayerNorm(96))
    path, rows = tmp_path / "m.cuesta", Dim("rows", min=2, max=4096)
    shapes = {"input": {0: rows}}
    cuesta.package(
        model, (torch.randn(8, 64),), path, devices=["cuda", "cpu"], training=training, dynamic_shapes=shapes
    )
    for device in ("cuda", "cpu"):
        loaded = cuesta.load_package(path, device=device)
        own = copy.deepcopy(model).to(device)
        for count in (8, 1000):
            # Memory that is not aligned as the machine code wants it is copied.
            x = torch.randn(count * 64 + 1, device=device)[1:].view(count, 64)
            torch.testing.assert_close(loaded(x), own(x), rtol=1e-4, atol=1e-4)
        if training:
            for module in (loaded, own):
                module(x).sin().sum().backward()
            for found, expected in zip(loaded.parameters(), own.parameters(), strict=True):
                torch.testing.assert_close(found.grad, expected.grad, rtol=1e-3, atol=1e-3)
    script = """
import sys, torch, cuesta
print(cuesta.load_package(sys.argv[1])(torch.ones(4, 64, device="cuda")).device)
print([name for name in ("triton", "xdsl", "llvmlite", "torch._dynamo") if name in sys.modules])
"""
    assert run(script, path).splitlines() == ["cuda:0", "[]"]


@pytest.mark.gpu
def test_products_with_descriptors_on_a_device(tmp_path: Path) -> None:
    """Launches of what was loaded make their descriptors; memory without the alignment takes the code without."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 4096), torch.nn.GELU(approximate="tanh")).bfloat16()
    path = tmp_path / "m.cuesta"
    x = torch.randn(4096, 512).bfloat16()
    cuesta.package(model, (x,), path, devices=["cuda"], texts=True)
    named = [name for name in Container(path.read_bytes(), path).members if name.startswith("texts/")]
    texts = b"".join(Container(path.read_bytes(), path).members[name] for name in named)
    if torch.cuda.get_device_capability() >= (9, 0):
        assert b"descriptors = 1" in texts
    loaded, own = cuesta.load_package(path), copy.deepcopy(model).cuda()
    for offset in (0, 1):
        given = torch.cat([x.new_zeros(offset), x.flatten()]).cuda()[offset:].view(x.shape)
        torch.testing.assert_close(loaded(given), own(given), rtol=2e-2, atol=2e-2)


# -- what is refused ---------------------------------------------------------------------------------------------------

CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fewer": (lambda f: f(torch.randn(1, 4), scale=3), r"x.size\(0\) is 1, and the package is for 2 to 64"),
    "more": (lambda f: f(torch.randn(65, 4), scale=3), r"x.size\(0\) is 65, and the package is for 2 to 64"),
    "size": (lambda f: f(torch.randn(3, 5), scale=3), r"x has the size \(3, 5\), and the package is for \(s\d+, 4\)"),
    "rank": (lambda f: f(torch.randn(3), scale=3), "x has 1 dimensions, and the package is for 2"),
    "dtype": (lambda f: f(torch.randn(3, 4).double(), scale=3), "x has torch.float64 on cpu"),
    "value": (lambda f: f(torch.randn(3, 4), scale=2), "scale is 2, and the package was made for 3"),
    "no number": (lambda f: f(torch.randn(3, 4), scale=3.0), "scale is 3.0, and the package was made for 3"),
    "left out": (lambda f: f(torch.randn(3, 4)), "it is not given 'scale'$"),
    "not there": (lambda f: f(torch.randn(3, 4), scale=3, shift=1), "takes no argument with the name 'shift'$"),
    "without a name": (lambda f: f(torch.randn(3, 4), 3), "takes 1 positional argument, and is given 2, and is not"),
    "none at all": (lambda f: f(scale=3), "it takes 1 positional argument, and is given 0$"),
    "no tensor": (lambda f: f([1.0], scale=3), "argument 0 is \\[…\\], and it takes …$"),
    "none": (lambda f: f(None, scale=3), "x is no tensor but a NoneType|argument 0 is NoneType"),
    "gradient": (lambda f: f(torch.randn(3, 4, requires_grad=True), scale=3), "x wants a gradient"),
    "sparse": (lambda f: f(torch.randn(3, 4).to_sparse(), scale=3), "give a plain tensor"),
}


@pytest.mark.parametrize("name", CALLS)
def test_inputs_that_a_package_is_not_for(model: tuple[Path, Model], name: str) -> None:
    call, message = CALLS[name]
    loaded: Any = cuesta.load_package(model[0])
    with pytest.raises(InputError, match=message) as caught:
        call(loaded)
    assert isinstance(caught.value, TypeError) and str(model[0]) in str(caught.value)
    assert loaded.calls.tolist() == [0.0, 0.0, 0.0]


def test_the_negative_bit_is_resolved(tmp_path: Path) -> None:
    loaded = packaged(lambda x: x * 2 + 1, (torch.randn(4),), tmp_path)
    x = torch.randn(4, dtype=torch.complex64).conj().imag
    torch.testing.assert_close(loaded(x), x * 2 + 1)


def test_inputs_that_share_what_changes(tmp_path: Path) -> None:
    loaded = packaged(lambda x, y: x.add_(y) * y, (torch.randn(4), torch.randn(4)), tmp_path)
    x = torch.randn(4)
    with pytest.raises(InputError, match=r"two inputs share memory"):
        loaded(x, x)
    with pytest.raises(InputError, match="is changed by the program, which is for a tensor with the strides"):
        loaded(torch.randn(4, 2)[:, 0], x)


def test_conditions_on_sizes(tmp_path: Path) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]) * y

    a = Dim("a", min=2, max=100)
    inputs = torch.randn(3), torch.randn(6)
    loaded = packaged(function, inputs, tmp_path, dynamic_shapes=({0: a}, {0: 2 * a}))
    x, y = torch.randn(7), torch.randn(14)
    torch.testing.assert_close(loaded(x, y), function(x, y))
    with pytest.raises(InputError, match=r"y has the size \(13,\)"):
        loaded(x, torch.randn(13))


def test_a_package_stays_where_it_is(model: tuple[Path, Model]) -> None:
    with pytest.raises(PackageError, match="its weights stay where they are"):
        cuesta.load_package(model[0]).double()


def edited(path: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A package with a changed manifest."""
    found = container.read_container(path)
    manifest = {**found.manifest}
    change(manifest)
    made = folder / "edited.cuesta"
    original, container.FORMAT = container.FORMAT, manifest.pop("format")
    try:
        made.write_bytes(container.packed(manifest, found.members))
    finally:
        container.FORMAT = original
    (folder / "model.safetensors").write_bytes(path.with_suffix(".safetensors").read_bytes())
    return made


MACHINES: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "torch": (lambda head: head["machine"].update(torch="1.0"), "was made with torch 1.0, and this is torch"),
    "system": (lambda head: head["machine"].update(system="plan9 mips"), "is for plan9 mips, and this is"),
    "processor": (lambda head: head["machine"]["processor"].append("avx9000"), "for a processor with avx9000"),
    "format": (lambda head: head.update(format=99), "format 99.*make it again"),
    "cuesta": (lambda head: head.update(cuesta="9.9"), "was made by Cuesta 9.9"),
    "no variants": (lambda head: head.pop("variants"), "is damaged"),
    "no input": (lambda head: head["variants"][0]["signature"]["inputs"].pop(), "is damaged"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_packages_for_others(model: tuple[Path, Model], name: str, tmp_path: Path) -> None:
    change, message = MACHINES[name]
    with pytest.raises(PackageError, match=message):
        cuesta.load_package(edited(model[0], tmp_path, change))


def test_damage_is_found(model: tuple[Path, Model], tmp_path: Path) -> None:
    data = model[0].read_bytes()
    weights = model[0].with_suffix(".safetensors").read_bytes()
    chosen = random.Random(0)
    damaged = tmp_path / "model.cuesta"
    (tmp_path / "model.safetensors").write_bytes(weights)
    refused = 0
    for _ in range(60):
        place = chosen.randrange(len(data))
        cut = chosen.random() < 0.3
        damaged.write_bytes(data[:place] if cut else data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            cuesta.load_package(damaged)
        except PackageError as error:
            refused += 1
            assert str(damaged) in str(error)
    assert refused >= 50  # the rest is of the archive's own fields that say nothing: dates, attributes
    damaged.write_bytes(data)
    for place in (0, 20, len(weights) - 1):
        (tmp_path / "model.safetensors").write_bytes(
            weights[:place] + bytes([weights[place] ^ 0xFF]) + weights[place + 1 :]
        )
        with pytest.raises(PackageError, match=r"are not those that|cannot be read"):
            cuesta.load_package(damaged)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(PackageError, match=r"should be .*model.safetensors, where there are none"):
        cuesta.load_package(damaged)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX")
def test_what_others_may_have_written_is_refused(model: tuple[Path, Model], tmp_path: Path) -> None:
    path = tmp_path / "model.cuesta"
    path.write_bytes(model[0].read_bytes())
    (tmp_path / "model.safetensors").write_bytes(model[0].with_suffix(".safetensors").read_bytes())
    path.chmod(0o666)
    with pytest.raises(PackageError, match=r"others can write to it \(mode 0666\).*chmod go-w .*trusted=True"):
        cuesta.load_package(path)
    cuesta.load_package(path, trusted=True)
    digest = container.read_container(model[0]).digest
    cuesta.load_package(path, digest=digest)
    with pytest.raises(PackageError, match="has the digest"):
        cuesta.load_package(path, digest="0" * 64)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackageError, match="is no regular file"):
        cuesta.load_package(tmp_path / "pipe")
    with pytest.raises(PackageError, match=r"cannot be read: No such file"):
        cuesta.load_package(tmp_path / "nothing")


def test_containers_that_a_package_is_not_for(tmp_path: Path) -> None:
    """What is wrong was said by two of torch's tree specifications, of many lines."""
    x = torch.randn(3)
    loaded = packaged(lambda x, more: x + more["b"][0], (x, {"b": [x, x]}), tmp_path)
    for more, said in (({"b": [x]}, r"{'b': \[…\]}"), ({"c": [x, x]}, r"{'c': \[…, …\]}"), ((x, x), r"\(…, …\)")):
        with pytest.raises(InputError, match=f"argument 1 is {said}, and it takes {{'b': \\[…, …\\]}}$"):
            loaded(x, more)


@pytest.mark.parametrize(("count", "why"), [(1, "missing a required argument: 'y'"), (3, "too many positional")])
def test_inputs_that_a_function_does_not_take(count: int, why: str, tmp_path: Path) -> None:
    """A traceback of Python's, and one of torch's."""
    with pytest.raises(PackageError, match=rf"takes \(x, y\), and inputs give {count} positional: {why}"):
        packaged(lambda x, y: x + y, (torch.randn(3),) * count, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_an_exported_program_leaves_out_is_refused(tmp_path: Path) -> None:
    """The one was not given the data, the other's gradients did not go through the hook: both in silence."""

    def other_data(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.data = y * 2
        return x * 3

    def hooked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        z.register_hook(lambda gradient: gradient * 5)
        return z * y

    for training in (False, True):
        inputs = [torch.randn(3).requires_grad_(training) for _ in range(2)]
        with pytest.raises(PackageError, match="a tensor is given other data"):
            packaged(other_data, inputs, tmp_path, training=training)
    with pytest.raises(PackageError, match="a hook is registered"):
        packaged(hooked, inputs, tmp_path, training=True)


def test_what_cannot_be_packaged_leaves_nothing_behind(tmp_path: Path) -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        return x.expand(3, 4).add_(1)

    with pytest.raises((PackageError, RuntimeError)):
        cuesta.package(fails, (torch.randn(1, 4),), tmp_path / "m.cuesta")
    with pytest.raises(PackageError, match="what eager would run cannot be packaged: AOTAutograd cannot capture it"):
        cuesta.package(lambda x: (x.add_(1), x.float().t_(), x + 1), (torch.ones(3, 4),), tmp_path / "m.cuesta")
    with pytest.raises(PackageError, match="are a tuple of positional arguments"):
        cuesta.package(torch.sin, torch.ones(3), tmp_path / "m.cuesta")  # pyright: ignore[reportArgumentType]
    with pytest.raises(PackageError, match="can not be packaged"):
        cuesta.package(3, (torch.ones(3),), tmp_path / "m.cuesta")  # pyright: ignore[reportArgumentType]
    with pytest.raises(PackageError, match="there is no folder"):
        cuesta.package(torch.sin, (torch.ones(3),), tmp_path / "nowhere" / "m.cuesta")
    with pytest.raises(PackageError, match="not the options"):
        cuesta.package(torch.sin, (torch.ones(3),), tmp_path / "m.cuesta", options={"mode": "reduce-overhead"})
    assert list(tmp_path.iterdir()) == []


# -- the command line --------------------------------------------------------------------------------------------------

FILE = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.GELU())
inputs = (torch.randn(2, 4),)
"""


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, path = tmp_path / "model.py", tmp_path / "model.cuesta"
    source.write_text(FILE)
    assert main(["package", str(source), "-o", str(path), "--texts"]) == 0
    digest = container.read_container(path).digest
    assert digest in capsys.readouterr().out
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "takes    input: float32 (2, 4) on cpu" in said and digest in said and "2 tensors of 15 elements" in said
    assert main(["inspect", str(path), "--text", "fx.py"]) == 0
    assert "def forward" in capsys.readouterr().out
    assert main(["inspect", str(path), "--json"]) == 0
    assert '"variants"' in capsys.readouterr().out
    assert main(["inspect", str(source)]) == 1
    assert "model.py is no package, or damaged" in capsys.readouterr().err
    source.write_text("model = print")
    assert main(["package", str(source), "-o", str(path)]) == 1
    assert "defines no 'inputs'" in capsys.readouterr().err


def test_a_manifest_is_json_and_nothing_is_a_pickle(model: tuple[Path, Model]) -> None:
    with zipfile.ZipFile(model[0]) as archive:
        names = archive.namelist()
    assert "manifest.json" in names and "programs/0.forward" in names
    assert any(name.startswith("texts/0/") and name.endswith(".mlir") for name in names)
    assert Container(model[0].read_bytes(), model[0]).manifest["training"] is False
