"""The parameters, buffers and constants of a packaged model: a file in the format of safetensors, and what is said of
them besides.

Source: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import torch

from cuesta.dialects.core.structs import struct
from cuesta.packages.graph import PackageError

Weights: TypeAlias = "str | os.PathLike[str] | Mapping[str, torch.Tensor]"


@struct
class Weight:
    """One tensor of a model, by its name there. `source` is its name in the file, one for all that share memory."""

    name: str
    source: str
    kind: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    trained: bool = False
    persistent: bool = True

    @classmethod
    def of_json(cls, head: Mapping[str, Any]) -> Weight:
        """The weight in what `asdict` gave. Errors: LookupError, TypeError, ValueError."""
        given = dict(head)
        for name in ("sizes", "strides"):
            given[name] = tuple(map(int, head[name]))
        return cls(**given)


def encoded(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Tensors as a file. Errors: PackageError for a type that the format does not have."""
    from safetensors.torch import save

    try:
        # A copy of each: the format refuses tensors that share memory, and none here do on purpose.
        return save({name: one.detach().cpu().contiguous().clone() for name, one in tensors.items()})
    except (KeyError, ValueError, RuntimeError) as error:
        raise PackageError(f"weights cannot be written as safetensors: {error}") from error


def decoded(data: bytes) -> dict[str, torch.Tensor]:
    """The tensors in a file's bytes. Errors: PackageError."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return cast("dict[str, torch.Tensor]", load(data))
    except (SafetensorError, KeyError, ValueError) as error:
        raise PackageError(f"tensors of the package cannot be read: {error}") from error


def digest_of(path: Path) -> str:
    """The SHA-256 of a file. Errors: PackageError."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PackageError(f"the weights {path} cannot be read: {error.strerror}") from error


def read_weights(path: Path, needed: Sequence[Weight]) -> dict[str, torch.Tensor]:
    """The tensors of a file that weights are made of, by their names in it.

    Errors: PackageError when some are missing, or the file cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    names = sorted({one.source for one in needed})
    try:
        with safe_open(path, framework="pt") as file:
            there = set(file.keys())
            if missing := [name for name in names if name not in there]:
                raise PackageError(
                    f"the weights {path} have no {missing[0]!r}, and the package needs {len(missing)} such"
                )
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise PackageError(f"the weights {path} cannot be read: {error}") from error


def placed(needed: Sequence[Weight], found: Mapping[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    """The weights on a device, laid out as programs expect them. Those that share memory are one tensor.

    Errors: PackageError for one that is missing, or of another type or size.
    """
    made: dict[str, torch.Tensor] = {}
    tensors: dict[str, torch.Tensor] = {}
    for one in needed:
        if one.source not in made:
            value = found.get(one.source, found.get(one.name))
            if value is None:
                raise PackageError(f"the weights have no {one.source!r}")
            if str(value.dtype) != f"torch.{one.dtype}" or tuple(value.shape) != one.sizes:
                raise PackageError(
                    f"the weight {one.source} is {value.dtype} of the size {tuple(value.shape)}, and the package is "
                    f"for torch.{one.dtype} of {one.sizes}"
                )
            value = value.detach().to(device)
            if value.stride() != one.strides:
                value = torch.empty_strided(one.sizes, one.strides, dtype=value.dtype, device=device).copy_(value)
            made[one.source] = (
                torch.nn.Parameter(value, requires_grad=one.trained) if one.kind == "parameter" else value
            )
        tensors[one.name] = made[one.source]
    return tensors
