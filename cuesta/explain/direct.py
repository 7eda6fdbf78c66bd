"""The direct way to an explanation that was kept: when nothing that the earlier run depended on has changed, neither is
the file run again, nor torch imported.

What the command was asked, by whom and where, is the name of an entry: the options, the environment, the working
directory, Python, our own sources, the machine. What the run looked at stands in it (`seen.py`, found out by
`witness.py`), and which graphs it found, under which the explanation is kept (`kept.py`). Only a process that begins
with the command goes this way, or notes it: in another, anything may have happened before.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from cuesta.caching.cache import DiskCache, shrink, warn_of_folder
from cuesta.caching.files import RefusedError, RefusedFolderError, read_file, write_file
from cuesta.caching.sealed import UnsealedError, sealed, unsealed
from cuesta.caching.sources import hash_of_sources, source_folders
from cuesta.explain.kept import Shelf
from cuesta.explain.model import Explanation
from cuesta.explain.seen import Seen, UnreadableSeenError
from cuesta.explain.witness import UnvouchedError, Witness
from cuesta.options import Options

SHARE: Final = 32
"""Entries may take so small a part of the bytes that the cache may."""
_FOLDER: Final = "unchanged"
_SUFFIX: Final = ".seen"
_FIRST_LINE: Final = b"cuesta unchanged 1\n"

SESSION: Final = frozenset(
    {
        "_", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "GPG_AGENT_INFO", "INVOCATION_ID",
        "JOURNAL_STREAM", "LINES", "LS_COLORS", "NO_COLOR", "OLDPWD", "SHLVL", "SSH_AGENT_PID", "SSH_AUTH_SOCK",
        "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "STY", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID", "TMUX", "TMUX_PANE", "WINDOW", "WINDOWID", "XDG_SESSION_ID",
    }
)  # fmt: skip
"""Variables of the environment that name a terminal, its colours or a login. What is shown is drawn anew each time, so
that they have their effect; all others may mean another program.
"""
TALKATIVE: Final = ("CUESTA_LOG", "TORCH_COMPILE_DEBUG", "TORCH_LOGS", "TORCH_TRACE")
"""Variables that ask for what is said while a program is captured: then it is captured."""


@dataclass(frozen=True, slots=True)
class Direct:
    """The place of an entry in a folder of at most `limit` bytes, and the shelf of explanations beside it."""

    folder: Path
    limit: int
    shelf: Shelf
    name: str
    """Of the entry, in hexadecimal."""
    sources: str
    """A hash of our own sources."""

    @classmethod
    def of(cls, file: str, asked: Sequence[object]) -> Direct | None:
        """The place for a file and what is asked of it; None where there is no such way.

        Errors: OptionError for a variable of the environment that cannot be understood.
        """
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        if "torch" in sys.modules or not sys.platform.startswith("linux") or main is None:
            return None
        if any(os.environ.get(name) for name in TALKATIVE) or not os.path.isfile(file):
            return None
        cache, shelf, sources = DiskCache.chosen_by(Options()), Shelf.chosen_by(Options()), hash_of_sources()
        if cache is None or shelf is None or sources is None:
            return None
        try:
            name = name_of(file, asked, main, sources)
        except OSError:  # the working directory is gone
            return None
        return cls(cache.folder.parent / _FOLDER, cache.limit // SHARE, shelf, name, sources)

    @property
    def path(self) -> Path:
        """The file of the entry."""
        return self.folder / f"{self.name}{_SUFFIX}"

    @property
    def ours(self) -> tuple[str, ...]:
        """Folders whose files say nothing of a program: our sources, which are in the name, and what the cache keeps;
        each with a separator at its end.
        """
        root = os.path.abspath(self.folder.parent)
        kept = [os.path.join(root, one) for one in ("graphs", "explained", "timings", _FOLDER)]
        return tuple(os.path.join(one, "") for one in [*(root for _, root in source_folders()), *kept])

    def load(self, file: str) -> Explanation | None:
        """The explanation, if nothing has changed since."""
        try:
            graphs, seen = _decode(self.name, read_file(self.path, self.limit))
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
            return None
        except OSError:
            return None
        except (RefusedError, UnsealedError, UnreadableSeenError, MemoryError) as error:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            why = str(error).partition("\n")[0] or "it does not fit into memory"
            warnings.warn(f"cuesta: {self.path} is not used ({why}); the file is run again", stacklevel=2)
            return None
        if seen.changed() is not None:
            return None
        kept = self.shelf.load(graphs[0])
        if kept is None or kept.graphs != graphs or not is_of_processor(kept.explanation):
            return None
        with suppress(OSError):  # removed by another process just now, or a folder that we may only read
            os.utime(self.path)
        return replace(kept.explanation, name=file, not_run=True)

    def keep(self, graphs: Sequence[str], explanation: Explanation, witness: Witness) -> str:
        """Notes what the run of a program with these graphs depended on; or says why nobody can tell: then nothing is
        noted, and an entry that was there is removed.
        """
        try:
            why = _why_not(graphs, explanation)
            if why:
                raise UnvouchedError(why)
            seen = witness.seen()
            if hash_of_sources() != self.sources:
                raise UnvouchedError("cuesta was edited meanwhile")
        except UnvouchedError as error:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)
            return str(error)
        data = _encode(self.name, graphs, seen)
        if len(data) > self.limit:
            return "it looked at too much"
        try:
            write_file(self.path, data)
            shrink(self.folder, _SUFFIX, self.limit)
        except RefusedFolderError as error:
            warn_of_folder(self.folder, error)
            return str(error)
        except OSError as error:  # who keeps the explanation itself says so
            return error.strerror or str(error)
        return ""


def _why_not(graphs: Sequence[str], explanation: Explanation) -> str:
    if not graphs:
        return "the explanation is not kept"
    if explanation.breaks:
        return "Python runs between its graphs"
    return "" if is_of_processor(explanation) else "it runs on another device than the processor"


def is_of_processor(explanation: Explanation) -> bool:
    """Whether nothing in it is of another device: those may be gone, or busy, which only asking them tells."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return False
    devices = {one.device for graph in explanation.graphs for one in (*graph.kernels, *graph.values)}
    devices |= {one.device for one in explanation.machines}
    return all(device.partition(":")[0] == "cpu" for device in devices)


def name_of(file: str, asked: Sequence[object], main: str, sources: str) -> str:
    """The name of the entry for a file, what is asked of it, the program that asks, and our sources: a hash of those,
    and of all that surrounds them here and now. Errors: OSError.
    """
    facts = (file, tuple(asked), os.path.abspath(main), sources, *_python(), *_machine(), environment_of(os.environ))
    return hashlib.sha256(repr(facts).encode("utf-8", "surrogatepass")).hexdigest()


def environment_of(variables: Mapping[str, str]) -> str:
    """A hash of the variables that may mean another program: what they are is nobody's business."""
    told = sorted((name, value) for name, value in variables.items() if name not in SESSION)
    return hashlib.sha256(repr(told).encode("utf-8", "surrogatepass")).hexdigest()


def _python() -> Iterator[object]:
    """Who runs it, and how. Errors: OSError."""
    yield from (os.getcwd(), os.geteuid(), sys.executable, sys.version, sys.prefix, tuple(sys.path), sys.flags)
    yield from (sys.pycache_prefix, tuple(sys.warnoptions), sorted(sys._xoptions.items()))


_OF_PROCESSORS: Final = re.compile(r"^(model name|flags|Features|CPU \w+)\s*:.*$", re.MULTILINE)
_ACCELERATORS: Final = ("accel", "dri", "dxg", "habanalabs", "kfd", "nvidia")


def _machine() -> Iterator[object]:
    """Where it runs. Devices are not asked: what the system has of them is."""
    yield from (tuple(os.uname()), os.cpu_count(), tuple(sorted(os.sched_getaffinity(0))))
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        yield sorted({one[0] for one in _OF_PROCESSORS.finditer(file.read())})
    yield sorted(name for name in os.listdir("/dev") if name.startswith(_ACCELERATORS))
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            yield file.read()
    except OSError:
        yield ""


def _encode(name: str, graphs: Sequence[str], seen: Seen) -> bytes:
    return sealed(_FIRST_LINE, {"name": name, "graphs": list(graphs), "seen": seen.to_json()})


def _decode(name: str, data: bytes) -> tuple[tuple[str, ...], Seen]:
    """Errors: UnsealedError, UnreadableSeenError."""
    head = unsealed(_FIRST_LINE, data, "what a run looked at")
    if not isinstance(head, dict) or set(head) != {"name", "graphs", "seen"}:
        raise UnreadableSeenError("it has other fields")
    graphs: Any = head["graphs"]
    if not isinstance(graphs, list) or not graphs or not all(_is_name(one) for one in graphs):
        raise UnreadableSeenError("it names no graphs")
    if head["name"] != name:
        raise UnreadableSeenError("it belongs to another question")
    return tuple(graphs), Seen.from_json(head["seen"])


def _is_name(one: object) -> bool:
    return isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one) is not None


__all__ = ["SESSION", "TALKATIVE", "Direct", "environment_of", "is_of_processor", "name_of"]
