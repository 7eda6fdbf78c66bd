"""The name of a compiled graph in the cache: a hash of everything that the compilation depends on.

That is the graph (`graph_key.py`), what the user chose, what this machine can do, and who compiles: the contents
of our own sources and the versions of what we build upon. A developer's edit is another compiler.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import torch

from cuesta.caching.device_numbers import name_of_graph
from cuesta.caching.graph_key import UnkeyableError
from cuesta.caching.sources import hash_of_sources
from cuesta.dialects.core.extension import active
from cuesta.frozen import FROZEN, static_inputs
from cuesta.options import Options
from cuesta.precisions import tf32_of_convolutions, tf32_of_products
from cuesta.record import GraphKind
from cuesta.saved_results import given_results
from cuesta.targets.lookup import device_types, target_of

if TYPE_CHECKING:
    from torch.fx import GraphModule

NOT_IN_KEY = frozenset(
    {"cache", "cuda_graphs", "dump", "dump_inputs", "extension_seconds", "extensions", "trace", "verify"}
)
"""Options that the program does not depend on. A graph with a dump, a trace or checks is not looked up either;
extensions are in the key as what is in force."""


def key_of(gm: GraphModule, kind: GraphKind, options: Options) -> str | None:
    """The key of a graph, in hexadecimal; None when it cannot be named, or our sources have no files."""
    return key_and_devices(gm, kind, options)[0]


def key_and_devices(gm: GraphModule, kind: GraphKind, options: Options) -> tuple[str | None, tuple[int, ...]]:
    """The key, and the numbers of the CUDA devices that it counts: see `device_numbers.py`."""
    try:
        graph, numbers = name_of_graph(gm)
        device_lines = [line for kind in device_types() if kind in graph for line in _device_lines(kind)]
        settings = [*settings_lines(kind, options), f"frozen inputs {gm.meta.get(FROZEN, ())}", *extension_lines()]
        text = "\n".join([*_process_lines(), *device_lines, *settings, graph])
    except UnkeyableError:
        return None, ()
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), numbers


def compiler_lines() -> tuple[str, ...]:
    """Who compiles, and for which devices: what a measurement depends on."""
    devices = [line for kind in device_types() for line in _device_lines(kind)]
    return (*_process_lines(), *devices, *extension_lines())


def _device_lines(kind: str) -> tuple[str, ...]:
    """What programs for devices of a type depend on: who makes their kernels, and the facts that he knows."""
    target = target_of(kind)
    return (f"target {target.name} {dict(target.facts(kind))}", *target.key_lines())


def extension_lines() -> tuple[str, ...]:
    """What the extensions in force are, by their code.

    Errors: UnkeyableError, which says why, when that cannot be said.
    """
    extensions = active()
    if not extensions:
        return ()
    from cuesta.dialects.core.extension_key import UnnamableError, key_lines

    try:
        return key_lines(extensions)
    except UnnamableError as error:
        raise UnkeyableError(str(error)) from None


def why_unnamable() -> str | None:
    """Why extensions in force keep programs out of the cache; None when they do not."""
    try:
        extension_lines()
    except UnkeyableError as error:
        return str(error)
    return None


def settings_lines(kind: GraphKind, options: Options) -> list[str]:
    """What may change between two compilations of one process."""
    chosen = [f"{one.name}={getattr(options, one.name)!r}" for one in fields(options) if one.name not in NOT_IN_KEY]
    return [
        f"kind {kind}, given results {given_results(kind)}",
        *chosen,
        f"static inputs {static_inputs()}",
        f"deterministic {torch.are_deterministic_algorithms_enabled()}",
        f"default dtype {torch.get_default_dtype()}",
        f"TF32 in products {tf32_of_products()}, in convolutions {tf32_of_convolutions()}",
    ]


@functools.cache
def _process_lines() -> tuple[str, ...]:
    """What stays as it is while a process lives."""
    import llvmlite.binding as llvm

    from cuesta.targets.cpu.features import host_features
    from cuesta.targets.cpu.libraries import library_addresses

    features = host_features()
    return (
        f"sources {loaded_sources()}",
        f"python {sys.version}",
        f"torch {torch.__version__} {torch.version.git_version}",
        f"xdsl {importlib.metadata.version('xdsl')} sympy {importlib.metadata.version('sympy')}",
        f"llvmlite {importlib.metadata.version('llvmlite')} llvm {llvm.llvm_version_info}",
        f"machine {features.triple} {features.cpu_name} {features.f32_lanes} {features.feature_string}",
        f"functions {' '.join(sorted(library_addresses()))}",
    )


@functools.cache
def loaded_sources() -> str:
    """The sources as they were at the first compilation of this process: those that it runs."""
    return sources_on_disk()


def sources_on_disk() -> str:
    """A hash of all our files.

    Errors: UnkeyableError when there are none (a package inside an archive).
    """
    found = hash_of_sources()
    if found is None:
        raise UnkeyableError("the sources of cuesta are not files")
    return found
