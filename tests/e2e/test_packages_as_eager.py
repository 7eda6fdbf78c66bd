"""What a package leaves behind is what eager does: views, changes, gradients; what it could not is refused by name."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import cuesta
from cuesta.packages.graph import PackageError
from cuesta.packages.signature import Checks, InputError, Signature, Symbol, TensorInput

Function = Callable[..., Any]
TORCH: Any = torch
"""Names of torch's that have an underscore, or none in what it says to export."""


def packaged(function: Function, inputs: Sequence[Any], folder: Path, **chosen: Any) -> Any:
    """The function, through a package."""
    cuesta.package(function, tuple(inputs), folder / "p.cuesta", **chosen)
    return cuesta.load_package(folder / "p.cuesta")


def anew(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs in memory of their own, with the gradients that they want."""
    return [one.detach().clone().requires_grad_(one.requires_grad) for one in inputs]


def check(loaded: Function, function: Function, inputs: Sequence[torch.Tensor]) -> None:
    """Equal in results, in whether they have a gradient, in what became of inputs, and in gradients."""
    ours, theirs = anew(inputs), anew(inputs)
    found, expected = (one if isinstance(one, tuple | list) else (one,) for one in (loaded(*ours), function(*theirs)))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
        assert one.requires_grad == other.requires_grad
    torch.testing.assert_close(ours, theirs)
    assert [one._version > 0 for one in ours] == [one._version > 0 for one in theirs]
    if not any(one.requires_grad for one in expected):
        return
    gradients: list[Any] = []
    for results, given in ((found, ours), (expected, theirs)):
        real = [torch.view_as_real(y + 0) if y.is_complex() else y for y in results if y.requires_grad]
        total = torch.stack([y.sin().sum() for y in real]).sum()  # which tells elements apart
        wanted = [one for one in given if one.requires_grad]
        gradients.append(torch.autograd.grad(total, wanted, allow_unused=True))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other)


def hidden(x: torch.Tensor) -> torch.Tensor:
    x.detach().mul_(2)
    return x * 3


def without_gradients(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        x.mul_(2)
    return x, x[1:]


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    return x * y


REAL = torch.randn(3, 4)
COMPLEX = torch.randn(3, 4, dtype=torch.complex64)
FUNCTIONS: dict[str, tuple[Function, Sequence[torch.Tensor]]] = {
    "parts of an input": (lambda x: (x.real, x.imag[1:], x * 2), [COMPLEX]),
    "a part of a conjugate": (lambda x: (x.conj(), x.conj().imag, x * 2), [COMPLEX]),
    "complex numbers of an input": (lambda x: (torch.view_as_complex(x), x * 2), [torch.randn(3, 2)]),
    "parts of what is computed": (lambda x: ((y := (x * 1j).imag), y), [COMPLEX]),
    "complex numbers of what is computed": (
        lambda x: ((y := torch.view_as_complex((x * 2).view(3, 2, 2))), y.t()),
        [REAL],
    ),
    "bits of an input": (lambda x: (x.view(torch.int16)[:, 1:], x * 2), [REAL]),
    "wider bits of an input": (lambda x: (x.view(torch.int64)[1:], x * 2), [REAL]),
    "bits of what is computed": (lambda x: ((y := x * 2), y.view(torch.int32)), [REAL]),
    "no gradient of a view": (lambda x: (x.detach(), x * 2), [REAL]),
    "no gradient of a view of a result": (lambda x: ((y := x * 2), y.detach()[1:], y.t()), [REAL]),
    "a conjugate is saved": (lambda x: torch.addcmul(x, x, x, value=0.5).select(-1, 3), [COMPLEX]),
    "a change behind autograd's back": (hidden, [REAL]),
    "a change without gradients": (without_gradients, [REAL]),
    "an input that changes": (written, [REAL, torch.ones(3, 4)]),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, training: bool, tmp_path: Path) -> None:
    function, inputs = FUNCTIONS[name]
    given = [one.clone().requires_grad_(training and k == 0) for k, one in enumerate(inputs)]
    loaded = packaged(function, anew(given), tmp_path, training=training)
    check(loaded, function, given)


def test_gradients_of_large_results(tmp_path: Path) -> None:
    """Their backward pass was to be compiled when gradients came, for how they lie: the package had none."""
    x = torch.randn(200, 100, requires_grad=True)
    loaded = packaged(lambda x: x.sin() * 2, (x,), tmp_path, training=True)
    check(loaded, lambda x: x.sin() * 2, [x])
    (gradient,) = torch.autograd.grad(loaded(x), x, torch.ones(100, 200).t())  # as it lies
    torch.testing.assert_close(gradient, x.detach().cos() * 2)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's own, which it hides where warnings are no errors
def test_an_input_that_was_computed_changes_for_autograd(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.mul_(x + 1)
        return x * 3

    leaf = torch.randn(3, requires_grad=True)
    loaded = packaged(function, (leaf * 2,), tmp_path, training=True)
    gradients: list[torch.Tensor] = []
    for one in (loaded, function):
        x = leaf * 2
        one(x)
        gradients += torch.autograd.grad(x.sum(), leaf)
    torch.testing.assert_close(gradients[0], gradients[1])
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        loaded(torch.randn(3, requires_grad=True))


@pytest.mark.parametrize("training", [False, True])
def test_views_of_sizes_that_only_the_data_says(training: bool, tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = (x[x > 0] * 1).expand(2, -1)
        return found, found

    first, second = (torch.tensor(one).requires_grad_(training) for one in ([1.0, -1, 2], [1.0, 3, 2]))
    loaded = packaged(function, (first,), tmp_path, training=training)
    check(loaded, function, [first])
    check(loaded, function, [second])


def test_results_of_sizes_that_only_the_data_says_beside_a_gradient(tmp_path: Path) -> None:
    """What was saved for a backward pass that the package did not have came out as results."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp(), y[y > 0] * 2

    inputs = [torch.randn(3, requires_grad=True) for _ in range(2)]
    check(packaged(function, inputs, tmp_path, training=True), function, inputs)


def test_an_update_of_one_tensor_twice_whose_size_only_the_data_says(tmp_path: Path) -> None:
    """It was made once: nothing is known to overlap that may be empty."""

    def function(x: torch.Tensor) -> torch.Tensor:
        found = x[x > 0]
        TORCH._foreach_add_([found, found], 0.5)
        return found * found

    x = torch.tensor([1.0, -1, 2])
    with pytest.raises(PackageError, match="writes to tensors that overlap"):
        packaged(function, (x,), tmp_path)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), pytest.warns(UserWarning, match="overlap"):
        torch.testing.assert_close(torch.compile(function, backend="cuesta")(x), function(x))


def test_conditions_with_a_least_size() -> None:
    """Python's `min` was unknown where conditions on sizes are checked (torch 2.11 has such)."""
    given = TensorInput("x", "float32", "cpu", ("s0",), (1,))
    checks = Checks(Signature((given,), (Symbol("s0", 0, None, 0, 0),), ("min(s0, 3) == 3",)))
    assert checks.accept([torch.ones(4)]) == [4]
    assert checks.accept([torch.ones(2)]) is None
    with pytest.raises(InputError, match=r"for sizes with min\(s0, 3\) == 3, and here s0 = 2"):
        checks.adapted([torch.ones(2)])


def test_draws_in_the_order_of_memory(tmp_path: Path) -> None:
    """Updates of what lies column by column were put right in graphs of Dynamo's alone."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x.bernoulli_(0.5) * 2

    x = torch.rand(6, 5).t()
    loaded = packaged(function, (x.clone(),), tmp_path)
    results: list[torch.Tensor] = []
    for one in (loaded, function):
        torch.manual_seed(3)
        results.append(one(x.clone()))
    assert torch.equal(*results)


# -- what is refused ---------------------------------------------------------------------------------------------------


class Straight(torch.autograd.Function):
    """The sign, with a gradient that goes through."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def seeded(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return x * torch.rand(3)


UNSEEN: dict[str, tuple[Function, str]] = {
    "a seed": (seeded, "is given a seed"),
    "a number of Python's": (lambda x: x * random.random(), "numbers are drawn by Python's module `random`"),
    "a number of NumPy's": (lambda x: x * float(np.random.rand()), "or by NumPy"),
    "a gradient of its own": (lambda x: Straight.apply(x) * 2, "Straight, a torch.autograd.Function"),
    "a checkpoint of one": (
        lambda x: checkpoint(torch.sin, x, use_reentrant=True),
        "CheckpointFunction, a torch.autograd.Function",
    ),
    "a sparse tensor": (lambda x: x.to_sparse().coalesce().values(), r"with the layout torch.sparse_coo"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_torch_export_does_not_see_is_refused(name: str, tmp_path: Path) -> None:
    """All of it was left out in silence, or (of what is sparse) failed in calls."""
    function, said = UNSEEN[name]
    with pytest.raises(PackageError, match=said):
        packaged(function, (torch.randn(3, requires_grad=True),), tmp_path, training=True)
    assert not list(tmp_path.iterdir())


def test_what_has_a_gradient_of_its_own_where_none_is_asked_for(tmp_path: Path) -> None:
    x = torch.randn(3)
    assert torch.equal(packaged(Straight.apply, (x,), tmp_path)(x), x.sign())


def test_a_checkpoint_is_seen_through(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda y: y.sin().exp(), x, use_reentrant=False)

    x = torch.randn(3, requires_grad=True)
    check(packaged(function, (x,), tmp_path, training=True), function, [x])


def test_the_generator_is_seeded_as_before(tmp_path: Path) -> None:
    generator = TORCH.random.default_generator
    with pytest.raises(PackageError, match="is given a seed"):
        packaged(seeded, (torch.ones(3),), tmp_path)
    assert TORCH.random.default_generator is generator
    torch.manual_seed(3)


def test_inputs_that_share_what_the_program_changes(tmp_path: Path) -> None:
    """AOTAutograd makes one tensor of them; the package took that for the inputs."""

    def function(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        z.copy_(y * 2)
        return x + 1

    x = torch.randn(3, 4)
    with pytest.raises(PackageError, match="inputs that share memory, and a program that changes one of them"):
        packaged(function, (x, torch.randn(3, 4), x.detach()), tmp_path)


def written_as_a_list(x: torch.Tensor) -> torch.Tensor:
    y = x * 3
    z = y[1:]
    TORCH._foreach_mul_([y], 2)
    return z.sin()


def updated_where_nothing_is_dropped(x: torch.Tensor) -> torch.Tensor:
    y = torch.nn.functional.dropout(x, 0)
    TORCH._foreach_div_([x, y.float()], 3)
    return y + 1


@pytest.mark.parametrize(
    ("function", "training", "said"),
    [
        (written_as_a_list, True, "writes to a tensor with a gradient that shares memory"),
        (updated_where_nothing_is_dropped, False, "writes to tensors that overlap"),
    ],
)
def test_what_shares_memory_or_has_a_gradient_is_known(
    function: Function, training: bool, said: str, tmp_path: Path
) -> None:
    """torch.export notes of values neither: packages had wrong gradients, and wrong values."""
    with pytest.raises(PackageError, match=said):
        packaged(function, (torch.randn(4, requires_grad=training),), tmp_path, training=training)


def test_what_a_transform_computes_is_no_constant(tmp_path: Path) -> None:
    """It was an error from within (`Cannot access storage of TensorWrapper`)."""
    said = "takes what it computes for a constant|Expected FakeTensor"  # the latter are words of torch.export (2.11)
    with pytest.raises((PackageError, AssertionError), match=said):
        packaged(torch.func.grad(lambda x: (x * x).mean()), (torch.randn(6),), tmp_path)


def test_a_loop_that_eager_runs(tmp_path: Path) -> None:
    """It was an error from within."""

    def function(y: torch.Tensor) -> Any:
        chosen = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos() + 1, (y,))
        carried = (torch.tensor(0), chosen)
        return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 0.5 + 1), carried)[0]

    x = torch.randn(4, 6, 6, requires_grad=True)
    shapes = (dict.fromkeys(range(3), torch.export.Dim.AUTO),)
    with pytest.raises(PackageError, match="what eager runs cannot be packaged"):
        packaged(function, (x,), tmp_path, training=True, dynamic_shapes=shapes)
