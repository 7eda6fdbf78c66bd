"""A witness looks on while a file is run and captured, and says what that depended on: `Seen`, or why nobody can tell.

Python tells whoever asks of every file that it opens, folder that it lists and process that it starts (audit events).
While the file itself runs, `os.stat` and its like are watched as well: what a program asks for and does not find. At
the end, modules and the maps of the process say what was loaded. What Python is not told of, native code may read:
libraries that are not known to leave that to Python (`KNOWN_LIBRARIES`), and words of the user's own sources that let
those read by name (`READERS`), end it. So do networks, other processes, files that were written as well, standard
input, and numbers drawn at random without a seed. A clock is not seen.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import FileFinder
from importlib.util import source_from_cache
from typing import Any, Final
from zipimport import zipimporter

from cuesta.explain import seen
from cuesta.explain.seen import LARGE, Numbers, Seen
from cuesta.explain.standard_input import WatchedInput
from cuesta.explain.unseeded import Generators

MOST_FILES: Final = 50_000
"""Source: ten times what a model of transformers reads."""
MOST_BYTES: Final = 512 << 20
"""Of files whose contents count. Source: a hash of so much takes half a second."""
TICK_NS: Final = 50_000_000
"""What was written so short a time before it was read may be written again without another time.

Source: clocks of file systems tick every 1 to 10 ms.
"""
BEFORE_NS: Final = 2_000_000_000
"""For so long the process may have run before it had a witness. Source: Python's own start, and our imports, ten times.
"""

KNOWN_LIBRARIES: Final = (
    "PIL/_imaging.", "_yaml/", "charset_normalizer/", "functorch/", "llvmlite/", "markupsafe/", "msgspec/", "numpy/",
    "numpy.libs/", "nvidia/", "pandas/", "pillow.libs/", "psutil/", "pydantic_core/", "regex/", "rpds/", "safetensors/",
    "scikit_learn.libs/", "scipy/", "scipy.libs/", "sklearn/", "tokenizers/", "torch/", "torchvision/",
    "torchvision.libs/", "triton/", "yaml/", "z3/",
)  # fmt: skip
"""Shared libraries of packages that open files through Python, or by names that Python asked the system for before
(`from_pretrained`, `torch.jit.load`), or when a source calls one of `READERS`.
"""
READERS: Final = re.compile(
    rb"\b(safetensors|safe_open|tokenizers|from_file|PyTorchFileReader|load_pt2|PackageImporter|aoti_load_package"
    rb"|load_library|ctypes|cffi|CDLL|export\.load|read_file|dlopen|torchvision\.io|read_image|read_video)\b"
)
"""What a source calls that reads files, or whatever it likes, without telling Python."""

HARMLESS: Final = frozenset(
    {"/dev/null", "/dev/random", "/dev/urandom", "/proc/cpuinfo", "/proc/meminfo", "/proc/self/maps", "/proc/stat"}
    | {"/proc/self/status", "/proc/sys/kernel/random/boot_id"}
)
"""Files of the system that tell of the machine, which is known otherwise, or of the moment."""
_OF_THE_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_UNCLEAR: Final = re.compile(r"//|/\./|/\.\./|^/proc/")
_LIBRARY_FOLDERS: Final = ("/usr/", "/lib/", "/lib64/")

REFUSED: Final = {
    "builtins.input": "it asked for input",
    "os.exec": "it became another program",
    "os.fork": "it started another process",
    "os.forkpty": "it started another process",
    "os.posix_spawn": "it started another process",
    "os.spawn": "it started another process",
    "os.system": "it started another process",
    "pty.spawn": "it started another process",
    "socket.connect": "it used the network",
    "socket.getaddrinfo": "it used the network",
    "socket.gethostbyaddr": "it used the network",
    "socket.gethostbyname": "it used the network",
    "socket.sendmsg": "it used the network",
    "socket.sendto": "it used the network",
    "sqlite3.connect": "it opened a database",
    "subprocess.Popen": "it started another process",
}
"""Audit events after which nobody can tell what a run depended on."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_witness: Witness | None = None
"""Whoever looks on now."""
_is_hooked = False
_busy = threading.local()


class UnvouchedError(Exception):
    """Nobody can tell what a run depended on; the message says why."""


class Witness:
    """What was looked at so far. Files of `ours`, folders with a separator at their ends, do not count."""

    def __init__(self, ours: tuple[str, ...] = ()) -> None:
        self.ours = ours
        self.began_ns = time.time_ns()
        self.why = ""
        """Why nobody can tell, as soon as that is so."""
        self.read: dict[str, os.stat_result | None] = {}
        """Files that were opened, and what they were a moment before that."""
        self.bytecode: dict[str, os.stat_result | None] = {}
        """The same of compiled modules, which say what their sources do."""
        self.asked: dict[str, os.stat_result | None] = {}
        """What the file asked the system for, without opening it."""
        self.links: dict[str, str] = {}
        self.listed: dict[str, str | None] = {}
        self.written: set[str] = set()

    def refuse(self, why: str) -> None:
        """Nobody can tell any more."""
        self.why = self.why or why

    # -- while it runs -------------------------------------------------------------------------------------------------

    def told(self, event: str, arguments: tuple[Any, ...]) -> None:
        """One audit event."""
        if event in REFUSED:
            self.refuse(REFUSED[event])
        elif event == "open":
            self._opened(*arguments)
        elif event in ("os.listdir", "os.scandir"):
            self._listed(arguments[0])
        elif event in ("os.rename", "os.link", "os.symlink"):
            self.written.add(_absolute(arguments[1]))
        elif event == "os.truncate" and not isinstance(arguments[0], int):
            self.written.add(_absolute(arguments[0]))

    def _opened(self, path: Any, mode: str | None, flags: int) -> None:
        writes = bool(flags & _WRITING)
        if isinstance(path, int):
            target = None if writes else seen.target_of(f"/proc/self/fd/{path}")
            if not writes and target not in self.read and target not in HARMLESS:
                self.refuse(f"it read what was open already ({target})")
            return
        is_relative, path = not os.path.isabs(path), _absolute(path)
        if writes:
            self.written.add(path)
        elif path.startswith(self.ours) or path in HARMLESS:
            return
        elif path.startswith(_OF_THE_SYSTEM):
            self.refuse(f"it read {path}")
        elif (source := _source_of(path)) is not None:
            self.bytecode.setdefault(path, seen.stat_of(path))
            self.read.setdefault(source, seen.stat_of(source))
        elif path in self.written:
            self.refuse(f"it read {path}, which it had written")
        else:
            found = self.read.setdefault(path, seen.stat_of(path))
            if found is None and is_relative and mode is None:  # `os.open`, which does not say in which folder
                self.refuse(f"it opened {path}, or what is called so in a folder that was open already")

    def _listed(self, path: Any) -> None:
        if sys._getframe(3).f_code.co_filename.startswith("<frozen importlib"):
            return  # what is importable is looked at in the end
        if isinstance(path, int):
            self.refuse("it listed a folder that was open already")
            return
        path = _absolute(path or ".")
        if path not in self.listed and not os.path.join(path, "").startswith(self.ours):
            self.listed[path] = seen.names_in(path, importable=False)

    def asks(self, path: Any) -> None:
        """What the file's own code asks the system for, just now."""
        if isinstance(path, int) or path in self.asked:
            return
        path = _absolute(path)
        if path not in self.asked and path not in HARMLESS and not path.startswith(self.ours):
            self.asked[path] = seen.stat_of(path)
            if (target := seen.target_of(path)) is not None:
                self.links[path] = target

    @contextmanager
    def file_runs(self) -> Iterator[None]:
        """The `with` block in which the file itself runs."""
        generators, standard_input = Generators(), sys.stdin
        if standard_input is not None:
            sys.stdin = WatchedInput(standard_input, lambda: self.refuse("it read standard input"))  # type: ignore[assignment]
        try:
            with _questions_watched(self):
                yield
        finally:
            if standard_input is not None:
                sys.stdin = standard_input
        if generators.have_moved_on():
            self.refuse("it drew numbers at random without a seed")

    # -- in the end ----------------------------------------------------------------------------------------------------

    def seen(self) -> Seen:
        """All that was looked at, if it still is as it was then. Errors: UnvouchedError."""
        if self.why:
            raise UnvouchedError(self.why)
        told = _Told(self)
        for path, found in self.read.items():
            told.file(path, found, is_run=True)
        told.loaded()
        for path, found in self.asked.items():
            told.file(path, found)
        for path, found in self.bytecode.items():
            if found is not None and path not in self.written:
                told.stats[path] = _numbers_of_same(path, found)
        for path, target in self.links.items():
            _expect(seen.target_of(path) == target, path)
            told.links[path] = target
        for path, names in self.listed.items():
            told.listing(path, names)
        for entry, finder in list(sys.path_importer_cache.items()):
            told.modules_in(entry, finder)
        return told.all()


class _Told:
    """`Seen`, while it is put together. Errors of all that adds to it: UnvouchedError."""

    def __init__(self, witness: Witness) -> None:
        self.witness = witness
        self.bytes = 0
        self.contents: dict[str, str] = {}
        self.stats: dict[str, Numbers] = {}
        self.absent: dict[str, None] = {}
        self.present: dict[str, int] = {}
        self.links: dict[str, str] = {}
        self.listed: dict[str, tuple[str, Numbers]] = {}
        self.importable: dict[str, tuple[str, Numbers]] = {}

    def all(self) -> Seen:
        """What was told."""
        found = Seen(
            self.contents, self.stats, tuple(self.absent), self.present, self.links, self.listed, self.importable
        )
        if len(found) > MOST_FILES:
            raise UnvouchedError(f"it looked at more than {MOST_FILES} files")
        return found

    def file(self, path: str, found: os.stat_result | None, *, is_run: bool = False, is_mapped: bool = False) -> None:
        """A file as it was when it was looked at; perhaps a source that runs, or one in the process's memory."""
        if path in self.contents or path in self.stats:
            return
        if found is None:
            _expect(seen.stat_of(path) is None, path)
            self.absent[path] = None
        elif not stat.S_ISREG(found.st_mode) or path.startswith(_OF_THE_SYSTEM):
            if is_run and not stat.S_ISDIR(found.st_mode):
                raise UnvouchedError(f"{path} is no file")
            self.present[path] = seen.kind_of(found)
        elif path in self.witness.written:
            raise UnvouchedError(f"it read and wrote {path}")
        elif found.st_ctime_ns > self.witness.began_ns - TICK_NS:
            raise UnvouchedError(f"{path} was written a moment before it was read")
        elif found.st_size > LARGE or seen.is_installed(path) or is_mapped:
            self.stats[path] = _numbers_of_same(path, found)
        else:
            self.bytes += found.st_size
            if self.bytes > MOST_BYTES:
                raise UnvouchedError(f"it read more than {MOST_BYTES >> 20} MiB")
            _numbers_of_same(path, found)
            self.contents[path] = _content(path, is_run)
            _numbers_of_same(path, found)

    def loaded(self) -> None:
        """The files of modules, and those in the process's memory."""
        for module in list(sys.modules.values()):
            loader = getattr(module, "__loader__", None)
            for path in (getattr(module, "__file__", None), getattr(loader, "archive", None)):
                if isinstance(path, str):
                    self._unseen(_absolute(path))
        for finder in list(sys.path_importer_cache.values()):
            if isinstance(finder, zipimporter):
                self._unseen(_absolute(finder.archive))
        for path in _mapped():
            _expect(seen.stat_of(path) is not None, path)
            self._unseen(path, is_mapped=True)
            if ".so" in os.path.basename(path) and not _is_known_library(path):
                raise UnvouchedError(f"{path} may read files by itself")

    def _unseen(self, path: str, *, is_mapped: bool = False) -> None:
        """A file that Python may have read before anybody looked on, or the system read for it."""
        found = seen.stat_of(path)
        if found is None or not stat.S_ISREG(found.st_mode) or path.startswith(self.witness.ours):
            return
        if path not in self.witness.read and found.st_ctime_ns > self.witness.began_ns - BEFORE_NS:
            raise UnvouchedError(f"{path} was changed when it may have been loaded already")
        self.file(path, found, is_run=True, is_mapped=is_mapped)

    def listing(self, path: str, names: str | None) -> None:
        """A folder that the program listed, or wanted to."""
        kind = seen.kind_of(seen.stat_of(path))
        if seen.names_in(path, importable=False) != names or (names is None and stat.S_ISDIR(kind)):
            raise UnvouchedError(f"other names are in {path} than when it was listed")
        if names is not None:
            self.listed[path] = names, _folder_numbers(path)
        elif kind:
            self.present[path] = kind
        else:
            self.absent[path] = None

    def modules_in(self, entry: str, finder: Any) -> None:
        """A place where modules were looked for."""
        path = _absolute(entry)
        if os.path.join(path, "").startswith(self.witness.ours):
            return
        if isinstance(finder, FileFinder):
            names = seen.names_in(path, importable=True)
            if names is None or not _is_as_found(finder, path):
                raise UnvouchedError(f"other modules are in {path} than when one was looked for")
            self.importable[path] = names, _folder_numbers(path)
        elif (kind := seen.kind_of(seen.stat_of(path))) == 0:
            self.absent[path] = None
        elif finder is None:  # a file that is no archive
            self.present[path] = kind
        elif not isinstance(finder, zipimporter) and os.path.isabs(entry):
            raise UnvouchedError(f"modules of {path} are found in a way of their own")


@contextmanager
def witnessed(ours: tuple[str, ...] = ()) -> Iterator[Witness]:
    """The `with` block that has a witness. There is one at a time in a process."""
    global _witness, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_hook)
        _is_hooked = True
    _witness = found = Witness(ours)
    try:
        yield found
    finally:
        _witness = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Python keeps a hook for as long as the process lives; most of the time it has nobody to tell."""
    witness = _witness
    if witness is None or event not in _EVENTS or getattr(_busy, "now", False):
        return
    _busy.now = True  # what we do ourselves does not count
    try:
        witness.told(event, arguments)
    except Exception as error:  # noqa: BLE001 - an error here would be one of the program's
        witness.refuse(f"{event} was not understood: {error}")
    finally:
        _busy.now = False


_EVENTS: Final = frozenset(REFUSED) | {
    "open", "os.link", "os.listdir", "os.rename", "os.scandir", "os.symlink", "os.truncate",
}  # fmt: skip


@contextmanager
def _questions_watched(witness: Witness) -> Iterator[None]:
    """The `with` block in which `os.stat`, `os.lstat` and `os.access`, which everything in Python that asks whether a
    file is there comes down to, tell a witness.
    """
    before = {name: getattr(os, name) for name in ("stat", "lstat", "access")}
    sets = (os.supports_dir_fd, os.supports_effective_ids, os.supports_fd, os.supports_follow_symlinks)
    watched = {name: _watched(function, witness) for name, function in before.items()}
    for name, function in watched.items():
        for one in sets:
            if before[name] in one:
                one.add(function)
        setattr(os, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(os, name, function)


def _watched(function: Callable[..., Any], witness: Witness) -> Callable[..., Any]:
    def told(path: Any, *arguments: Any, **named: Any) -> Any:
        if _witness is witness and not getattr(_busy, "now", False):
            if named.get("dir_fd") is not None:
                witness.refuse("it asked for files in a folder that was open already")
            else:
                with suppress(TypeError, ValueError):  # the function itself will say so
                    witness.asks(path)
        return function(path, *arguments, **named)

    told.__name__ = function.__name__
    return told


def _absolute(path: Any) -> str:
    """An absolute path, in which the number of this process does not stand."""
    if type(path) is str and path[:1] == "/" and path[-1] not in "/." and _UNCLEAR.search(path) is None:
        return path  # as nearly all are, and in a tenth of the time
    found, own = os.path.abspath(os.fsdecode(path)), f"/proc/{os.getpid()}"
    return f"/proc/self{found[len(own) :]}" if found == own or found.startswith(f"{own}/") else found


def _source_of(path: str) -> str | None:
    """The source of a compiled module, if it is one that Python keeps by itself."""
    if not path.endswith(".pyc"):
        return None
    try:
        return source_from_cache(path)
    except (NotImplementedError, ValueError):
        return None


def _mapped() -> Iterator[str]:
    """The files in the memory of this process. Errors: UnvouchedError."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
            paths = {fields[5].rstrip("\n") for line in lines if len(fields := line.split(None, 5)) == 6}
    except OSError as error:
        raise UnvouchedError("the system does not say what is in memory") from error
    for path in sorted(paths):
        if path.startswith("/") and not path.startswith(("/dev/", "/memfd:", "/SYSV", "/anon")):
            yield path


def _is_known_library(path: str) -> bool:
    inside = [path[len(folder) :] for folder in seen.installed_folders() if path.startswith(folder)]
    if inside:
        return any(one.startswith((*KNOWN_LIBRARIES, "lib-dynload/")) for one in inside)
    return path.startswith((*_LIBRARY_FOLDERS, os.path.join(sys.base_prefix, "lib", "")))


def _expect(holds: bool, path: str) -> None:
    if not holds:
        raise UnvouchedError(f"{path} changed meanwhile")


def _numbers_of_same(path: str, before: os.stat_result) -> Numbers:
    """The numbers of a file that nobody has touched since. Errors: UnvouchedError."""
    found = seen.stat_of(path)
    fields = ("st_size", "st_mtime_ns", "st_ino", "st_ctime_ns")
    _expect(found is not None and all(getattr(found, one) == getattr(before, one) for one in fields), path)
    return seen.numbers_of(path, before)


def _folder_numbers(path: str) -> Numbers:
    """Of an installed folder: its time of change says whether names came or went."""
    found = seen.stat_of(path) if seen.is_installed(path) else None
    return () if found is None else (found.st_size, found.st_mtime_ns, found.st_ino)


def _content(path: str, is_run: bool) -> str:
    """A hash of a file; one that runs reads nothing behind Python's back. Errors: UnvouchedError."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (OSError, MemoryError) as error:
        raise UnvouchedError(f"{path} cannot be read") from error
    if is_run and b"import" in content and (word := READERS.search(content)) is not None:
        raise UnvouchedError(f"{path} may read files by {word[0].decode()}")
    return hashlib.sha256(content).hexdigest()


def _is_as_found(finder: FileFinder, path: str) -> bool:
    """Whether the modules in a folder are those that Python found there when it looked last."""
    known: Any = getattr(finder, "_path_cache", None)
    if not isinstance(known, set):
        return False
    if getattr(finder, "_path_mtime", None) == -1:  # it never looked
        return True
    with suppress(OSError):
        names = {name for name in os.listdir(path) if seen.may_be_module(name, True)}
        return {name for name in known if seen.may_be_module(name, True)} == names
    return False


__all__ = ["UnvouchedError", "Witness", "witnessed"]
