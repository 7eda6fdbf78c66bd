"""`cuesta.load_package`: from a file to a module that can be called, without a compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from cuesta.packages.arrangement import children_of, difference
from cuesta.packages.container import Container, read_container
from cuesta.packages.graph import PackageError
from cuesta.packages.machines import check_machine
from cuesta.packages.passes import PassReader
from cuesta.packages.running import Flat, function_of
from cuesta.packages.signature import Checks, InputError, Signature
from cuesta.packages.weights import Weight, Weights, digest_of, placed, read_weights


def load_package(
    path: str | os.PathLike[str],
    *,
    weights: Weights | None = None,
    device: str | None = None,
    trusted: bool = False,
    digest: str | None = None,
) -> LoadedPackage:
    """A packaged program, ready to be called as the function was that it was made of. It is a `torch.nn.Module` with
    the names of parameters and buffers that the model had.

    `weights` are a file of safetensors or tensors by name, in place of the file that the package names. `device` says
    for which one, of those that it is for; otherwise the first that this machine has. `digest` is the SHA-256 that the
    package must have. A package that somebody else could have written is refused unless it has the digest, or is
    `trusted`: its code runs.

    Errors: PackageError for a package that is damaged, for another version, processor or device, or of which the
    weights are not there. Calls raise InputError, which is a TypeError, for inputs that it is not for.
    """
    container = read_container(path, trusted=trusted, digest=digest)
    manifest = container.manifest
    try:
        device = _chosen_device(container, device)
        passes = PassReader(container)
        needed = [Weight.of_json(one) for one in manifest["weights"]["tensors"]]
        tensors = placed(needed, _found_weights(container, weights, needed), device)
        variants = [_Variant(one, passes, tensors) for one in manifest["variants"] if one["device"] == device]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise error if isinstance(error, PackageError) else _damaged(container, error) from error
    return LoadedPackage(container.path, variants, needed, tensors)


def _damaged(container: Container, error: Exception) -> PackageError:
    return PackageError(f"{container.path} is damaged: {error!r}")


def _chosen_device(container: Container, device: str | None) -> str:
    """The device to load for. Errors: PackageError when there is none."""
    manifest = container.manifest
    there = list(dict.fromkeys(str(one["device"]) for one in manifest["variants"]))
    if device is not None:
        wanted = device if device in there else f"{device}:0"
        if wanted not in there:
            raise PackageError(f"{container.path} is for {', '.join(there)}, not for {device}")
        there = [wanted]
    reasons: list[PackageError] = []
    for one in there:
        try:
            check_machine(manifest["machine"], one, container.path)
        except PackageError as error:
            reasons.append(error)
        else:
            return one
    raise reasons[0]


def _found_weights(container: Container, given: Weights | None, needed: Sequence[Weight]) -> Mapping[str, torch.Tensor]:
    if isinstance(given, Mapping):
        return given
    if given is not None:
        return read_weights(Path(given), needed)
    said = container.manifest["weights"]
    if not needed:
        return {}
    place = container.path.parent / str(said["file"])
    if not place.exists():
        raise PackageError(f"the weights of {container.path} should be {place}, where there are none: say `weights=…`")
    if digest_of(place) != said["digest"]:
        raise PackageError(
            f"the weights {place} are not those that {container.path} was made with (another SHA-256): say "
            "`weights=…` if they are meant"
        )
    return read_weights(place, needed)


class _Variant:
    """The program for one kind of inputs."""

    def __init__(self, head: Mapping[str, Any], passes: PassReader, tensors: Mapping[str, torch.Tensor]) -> None:
        self.checks = Checks(Signature.of_json(head["signature"]))
        self.taken = _specification(head["taken"], passes.container)
        self.given = _specification(head["given"], passes.container)
        self.function: Flat = function_of(passes.graph(head, str(head["device"])))
        self.names = [str(name) for name in head["weights"]]
        self.picked = [int(k) for k in head["inputs"]]
        if self.taken.num_leaves != len(self.checks.signature.inputs):
            raise ValueError(f"{self.taken.num_leaves} leaves, and {len(self.checks.signature.inputs)} inputs")
        self.is_plain = self.taken == _flat_arguments(len(self.checks.signature.inputs))
        self.rebuild = _rebuilder(self.given)
        self.bind(tensors)

    def bind(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Takes the weights that calls read."""
        self.weights = [tensors[name] for name in self.names]

    def run(self, symbols: Sequence[int], leaves: Sequence[Any]) -> Any:
        """The results for inputs that were accepted: the graph takes symbols, then weights, then what is no symbol."""
        return self.rebuild(self.function([*symbols, *self.weights, *[leaves[k] for k in self.picked]]))


def _specification(text: str, container: Container) -> pytree.TreeSpec:
    try:
        return pytree.treespec_loads(text)
    except (NotImplementedError, ValueError, LookupError, AttributeError) as error:
        raise PackageError(
            f"{container.path} takes or gives a container that is not known here; import what registers it ({error})"
        ) from error


def _flat_arguments(count: int) -> pytree.TreeSpec:
    """Positional arguments that are leaves."""
    return pytree.tree_structure(((0,) * count, {}))


def _rebuilder(given: pytree.TreeSpec) -> Callable[[Sequence[Any]], Any]:
    """From the graph's results to what the function gave."""
    if given.is_leaf():
        return lambda results: results[0]
    if given == pytree.tree_structure((0,) * given.num_leaves):
        return tuple
    return lambda results: pytree.tree_unflatten(list(results), given)


class LoadedPackage(torch.nn.Module):
    """A packaged program. Its parameters and buffers are changed in place only: they stay where they are."""

    def __init__(
        self, path: Path, variants: Sequence[_Variant], weights: Sequence[Weight], tensors: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        self._path = path
        self._variants = variants
        self._needed = weights
        for one in weights:
            _register(self, one, tensors[one.name])
        self.register_load_state_dict_post_hook(_bind_again)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives that was packaged. Errors: InputError."""
        for variant in self._variants:
            leaves = _leaves(variant, args, kwargs)
            if leaves is not None and (symbols := variant.checks.accept(leaves)) is not None:
                return variant.run(symbols, leaves)
        return self._adapted_call(args, kwargs)

    def _adapted_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        reasons: list[str] = []
        for variant in self._variants:
            leaves = _leaves(variant, args, kwargs)
            try:
                if leaves is None:
                    raise InputError(difference(variant.taken, args, kwargs))
                adapted = variant.checks.adapted(leaves)
            except InputError as error:
                reasons.append(str(error))
            else:
                symbols = variant.checks.accept(adapted)
                assert symbols is not None
                return variant.run(symbols, adapted)
        raise InputError(f"{self._path}: " + "; or ".join(dict.fromkeys(reasons)))

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        raise PackageError(
            f"{self._path} is a compiled program: its weights stay where they are, in the type they have (load it for "
            "another device with `device=…`)"
        )


def _bind_again(module: torch.nn.Module, _: object) -> None:
    """Weights may be other tensors now (`load_state_dict(…, assign=True)`)."""
    package = cast("LoadedPackage", module)
    tensors = {one.name: _held(package, one.name) for one in package._needed}
    for variant in package._variants:
        variant.bind(tensors)


def _leaves(variant: _Variant, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any] | None:
    """The inputs one after the other; None when they are not arranged as the program takes them."""
    if variant.is_plain and not kwargs:
        if len(args) != len(variant.checks.signature.inputs):
            return None
        if not any(isinstance(one, tuple | list | dict) for one in args):
            return args
    names = children_of(variant.taken)[1].context
    if set(names) == set(kwargs):
        kwargs = {name: kwargs[name] for name in names}
    leaves, taken = pytree.tree_flatten((tuple(args), dict(kwargs)))
    return leaves if taken == variant.taken else None


def _register(root: torch.nn.Module, weight: Weight, tensor: torch.Tensor) -> None:
    *way, last = weight.name.split(".")
    module = root
    for name in way:
        if name not in module._modules:
            module.add_module(name, torch.nn.Module())
        module = cast("torch.nn.Module", module._modules[name])
    if weight.kind == "parameter":
        module.register_parameter(last, cast("torch.nn.Parameter", tensor))
    else:
        module.register_buffer(last, tensor, persistent=weight.persistent)


def _held(root: torch.nn.Module, name: str) -> torch.Tensor:
    value: Any = root
    for part in name.split("."):
        value = getattr(value, part)
    return value
