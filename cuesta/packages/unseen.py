"""What torch.export does not see, and a package would leave out in silence."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from cuesta.packages.graph import PackageError

_DATA: Any = torch.Tensor.data
_UNSEEN: dict[Any, str] = {
    _DATA.__set__: "a tensor is given other data (`x.data = y`)",
    torch.Tensor.register_hook: "a hook is registered for the gradient of a tensor",
}
"""What a model may do with a tensor while it runs that leaves nothing in an exported program (torch 2.11, 2.13)."""

_RANDOM: Any = torch.random
_SEEN = (
    *("torch._dynamo.", "torch._export.", "torch._functorch.", "torch._higher_order_ops.", "torch._library."),
    "torch.utils.checkpoint._NoopSaveInputs",
)
"""Where functions with a gradient of their own stand for operators, which are seen as such, or for nothing."""


class Seeing(TorchFunctionMode):
    """In its `with` block a model that does such a thing is refused. Errors: PackageError."""

    def __init__(self, *, training: bool) -> None:
        super().__init__()
        self.training = training
        self.patches = ExitStack()
        self.drawn: Sequence[Any] = ()

    def __enter__(self) -> Any:
        self.patches.enter_context(_instead(_RANDOM, "default_generator", _Seeded(_RANDOM.default_generator)))
        if self.training:
            self.patches.enter_context(_instead(torch.autograd.Function, "apply", classmethod(_apply)))
        self.drawn = _states()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.patches.close()
        if error[0] is None and self.drawn != _states():
            raise _refused("numbers are drawn by Python's module `random`, or by NumPy")

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if (said := _UNSEEN.get(func)) is not None:
            raise _refused(said)
        return func(*args, **(kwargs or {}))


@contextmanager
def _instead(owner: Any, name: str, value: Any) -> Generator[None]:
    """Lets an attribute be another, for a while."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Seeded:
    """The generator of random numbers, which nobody gives a seed. (Its state is put back by whoever traces.)"""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        if name in ("manual_seed", "seed"):
            raise _refused("the generator of random numbers is given a seed")
        return getattr(self._generator, name)


_APPLY: Any = torch.autograd.Function.__dict__["apply"].__func__


def _apply(function: Any, *args: Any, **kwargs: Any) -> Any:
    wants = any(isinstance(one, torch.Tensor) and one.requires_grad for one in args) and torch.is_grad_enabled()
    if wants and not f"{function.__module__}.{function.__qualname__}".startswith(_SEEN):
        raise _refused(f"a function has a gradient of its own ({function.__qualname__}, a torch.autograd.Function)")
    return _APPLY(function, *args, **kwargs)


def _states() -> Sequence[Any]:
    """What random numbers come next that are not torch's."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return [random.getstate()]
    kind, keys, *rest = numpy.random.get_state()
    return [random.getstate(), kind, bytes(keys), rest]


def _refused(said: str) -> PackageError:
    return PackageError(f"what torch.export does not see cannot be packaged: {said}")


__all__ = ["Seeing"]
