"""What lies in the cache runs: it is taken only from where nobody else can write, and nothing there stops us."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import cuesta.caching.cache
from cuesta.caching import files
from cuesta.caching.cache import DiskCache
from cuesta.caching.files import RefusedFolderError, make_folder, read_file, write_file
from cuesta.options import Options
from cuesta.tuning import Timings
from tests.cuesta.caching.test_cache import KEY, OTHER_KEY, entry
from tests.support.differential import check_call, compiled_of

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX")
STRANGER = 12345


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    """A cache with one entry."""
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    cache = DiskCache(tmp_path / "graphs", 2**20)
    cache.store(KEY, entry())
    return cache


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Gives a file to another user. Who may not do that becomes another user: all files are somebody else's then."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, STRANGER, -1)
        else:
            user = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    return give


def exchangeable(cache: DiskCache) -> str | None:
    """What is said of the cache's folder; None where it is taken."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = cache.load(KEY)
    assert (found is None) == bool(told)
    return str(told[0].message) if told else None


@pytest.mark.parametrize("deep", [False, True])
def test_a_folder_that_lies_in_another_users_is_not_used(
    deep: bool, tmp_path: Path, give: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner could put another in its place."""
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    theirs = tmp_path / "theirs"
    cache = DiskCache(theirs / "ours" / "graphs" if deep else theirs / "graphs", 2**20)
    cache.store(KEY, entry())
    assert exchangeable(cache) is None
    give(theirs)
    said = exchangeable(cache)
    assert said is not None and "belongs to another user" in said
    if os.geteuid() == 0:
        assert f"{theirs}, in which it lies: it belongs to another user (number {STRANGER})" in said
        assert f"chown {theirs}" in said


@pytest.mark.parametrize(
    ("mode", "is_taken"),
    [(0o777, False), (0o770, False), (0o703, False), (0o1777, True), (0o1770, True), (0o755, True)],
)
def test_a_folder_that_lies_where_others_can_write(
    mode: int, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sticky bit of /tmp is enough; and so is a group of this user's alone."""
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    cache = DiskCache(tmp_path / "theirs" / "graphs", 2**20)
    cache.store(KEY, entry())
    parent = cache.folder.parent
    if os.geteuid() == 0:
        os.chown(parent, -1, STRANGER)
    parent.chmod(mode)
    said = exchangeable(cache)
    alone = mode == 0o770 and parent.stat().st_gid == os.geteuid()
    assert (said is None) == (is_taken or alone)
    assert said is None or f"{parent}, in which it lies: others can write to it (mode {mode:04o})" in said
    if os.geteuid() == 0 and mode == 0o770:
        os.chown(parent, -1, 0)
        monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
        assert exchangeable(cache) is None


def test_a_link_to_what_lies_in_another_users_folder(
    tmp_path: Path, give: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    DiskCache(tmp_path / "theirs" / "graphs", 2**20).store(KEY, entry())
    (tmp_path / "graphs").symlink_to(tmp_path / "theirs" / "graphs")
    cache = DiskCache(tmp_path / "graphs", 2**20)
    assert exchangeable(cache) is None
    give(tmp_path / "theirs")
    assert exchangeable(cache) is not None


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_not_used_and_told_once(cache: DiskCache, mode: int) -> None:
    cache.folder.chmod(mode)
    with pytest.warns(
        UserWarning, match=rf"others can write to it \(mode {mode:04o}\).*chmod go-w {cache.folder}"
    ) as told:
        assert cache.load(KEY) is None
        cache.store(OTHER_KEY, entry())
        assert cache.load(OTHER_KEY) is None
    assert len(told) == 1 and "CUESTA_CACHE_DIR" in str(told[0].message)
    assert [path.stem for path in cache.folder.iterdir()] == [KEY]
    cache.folder.chmod(0o700)
    assert cache.load(KEY) == entry()


def test_a_folder_of_another_user_is_not_used_and_told_once(cache: DiskCache, give: Callable[[Path], None]) -> None:
    give(cache.folder)
    with pytest.warns(UserWarning, match=r"it belongs to another user \(number \d+\).*chown") as told:
        assert cache.load(KEY) is None
        cache.store(OTHER_KEY, entry())
    assert len(told) == 1
    assert [path.stem for path in cache.folder.iterdir()] == [KEY]


def test_what_belongs_to_root_is_taken(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make files of root")
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert cache.load(KEY) == entry()


def test_a_folder_that_is_a_link_is_judged_by_what_it_leads_to(cache: DiskCache, tmp_path: Path) -> None:
    link = DiskCache(tmp_path / "link", cache.limit)
    link.folder.symlink_to(cache.folder)
    assert link.load(KEY) == entry()
    cache.folder.chmod(0o777)
    with pytest.warns(UserWarning, match="others can write to it"):
        assert link.load(KEY) is None


@pytest.fixture(params=[0o000, 0o002, 0o077, 0o377])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_new_folders_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cuesta" / "graphs" / "file"
    write_file(path, b"data")
    assert read_file(path, 4) == b"data"
    modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in (path, *path.parents[:3])}
    assert modes == {"file": 0o600, "graphs": 0o700, "cuesta": 0o700, "new": 0o700}


def test_folders_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "new")
    make_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


# -- entries -----------------------------------------------------------------------------------------------------------


def linked(path: Path) -> None:
    outside = path.parent.parent / "outside"
    path.rename(outside)
    path.symlink_to(outside)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def huge(path: Path) -> None:
    os.truncate(path, 30 * 2**30)  # which takes no room


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (linked, "it is a link"),
        (fifo, "it is no regular file"),
        (huge, "it has 32212254720 bytes, and all together may have 1048576"),
        (lambda path: path.chmod(0o666), r"others can write to it \(mode 0666\)"),
        (lambda path: path.chmod(0o620), r"others can write to it \(mode 0620\)"),
    ],
)
def test_an_entry_that_is_not_taken_is_told_and_replaced(
    cache: DiskCache, change: Callable[[Path], None], why: str
) -> None:
    path = cache.path(KEY)
    change(path)
    with pytest.warns(UserWarning, match=rf"the cache entry {path} is not used \({why}\); .* compiled again") as told:
        assert cache.load(KEY) is None
    assert len(told) == 1
    cache.store(KEY, entry())
    assert cache.load(KEY) == entry() and not path.is_symlink()


def test_an_entry_of_another_user_is_told_and_replaced(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cache.path(KEY)
    if os.geteuid() == 0:
        os.chown(path, STRANGER, -1)
    else:
        pytest.skip("only root can give files away")
    with pytest.warns(UserWarning, match=rf"the cache entry {path} is not used \(it belongs to another user"):
        assert cache.load(KEY) is None
    cache.store(KEY, entry())
    assert cache.load(KEY) == entry() and path.stat().st_uid == os.geteuid()


def test_what_lies_behind_a_link_is_not_removed(cache: DiskCache) -> None:
    path = cache.path(KEY)
    linked(path)
    with pytest.warns(UserWarning, match="it is a link"):
        assert cache.load(KEY) is None
    assert (cache.folder.parent / "outside").exists() and not path.is_symlink()


def test_a_huge_file_goes_before_all_others(cache: DiskCache) -> None:
    (cache.folder / f"{'c' * 64}.graph").touch()
    huge(cache.folder / f"{'c' * 64}.graph")
    (cache.folder / f"{'d' * 64}.graph").mkdir()
    cache.store(OTHER_KEY, entry())
    assert cache.load(KEY) == cache.load(OTHER_KEY) == entry()
    assert {path.stem[0] for path in cache.folder.iterdir()} == {"a", "b", "d"}


def test_an_entry_for_which_there_is_no_memory(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(cuesta.caching.cache, "read_file", none)
    with pytest.warns(UserWarning, match=r"not used \(it does not fit into memory\)"):
        assert cache.load(KEY) is None
    monkeypatch.setattr(cuesta.caching.cache, "encode", none)
    with pytest.warns(UserWarning, match=r"compiled graphs are not kept: .* \(no memory\)"):
        cache.store(KEY, entry())


def test_a_file_that_became_a_link_meanwhile_is_not_followed(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    linked(cache.path(KEY))
    monkeypatch.setattr(files.Path, "is_symlink", lambda _: False)
    with pytest.raises(OSError, match="symbolic links"):
        read_file(cache.path(KEY), 2**20)


# -- what is measured, and a compilation as a whole --------------------------------------------------------------------


def test_times_are_taken_from_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    timings = Timings(tmp_path / "timings", 2**12)
    timings.store("one", [1.0, 2.0])
    assert timings.load("one", 2) == [1.0, 2.0]
    for change in (fifo, linked, huge):
        timings.store("one", [1.0, 2.0])
        change(timings.path("one"))
        assert timings.load("one", 2) is None
        timings.path("one").unlink()
    timings.folder.chmod(0o777)
    with pytest.warns(UserWarning, match="others can write to it") as told:
        timings.store("two", [1.0])
        assert timings.load("two", 1) is None
    assert len(told) == 1


@pytest.mark.parametrize("change", [fifo, huge, linked])
def test_nothing_in_the_cache_stops_a_compilation(
    change: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUESTA_CACHE", "1")
    monkeypatch.setenv("CUESTA_CACHE_DIR", str(tmp_path))

    def compile_and_check() -> bool:
        torch._dynamo.reset()
        cuesta.clear_records()
        check_call(compiled_of(torch.sin), torch.sin, torch.randn(4))
        return cuesta.records[0].from_cache

    assert [compile_and_check(), compile_and_check()] == [False, True]
    cache = DiskCache.chosen_by(Options())
    assert cache is not None
    (path,) = cache.folder.iterdir()
    change(path)
    with pytest.warns(UserWarning, match="compiled again"):
        assert not compile_and_check()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_and_check()


@pytest.mark.parametrize("error", [RefusedFolderError, MemoryError, OSError])
def test_no_error_of_a_file_leaves_the_cache(
    cache: DiskCache, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise error("injected")

    monkeypatch.setattr(cuesta.caching.cache, "read_file", refuse)
    monkeypatch.setattr(cuesta.caching.cache, "write_file", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cache.load(KEY) is None
        cache.store(OTHER_KEY, entry())
