"""Explanations on disk, beside the compiled graphs: what explaining found, for who asks of the same program again.

An explanation is found by the first of its program's graphs, and taken only when every graph is the one it tells of:
the calls, sizes, options, compiler and machine that the cache's keys have, and besides what an explanation shows and a
program does not depend on, the names of nodes and the lines of the model. The graph has to be captured for that, which
is PyTorch's part of the time; no pass runs, and nothing is measured. The files are held to what `docs/cache.md` says
of all that lies in the cache: our own, in a folder that is our own, of a size that fits, checked by a checksum, JSON.
"""

from __future__ import annotations

import hashlib
import os
import platform
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from cuesta.caching.cache import DiskCache, shrink, warn_of_folder
from cuesta.caching.files import RefusedError, RefusedFolderError, read_file, write_file
from cuesta.caching.sealed import UnsealedError, sealed, unsealed
from cuesta.explain.model import Explanation
from cuesta.explain.reading import UnreadableError, read

if TYPE_CHECKING:
    import torch

    from cuesta.explain.nodes import TracedGraph
    from cuesta.options import Options
    from cuesta.record import GraphKind

SHARE: Final = 16
"""Explanations may take so small a part of the bytes that the cache may."""
_SUFFIX: Final = ".explained"
_FIRST_LINE: Final = b"cuesta explanation 1\n"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked about a program: of which no other answer is taken."""

    training: bool
    time: bool
    texts: bool
    options: Options
    asked: Mapping[str, Any]
    """The options, as they were given."""

    def name_of(self, gm: torch.fx.GraphModule, kind: GraphKind, traced: TracedGraph) -> str | None:
        """What a graph is called on the shelf, in hexadecimal; None for one that has no name in the cache."""
        import torch

        from cuesta.caching.key import key_of
        from cuesta.lowering.capture.plan import complete_metadata

        complete_metadata(gm)
        key = key_of(gm, kind, self.options)
        if key is None:
            return None
        digest = hashlib.sha256(key.encode())
        wanted = (self.training, self.time, self.texts, sorted((name, repr(one)) for name, one in self.asked.items()))
        machine = (platform.node(), torch.get_num_threads(), _processors())
        traces = [node.meta.get("stack_trace") for node in gm.graph.nodes]
        for one in (wanted, machine, traced.nodes, sorted(traced.hints.items()), traced.device, traced.text, traces):
            digest.update(repr(one).encode("utf-8", "surrogatepass") + b"\n")
        return digest.hexdigest()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Kept:
    """An explanation that was found, and the names of the graphs that it tells of, in order."""

    graphs: tuple[str, ...]
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder of explanations, of at most `limit` bytes in all."""

    folder: Path
    limit: int

    @classmethod
    def chosen_by(cls, options: Options) -> Shelf | None:
        """Where explanations lie; None when there is no cache, or the stages themselves are asked for."""
        if options.wants_stages or options.dump_inputs:
            return None
        cache = DiskCache.chosen_by(options)
        return None if cache is None else cls(cache.folder.parent / "explained", cache.limit // SHARE)

    def path(self, name: str) -> Path:
        """The file of an explanation."""
        return self.folder / f"{name}{_SUFFIX}"

    def load(self, name: str) -> Kept | None:
        """The explanation of a program whose first graph has this name; None where there is none that is sound."""
        path = self.path(name)
        try:
            kept = _decode(name, read_file(path, self.limit))
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
            return None
        except OSError:
            return None
        except (RefusedError, UnsealedError, UnreadableError, MemoryError) as error:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            why = str(error).partition("\n")[0] or "it does not fit into memory"
            warnings.warn(f"cuesta: {path} is not used ({why}); the model is explained afresh", stacklevel=2)
            return None
        with suppress(OSError):  # removed by another process just now, or a folder that we may only read
            os.utime(path)
        return kept

    def store(self, graphs: Sequence[str], explanation: Explanation) -> None:
        """Keeps an explanation of the graphs with these names, unless the folder cannot be written."""
        data = _encode(Kept(tuple(graphs), replace(explanation, name="")))
        if len(data) > self.limit:
            return
        try:
            write_file(self.path(graphs[0]), data)
            shrink(self.folder, _SUFFIX, self.limit)
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
        except OSError as error:
            why = error.strerror or str(error)
            warnings.warn(f"cuesta: the explanation is not kept: {self.folder} cannot be written ({why})", stacklevel=2)


def _encode(kept: Kept) -> bytes:
    return sealed(_FIRST_LINE, {"graphs": kept.graphs, "explanation": kept.explanation.to_json()})


def _decode(name: str, data: bytes) -> Kept:
    """Errors: UnsealedError, UnreadableError."""
    head = unsealed(_FIRST_LINE, data, "an explanation")
    try:
        graphs = tuple(map(str, cast("list[Any]", head["graphs"])))
        explanation = read(Explanation, head["explanation"])
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableError(f"it does not read: {error}") from error
    if graphs[:1] != (name,) or len(graphs) != len(explanation.graphs):
        raise UnreadableError("it belongs to another program")
    return Kept(graphs, explanation)


__all__ = ["Kept", "Request", "Shelf"]
