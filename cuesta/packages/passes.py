"""Compiled passes as members of a package, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from cuesta.caching.entry import DamagedEntryError, decode, encode
from cuesta.packages.container import Container
from cuesta.packages.graph import Graph, PackageError, Pass, Plan
from cuesta.packages.weights import decoded, encoded

CONSTANTS = "constants.safetensors"
_NO_KEY = "package"
"""What stands for the key of a cache in entries of packages."""


class PassWriter:
    """Adds passes to the members of a package."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self.members = members
        self.tensors: dict[str, torch.Tensor] = {}

    def add(self, number: int, kind: str, part: Pass) -> dict[str, Any]:
        """Adds a pass; gives what the manifest says of it."""
        name = f"programs/{number}.{kind}"
        self.members[name] = encode(_NO_KEY, part.entry)
        names: list[str] = []
        for value in part.constants:
            names.append(str(len(self.tensors)))
            self.tensors[names[-1]] = value
        return {"program": name, "constants": names}

    def constants(self) -> dict[str, bytes]:
        """The member with what passes hold."""
        return {CONSTANTS: encoded(self.tensors)}


class PassReader:
    """Takes passes from a package. Errors: PackageError."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.tensors = decoded(container.members[CONSTANTS])

    def take(self, said: Mapping[str, Any], device: str) -> Pass:
        """The pass of which a manifest says this."""
        try:
            entry = decode(_NO_KEY, self.container.members[str(said["program"])])
        except DamagedEntryError as error:
            raise PackageError(f"{self.container.path} is damaged: {error}") from error
        return Pass(entry, [self.tensors[str(name)].to(device) for name in said["constants"]])

    def graph(self, head: Mapping[str, Any], device: str) -> Graph:
        """The graph that a manifest says these passes are."""
        backward = None if head["backward"] is None else self.take(head["backward"], device)
        return Graph(Plan.of_json(head["plan"]), self.take(head["forward"], device), backward)
