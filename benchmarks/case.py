"""What is measured: a function or a module, its inputs, and what one step of it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map

from examples.models import training_step

Inputs = Sequence[Any] | Mapping[str, Any]
Step = Callable[[], object]
Bound = Literal["memory", "arithmetic", "overhead"]


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table: `make()` gives the function and its inputs, the same numbers at every call.

    A training step is forward and backward: the gradients of the outputs (for fixed random cotangents) with respect to
    the inputs that require one (none for what the outputs do not depend on), or, for a module, those of its loss with
    respect to its parameters.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], Inputs]]
    training: bool = False
    bound: Bound = "arithmetic"
    """What its time should be. `memory`: moving its bytes once, so a fraction of the copy bandwidth says something;
    `overhead`: calling the thing at all."""
    random: bool = False
    """It draws random numbers; the check seeds before each call."""


class Prepared:
    """A case, made: function and inputs on a device, ready to be stepped."""

    def __init__(self, case: Case, device: str = "cpu") -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(2024)
            function, inputs = case.make()
        self.case = case
        self.function = function.to(device) if isinstance(function, torch.nn.Module) else function
        self.inputs: Inputs = tree_map(lambda value: _moved(value, device), inputs)
        self._cotangents: list[torch.Tensor] | None = None

    def call(self, function: Callable[..., Any]) -> Any:
        """The forward pass."""
        return function(**self.inputs) if isinstance(self.inputs, Mapping) else function(*self.inputs)

    def step(self, function: Callable[..., Any]) -> Step:
        """One step of `function`, which is this case's own or what `torch.compile` made of it.

        Requires: inference steps are called under `torch.no_grad`.
        """
        if not self.case.training:
            return lambda: self.call(function)
        if isinstance(self.function, torch.nn.Module):
            assert isinstance(self.inputs, Mapping)
            inputs = dict(self.inputs)
            return lambda: training_step(function, inputs)
        wanted = [leaf for leaf in tree_leaves(self.inputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]

        def step() -> object:
            outputs = _differentiable(self.call(function))
            if self._cotangents is None:
                generator = torch.Generator().manual_seed(0)
                self._cotangents = [
                    torch.randn(output.shape, generator=generator).to(output.detach()) for output in outputs
                ]
            return outputs, torch.autograd.grad(outputs, wanted, self._cotangents, allow_unused=True)

        return step

    def tensors(self) -> list[torch.Tensor]:
        """All that a step reads from outside: inputs, parameters, buffers."""
        found = [leaf for leaf in tree_leaves(self.inputs) if isinstance(leaf, torch.Tensor)]
        if isinstance(self.function, torch.nn.Module):
            found += [*self.function.parameters(), *self.function.buffers()]
        return found

    def bytes_moved(self) -> int:
        """The bytes that cannot be saved: what a step reads, once, and what it writes, once.

        The backward pass comes after the forward pass has ended, so it reads the inputs that require a gradient again.
        An input that is written to counts twice. Where only some rows of a table are read, the whole is counted only if
        it is smaller than what is read of it.
        """
        inputs = [leaf for leaf in tree_leaves(self.inputs) if isinstance(leaf, torch.Tensor)]
        versions = [tensor._version for tensor in inputs]
        with torch.set_grad_enabled(self.case.training):
            results = [leaf for leaf in tree_leaves(self.step(self.function)()) if isinstance(leaf, torch.Tensor)]
        written = [tensor for tensor, version in zip(inputs, versions, strict=True) if tensor._version != version]
        own = {tensor.data_ptr() for tensor in inputs}
        fresh = [result for result in results if result.data_ptr() not in own]
        total = sum(map(_size, [*inputs, *written, *fresh]))
        if self.case.training:
            total += sum(_size(tensor) for tensor in inputs if tensor.requires_grad)
            total += sum(map(_size, self._cotangents or ()))
        return total


def _size(tensor: torch.Tensor) -> int:
    """The bytes of a tensor's elements, each place in memory once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def _differentiable(outputs: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def _moved(value: Any, device: str) -> Any:
    if not isinstance(value, torch.Tensor) or value.device.type == torch.device(device).type:
        return value
    return value.detach().to(device).requires_grad_(value.requires_grad)
