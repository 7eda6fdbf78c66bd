"""What a call of a program leaves behind, by name: in eager, compiled, in float64, and in eager with digits nudged."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
import torch._functorch.config as functorch_settings
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException
from torch.utils._pytree import keystr, tree_flatten, tree_flatten_with_path

from cuesta.in_eager import UNCAPTURED, left_as_found
from cuesta.testing import Float64Mode
from tests.fuzz.calls import scope
from tests.fuzz.calls.roundings import DrawnInFloat32, NudgedMode
from tests.fuzz.calls.scope import chosen_outright, widened

Make = Callable[..., tuple[list[Any], list[Any]]]
Results = dict[str, Any]
SEED = 5
NUDGED = 8
"""So many runs with nudged numbers."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An error in place of results."""

    error: BaseException

    def __str__(self) -> str:
        name = type(self.error).__name__
        lines = [line for line in str(self.error).splitlines() if line.strip()]
        own = [f for f in traceback.extract_tb(self.error.__traceback__) if "/cuesta/" in f.filename]
        where = f" [{own[-1].filename.rsplit('/cuesta/', 1)[-1]}:{own[-1].lineno}]" if own else ""
        # Dynamo's and a backend's errors wrap the one that matters.
        inner = next((line for line in lines[1:] if re.match(r"\w*(Error|Exception)\b", line)), "")
        return f"{name}: {lines[0] if lines else ''} {inner}{where}\n" + "\n".join(lines[1:6])


def donated_buffers(are: bool) -> Any:
    """The `with` block in which a backward pass may overwrite what was saved for it, or may not."""
    return functorch_settings.patch(donated_buffer=are)


def captured_numbers(are: bool) -> Any:
    """The `with` block in which Dynamo captures numbers and sizes that only the data knows, or does what it did."""
    if not are:
        return nullcontext()
    return torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)


@dataclass
class Call:
    """A program, with the inputs of one call. What is asked for more than once is computed once."""

    program: Callable[..., Any]
    make: Make
    sizes: Sequence[int]
    backward: str
    corrected: Callable[[], Any] | None = None
    """Makes a mode in which eager is put right, where eager is wrong."""
    uncaptured: list[str] = field(default_factory=list[str])
    """What was said of graphs that eager ran because PyTorch's capture failed, where nobody had foreseen that."""

    @cached_property
    def eager(self) -> Any:
        """What eager leaves behind, or what it raised. Its loops and branches are traced by Dynamo, which may refuse
        sizes and strides that are symbols because a program before this one had others: that counts for nothing.
        """
        with chosen_outright() if self.corrected else nullcontext():
            made = self._outcome(self.program)
            if isinstance(made, Raised) and isinstance(made.error, TorchDynamoException):
                with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
                    return self._outcome(self.program)
            return made

    def compiled(self, function: Callable[..., Any]) -> Any:
        """What the compiled program leaves behind. Gradients are of the results that eager has a gradient of, each
        object once: of two that are one tensor in eager, of the first.
        """
        roots = None if isinstance(self.eager, Raised) else _roots_of(self.eager)
        return outcome(function, self.make, self.sizes, self.backward, roots=roots, told=self.uncaptured)

    @cached_property
    def truth(self) -> Any:
        """What a call would leave behind, were all of it float64."""
        with widened(), chosen_outright():
            return self._outcome(self.program, Float64Mode())

    @cached_property
    def truth_of_draws(self) -> Any:
        """The same, with the random numbers of float32."""
        with widened(), chosen_outright():
            return self._outcome(self.program, DrawnInFloat32())

    @cached_property
    def nudged(self) -> list[Any]:
        """What calls in eager leave behind whose functions are off by a last digit."""
        return self._nudged(False)

    @cached_property
    def nudged_halves(self) -> list[Any]:
        """The same, of calls in which every number of 16 bits that is computed is off, too."""
        return self._nudged(True)

    @property
    def reads_digits(self) -> bool:
        """Whether the program reads numbers with a fraction as integers."""
        return self.watched.reads_digits

    @property
    def draws_halves(self) -> bool:
        """Whether the program draws random numbers of 16 bits."""
        return self.watched.draws_halves

    @cached_property
    def watched(self) -> NudgedMode:
        with chosen_outright():
            self._outcome(self.program, mode := NudgedMode(0))
        return mode

    def _nudged(self, halves: bool) -> list[Any]:
        with chosen_outright():
            return [self._outcome(self.program, NudgedMode(seed, halves)) for seed in range(NUDGED)]

    def _outcome(self, program: Callable[..., Any], mode: Any = None) -> Any:
        with self.corrected() if self.corrected else nullcontext():
            return outcome(program, self.make, self.sizes, self.backward, mode)


def _roots_of(results: Results) -> list[str]:
    """The names of the outputs that gradients are of."""
    named = [name.removesuffix(" autograd") for name, value in results.items() if value == (True, False)]
    named = [name for name in named if name.startswith("output") and f"{name} autograd" in results]
    return [name for name in named if not str(results.get(f"{name} is")).startswith("output")]


def outcome(
    program: Callable[..., Any],
    make: Make,
    sizes: Sequence[int],
    backward: str,
    mode: Any = None,
    roots: Sequence[str] | None = None,
    told: list[str] | None = None,
) -> Any:
    """All that one call leaves behind, by name, or what it raised. With `roots`, gradients are of these outputs; `told`
    is what is said of graphs that nobody could capture.

    Backends that compile nothing leave levels of `torch.func` behind where they raise: no program after them could
    call `jvp` (torch 2.11, 2.13).
    """
    try:
        arguments, owners = make(*sizes)
        torch.manual_seed(SEED)
        with warnings.catch_warnings(record=True) as heard, left_as_found(), mode or nullcontext():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", f"cuesta runs a graph in eager: {UNCAPTURED}")
            made = _effects(program, arguments, owners, backward, roots)
        if told is not None:
            told += [str(one.message) for one in heard]
        return made
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is compared
        return Raised(error)


def _effects(
    program: Callable[..., Any],
    arguments: list[Any],
    owners: list[Any],
    backward: str,
    of: Sequence[str] | None,
) -> Results:
    given = [*_leaves(arguments, "argument"), *_leaves(owners, "owner")]
    wanted = {name: value for name, value in given if isinstance(value, Tensor) and _is_wanted(value)}
    lay = _places(given)
    outputs = program(*arguments)
    results: Results = {"structure": str(tree_flatten(outputs)[1])}
    results["random state"] = torch.get_rng_state()
    if scope.DEVICE != "cpu":
        results["random state of the device"] = torch.cuda.get_rng_state()
    found = _leaves(outputs, "output")
    results |= _seen([*given, *found])
    now = _places(given)
    results |= {f"{name} moved": not _is_same_place(lay[name], now[name]) for name in lay if name in now}
    roots = [
        value
        for name, value in found
        if isinstance(value, Tensor) and value.grad_fn is not None and (of is None or name in of)
    ]
    roots = list({id(root): root for root in roots}.values())
    if backward and wanted and roots:
        roots = roots[:1] if backward == "first" else roots
        for time in range(2 if backward == "twice" else 1):
            gradients = torch.autograd.grad(
                roots, list(wanted.values()), [_cotangent(root, time, backward == "odd") for root in roots],
                allow_unused=True, retain_graph=backward == "twice",
            )  # fmt: skip
            results |= _seen([(f"gradient {time} of {n}", g) for n, g in zip(wanted, gradients, strict=True)], False)
    return results | _versions([*given, *found])


def _places(values: list[tuple[str, Any]]) -> dict[str, tuple[Any, Any]]:
    """In which memory tensors lie, which is held, and where they begin there."""
    found: dict[str, tuple[Any, Any]] = {}
    for whole in values:
        for name, value in _parts(*whole):
            if isinstance(value, Tensor) and value.layout is torch.strided and value.numel():
                found[name] = value.untyped_storage(), value.storage_offset()
    return found


def _is_same_place(one: tuple[Any, int], other: tuple[Any, int]) -> bool:
    return (one[0]._cdata, one[1]) == (other[0]._cdata, other[1])


def _versions(values: list[tuple[str, Any]]) -> Results:
    """Which tensors that share memory count their changes together: autograd looks there for what was written to."""
    results: Results = {}
    owners: dict[int, Tensor] = {}
    plain = [one for name, value in values for one in _parts(name, value)]
    for name, value in plain:
        if isinstance(value, Tensor) and value.layout is torch.strided and value.numel():
            owner = owners.setdefault(value.untyped_storage()._cdata, value)
            before = value._version
            torch.autograd.graph.increment_version(owner)
            results[f"{name} version"] = value._version != before
    return results


def _is_wanted(value: Tensor) -> bool:
    return value.requires_grad and (value.is_leaf or value._base is None)


def _cotangent(root: Tensor, time: int, is_odd: bool = False) -> Tensor:
    """Numbers that every dtype holds exactly, which lie as the output does, or in `odd` ways."""
    made = torch.empty_like(root.detach())
    weights = (torch.arange(made.numel(), device=made.device) * 7 % 13 - 6 + time) / 4
    made = made.copy_(weights.to(made.dtype).reshape(made.shape))
    return _lying_oddly(made) if is_odd and type(made) is Tensor and made.dim() and made.numel() else made


def _lying_oddly(plain: Tensor) -> Tensor:
    """The numbers backwards in memory, with gaps, with a bit; or the first of them, expanded."""
    order = list(range(plain.dim()))[::-1]
    match plain.numel() % 4:
        case 0:
            return plain.flatten()[:1].view([1] * plain.dim()).expand(plain.shape)
        case 1:
            return torch.stack([plain, plain + 1], -1)[..., 0]
        case 2:
            return plain.conj().resolve_conj().conj() if plain.is_complex() else torch.ops.aten._neg_view(-plain)
        case _:
            return plain.permute(order).contiguous().permute(order)


def _leaves(tree: Any, name: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for path, value in tree_flatten_with_path(tree)[0]:
        own = f"{name}{keystr(path)}"
        if isinstance(value, torch.nn.Module):
            found += [(f"{own}.{inner}", one) for inner, one in [*value.named_parameters(), *value.named_buffers()]]
        else:
            found.append((own, value))
    return found


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """A tensor, or the plain tensors that a subclass is made of."""
    if not isinstance(value, Tensor) or not hasattr(value, "__tensor_flatten__"):
        return [(name, value)]
    wrapped: Any = value
    inner, _ = wrapped.__tensor_flatten__()
    return [one for part in inner for one in _parts(f"{name}.{part}", getattr(value, part))]


def _seen(values: list[tuple[str, Any]], owned: bool = True) -> Results:
    """What can be seen of values: of tensors, copies of what they hold, and how they lie."""
    results: Results = {}
    plain = [one for name, value in values for one in _parts(name, value)]
    for number, (name, value) in enumerate(values):
        results[f"{name} type"] = type(value)
        if isinstance(value, Tensor):
            results[f"{name} autograd"] = value.requires_grad, value.is_leaf
            if value.numel():  # eager's operators give a tensor without elements itself where they would make a new one
                results[f"{name} is"] = next((other for other, one in values[:number] if one is value), None)
    owners: dict[int, tuple[str, Any]] = {}
    for name, value in plain:
        if not isinstance(value, Tensor):
            results[name] = value
            continue
        detached = value.detach()
        results[name] = detached.resolve_conj().resolve_neg().clone()
        if owned and value.layout is torch.strided:
            used = [stride for size, stride in zip(value.shape, value.stride(), strict=True) if size != 1]
            results[f"{name} strides"] = used if value.numel() else None
            if value.numel():
                # Where a tensor begins in memory that it has for itself, nobody sees.
                owner, offset = owners.setdefault(value.untyped_storage()._cdata, (name, value.storage_offset()))
                results[f"{name} shares memory with"] = owner if owner != name else None
                results[f"{name} begins"] = value.storage_offset() - offset
    return results
