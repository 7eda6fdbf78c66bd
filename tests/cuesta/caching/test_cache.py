"""The cache on disk: what is damaged is a miss, what cannot be written is told once, what is too much goes."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import time
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import cuesta.caching.cache
from cuesta.caching.cache import DiskCache
from cuesta.caching.entry import DamagedEntryError, Entry, decode, encode
from cuesta.options import OptionError, Options
from cuesta.targets.program import (
    BoundSite,
    DeviceKernel,
    DeviceRun,
    KernelText,
    MachineCode,
    NativeFunction,
    Program,
)

KEY, OTHER_KEY = "a" * 64, "b" * 64


def entry(source: str = "def call(args):\n    return ()  # μ\n", code: bytes | None = b"\x7fELF\n\x00\xff") -> Entry:
    program = Program(
        source, {"mm": "aten.mm.default"}, (NativeFunction("run_0", 3),), (BoundSite("model.py:4"), BoundSite("")), code
    )
    counts = {"aten_ops": 7, "kernels": 2, "library_calls": 1, "fallbacks": Counter({"aten.sort.stable": 2})}
    return Entry(program, site_nodes=((3, 5), ()), constants=(2,), **counts)


def reseal(data: bytes, old: str, new: str) -> bytes:
    """The bytes with a change in their head, and a checksum that agrees."""
    magic, _, head, rest = data.split(b"\n", 3)
    changed = head.replace(old.encode(), new.encode())
    assert changed != head
    body = changed + b"\n" + rest
    return b"\n".join([magic, hashlib.sha256(body).hexdigest().encode(), body])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskCache:
    monkeypatch.setattr(cuesta.caching.cache, "_warned", set())
    return DiskCache(tmp_path / "new" / "graphs", 2**20)


# -- the bytes ---------------------------------------------------------------------------------------------------------


def device_entry() -> Entry:
    """An entry with kernels for CUDA devices, one of them with no machine code at all."""
    kernels = tuple(
        DeviceKernel(
            device,
            KernelText("k", "@triton.jit\ndef k(): ...", (("x", "*fp32"), ("s0", "i64")), warps=4, asserts=False),
            MachineCode("k", binary, shared=0, warps=4, parameters=4),
        )
        for device, binary in enumerate((b"\x7fELF\ncubin", b""))
    )
    runs = (DeviceRun("run_1", 0, 3, (0, 1, 0)), DeviceRun("run_2", 1, 0, ()))
    return replace(entry(), devices=(0, 1), program=replace(entry().program, device_kernels=kernels, device_runs=runs))


@pytest.mark.parametrize("one", [entry(), entry(code=None), entry(source="", code=b""), device_entry()])
def test_what_is_written_reads_back(one: Entry) -> None:
    assert decode(KEY, encode(KEY, one)) == one


def test_an_entry_cut_short_anywhere_is_damaged() -> None:
    data = encode(KEY, entry())
    for length in range(len(data)):
        with pytest.raises(DamagedEntryError):
            decode(KEY, data[:length])
    with pytest.raises(DamagedEntryError):
        decode(KEY, data + b"\0")


def test_a_flipped_bit_anywhere_is_damage() -> None:
    data = bytearray(encode(KEY, entry()))
    for position in range(len(data)):
        data[position] ^= 1 << position % 8
        with pytest.raises(DamagedEntryError):
            decode(KEY, bytes(data))
        data[position] ^= 1 << position % 8
    assert decode(KEY, bytes(data)) == entry()


def test_another_version_or_another_key() -> None:
    data = encode(KEY, entry())
    with pytest.raises(DamagedEntryError, match="does not begin as an entry does"):
        decode(KEY, data.replace(b"cuesta graph 6\n", b"cuesta graph 2\n"))
    with pytest.raises(DamagedEntryError, match="it belongs to another key, aaa"):
        decode(OTHER_KEY, data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"source_bytes": 3', '"source_bytes": 9'),
        ('"source_bytes": 3', '"source_bytes": -3'),
        ('"object_bytes": 7', '"object_bytes": null'),
        ('"object_bytes": 7', '"object_bytes": "7"'),
        ('"arguments": 3', '"arguments": "three"'),
        ('"device_kernels": []', '"device_kernels": [{"device": 0}]'),
        ('"device_runs": []', '"device_runs": [{"name": "run_1", "device": 0, "arguments": 3, "kernels": [0]}]'),
        ('"location": "model.py:4"', '"place": "model.py:4"'),
        ('"site_nodes": [[3, 5], []]', '"site_nodes": 3'),
        ('"fallbacks"', '"falbacks"'),
        ('{"key"', '["key"'),
    ],
)
def test_a_head_that_lies(old: str, new: str) -> None:
    with pytest.raises(DamagedEntryError):
        decode(KEY, reseal(encode(KEY, entry(source="abc")), old, new))


# -- the folder --------------------------------------------------------------------------------------------------------


def test_store_and_load(cache: DiskCache) -> None:
    assert cache.load(KEY) is None
    cache.store(KEY, entry())
    assert cache.load(KEY) == entry()
    assert cache.load(OTHER_KEY) is None
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.graph"]
    assert cache.folder.stat().st_mode & 0o77 == 0, "what others could write, we would run"


def test_a_damaged_entry_is_told_removed_and_replaced(cache: DiskCache) -> None:
    cache.store(KEY, entry())
    path = cache.path(KEY)
    whole = path.read_bytes()
    for damage in (b"", whole[:20], whole[:-1], whole.replace(b"model", b"Model")):
        path.write_bytes(damage)
        with pytest.warns(UserWarning, match=rf"the cache entry {path} is damaged \(.*compiled again"):
            assert cache.load(KEY) is None
        assert not path.exists()
        cache.store(KEY, entry())
        assert cache.load(KEY) == entry()


def test_an_entry_under_another_name(cache: DiskCache) -> None:
    cache.store(KEY, entry())
    cache.path(KEY).rename(cache.path(OTHER_KEY))
    with pytest.warns(UserWarning, match="belongs to another key"):
        assert cache.load(OTHER_KEY) is None


def test_a_folder_that_cannot_be_made_is_told_once(cache: DiskCache, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    broken = DiskCache(tmp_path / "file" / "graphs", 2**20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert broken.load(KEY) is None
    with pytest.warns(UserWarning, match="cannot be written .*CUESTA_CACHE_DIR .*CUESTA_CACHE=0") as told:
        for key in (KEY, OTHER_KEY):
            broken.store(key, entry())
    assert len(told) == 1 and str(broken.folder) in str(told[0].message)


def test_a_folder_in_place_of_an_entry(cache: DiskCache) -> None:
    cache.path(KEY).mkdir(parents=True)
    assert cache.load(KEY) is None
    with pytest.warns(UserWarning, match="cannot be written"):
        cache.store(KEY, entry())
    assert [path.name for path in cache.folder.iterdir()] == [f"{KEY}.graph"]


def test_nothing_half_written_is_left(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        cache.store(KEY, entry())
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, entry())
    assert list(cache.folder.iterdir()) == []


# -- the bound ---------------------------------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes_first(cache: DiskCache) -> None:
    size = len(encode(KEY, entry()))
    small = DiskCache(cache.folder, 3 * size + 10)
    keys = [letter * 64 for letter in "abcd"]
    for age, key in enumerate(keys[:3]):
        small.store(key, entry())
        os.utime(small.path(key), (1000.0 + age, 1000.0 + age))
    assert small.load(keys[0]) == entry()  # used now
    small.store(keys[3], entry())
    assert [small.load(key) is not None for key in keys] == [True, False, True, True]


def test_an_entry_larger_than_the_cache_is_not_kept(cache: DiskCache) -> None:
    cache.store(KEY, entry())
    DiskCache(cache.folder, 10).store(OTHER_KEY, entry())
    assert cache.load(KEY) == entry() and cache.load(OTHER_KEY) is None


def test_only_our_own_files_are_removed(cache: DiskCache) -> None:
    cache.store(KEY, entry())
    old, fresh, foreign = (cache.folder / name for name in ("crashed.part", "busy.part", "thesis.txt"))
    for path in (old, fresh, foreign):
        path.write_bytes(bytes(100_000))
    for path in (old, foreign):
        os.utime(path, (time.time() - 10_000, time.time() - 10_000))
    DiskCache(cache.folder, len(encode(KEY, entry())) + 10).store(OTHER_KEY, entry())
    assert {path.name for path in cache.folder.iterdir()} == {f"{OTHER_KEY}.graph", "busy.part", "thesis.txt"}


def _work(folder: Path, limit: int, seed: int, failures: multiprocessing.SimpleQueue[str]) -> None:
    warnings.simplefilter("error")
    cache = DiskCache(folder, limit)
    try:
        for turn in range(60):
            key = f"{(turn * (seed + 1)) % 7:064d}"
            one = entry(source=f"# {key}\n" * 50)
            found = cache.load(key)
            if found is not None and found != one:
                failures.put(f"{key} is another's entry")
            cache.store(key, one)
    except BaseException as error:  # noqa: BLE001  # told by the process that waits
        failures.put(repr(error))


def test_many_processes_at_once(cache: DiskCache) -> None:
    limit = 4 * len(encode(KEY, entry(source=f"# {KEY}\n" * 50)))  # less than they all want: they also remove
    processes = multiprocessing.get_context("fork")
    failures = processes.SimpleQueue()
    workers = [processes.Process(target=_work, args=(cache.folder, limit, seed, failures)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert failures.empty(), failures.get()
    left = list(cache.folder.iterdir())
    assert left and all(path.suffix == ".graph" for path in left)
    assert sum(path.stat().st_size for path in left) <= limit
    assert all(decode(path.stem, path.read_bytes()) for path in left)


# -- what the environment says -----------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("CUESTA_CACHE", "CUESTA_CACHE_DIR", "CUESTA_CACHE_SIZE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    return monkeypatch


def test_where_it_lies(environment: pytest.MonkeyPatch) -> None:
    assert DiskCache.chosen_by(Options()) == DiskCache(Path("/home/somebody/.cache/cuesta/graphs"), 2**30)
    environment.setenv("XDG_CACHE_HOME", "/caches")
    assert DiskCache.chosen_by(Options()) == DiskCache(Path("/caches/cuesta/graphs"), 2**30)
    environment.setenv("CUESTA_CACHE_DIR", "~/own")
    environment.setenv("CUESTA_CACHE_SIZE", "3")
    assert DiskCache.chosen_by(Options()) == DiskCache(Path("/home/somebody/own/graphs"), 3 * 2**20)


def test_how_it_is_turned_off(environment: pytest.MonkeyPatch) -> None:
    assert DiskCache.chosen_by(Options(cache=False)) is None
    for value, on in [("0", False), ("off", False), ("1", True), ("", True), ("YES", True)]:
        environment.setenv("CUESTA_CACHE", value)
        assert (DiskCache.chosen_by(Options()) is not None) == on


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("CUESTA_CACHE", "maybe", "CUESTA_CACHE is 1 .* or 0 .* not 'maybe'"),
        ("CUESTA_CACHE_SIZE", "2G", "CUESTA_CACHE_SIZE is a whole number of MiB, not '2G'"),
        ("CUESTA_CACHE_SIZE", "-1", "CUESTA_CACHE_SIZE is a whole number of MiB, not '-1'"),
    ],
)
def test_an_environment_that_makes_no_sense(
    environment: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(OptionError, match=message):
        DiskCache.chosen_by(Options())


def test_an_entry_is_text_that_can_be_looked_at() -> None:
    _, _, head, rest = encode(KEY, entry()).split(b"\n", 3)
    assert json.loads(head)["overloads"] == {"mm": "aten.mm.default"}
    assert rest.startswith(b"def call(args):\n")
