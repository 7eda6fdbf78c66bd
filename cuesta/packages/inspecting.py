"""What a package is, as text for people: `cuesta inspect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.packages.container import Container
from cuesta.packages.graph import PackageError
from cuesta.packages.passes import PassReader


def described(container: Container) -> str:
    """A page about a package. Errors: PackageError when its manifest says less than it should."""
    try:
        return "\n".join(_lines(container)) + "\n"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise PackageError(f"{container.path} is damaged: {error!r}") from error


def _lines(container: Container) -> Iterator[str]:
    manifest = container.manifest
    machine, weights = manifest["machine"], manifest["weights"]
    yield f"{container.path}: {container.size} bytes, made by Cuesta {manifest['cuesta']} with torch {machine['torch']}"
    yield f"digest     {container.digest}"
    yield f"for        {'training' if manifest['training'] else 'inference'}, {machine['system']}"
    yield f"processor  {' '.join(machine['processor'])}"
    for device, what in machine["devices"].items():
        yield f"device     {device}: {what}"
    tensors: Sequence[Mapping[str, Any]] = weights["tensors"]
    elements = sum(_product(one["sizes"]) for one in tensors if one["name"] == one["source"])
    if tensors:
        yield f"weights    {len(tensors)} tensors of {elements} elements, in {weights['file']}"
    passes = PassReader(container)
    for number, variant in enumerate(manifest["variants"]):
        yield ""
        yield f"program {number} on {variant['device']}"
        for one in variant["signature"]["inputs"]:
            yield f"  takes    {_input(one)}"
        for one in variant["signature"]["symbols"]:
            most = "" if one["most"] is None else f" <= {one['most']}"
            yield f"  where    {one['least'] or 0} <= {one['name']}{most}"
        for condition in variant["signature"]["conditions"]:
            yield f"  where    {condition}"
        for kind in ("forward", "backward"):
            if variant[kind] is not None:
                entry = passes.take(variant[kind], "cpu").entry
                fallbacks = ", ".join(f"{name} ({count})" for name, count in entry.fallbacks.items())
                yield (
                    f"  {kind:<8} {entry.aten_ops} ops: {entry.kernels} launches of kernels, {entry.library_calls} "
                    f"calls of libraries" + (f"; in eager: {fallbacks}" if fallbacks else "")
                )
    if texts := [name for name in container.members if name.startswith("texts/")]:
        yield ""
        yield from (f"  {name}" for name in texts)


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _input(one: Mapping[str, Any]) -> str:
    if "dtype" not in one:
        return f"{one['name']} = {one['value']!r}"
    sizes = ", ".join(map(str, one["sizes"]))
    changed = ", which is changed" if one["written"] else ""
    return f"{one['name']}: {one['dtype']} ({sizes}) on {one['device']}{changed}"
