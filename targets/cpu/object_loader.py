"""Object code → code in memory: a loader of what LLVM emits for x86-64 Linux.

    .text …    external functions    |    .rodata …    |    .data, .bss …
    read, execute                    |    read         |    read, write

Everything lies in one piece of memory. Code reaches its constants by distances of 32 bits, and LLVM's own loader maps
section by section, wherever there is a hole: in a process with gigabytes of libraries and weights they can come to lie
too far apart, and then LLVM ends the process (docs/decisions/009).

Source: System V ABI, "Object Files"; its AMD64 supplement, "Relocation".
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuesta.targets.cpu.object_archive import members_of

_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_RELOCATABLE_FOR_X86_64 = struct.pack("<HH", 1, 62)
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<i8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8
_WRITE, _ALLOCATE, _EXECUTE = 1, 2, 4
_UNDEFINED, _ABSOLUTE, _RESERVED = 0, 0xFFF1, 0xFF00
_LOCAL = 0
_SLOT_TABLE = "_GLOBAL_OFFSET_TABLE_"
# Tables for unwinding the stack. Nothing is thrown through our code.
_UNWIND_TABLE = ".eh_frame"

# Relocations: a 64-bit address; the distance to a symbol, or to a function; the distance to a slot with an address.
_ADDRESS, _DISTANCES, _SLOT_DISTANCES = 1, (2, 4), (9, 41, 42)

# The entry of an external function: `jmp *slot(%rip)`, and its slot.
_JUMP = bytes.fromhex("ff2502000000") + b"\x66\x90"
_ENTRY_SIZE = 16


class ObjectError(ValueError):
    """An object is damaged, has what this loader does not know, or lacks or names what nobody defines."""


class LinkedObject:
    """Code in memory, as long as this object lives."""

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.address: int = _c_library().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if self.address in (0, ctypes.c_void_p(-1).value):
            raise MemoryError(f"no memory for {size} bytes of machine code: {os.strerror(ctypes.get_errno())}")
        # Not when the process ends: other threads may be running it.
        weakref.finalize(self, _c_library().munmap, self.address, size).atexit = False
        self.symbols: dict[str, int] = {}
        """The addresses of the symbols that were asked for."""


@dataclass(slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    place: int | None = None
    """Where it lies in the image; None for what is not needed to run."""


def _is_loadable(object_code: bytes) -> bool:
    """Whether the header is that of an x86-64 ELF object."""
    return object_code.startswith(_ELF64_LITTLE_ENDIAN) and object_code[16:20] == _RELOCATABLE_FOR_X86_64


def link(object_code: bytes, symbols: Sequence[str], libraries: Mapping[str, int]) -> LinkedObject:
    """Places an object, or an archive of several that call each other, in memory and finds the addresses of `symbols`,
    which it defines.

    `libraries` has the addresses of the functions that it may call.
    Errors: ObjectError.
    """
    try:
        return _link([_Object(member) for member in members_of(object_code)], symbols, libraries)
    except ObjectError:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise ObjectError(f"the object is damaged: {error}") from error


class _Object:
    """An object file: its sections, and the symbols that it defines or calls."""

    def __init__(self, code: bytes) -> None:
        if not _is_loadable(code):
            raise ObjectError("this is not an x86-64 ELF object")
        self.code = code
        self.sections = _sections_of(code)
        table = next((section for section in self.sections if section.kind == _SYMBOLS), None)
        if table is None:
            raise ObjectError("the object has no symbols")
        records = np.frombuffer(code, _SYMBOL, table.size // _SYMBOL.itemsize, table.offset)
        self.names = [_text(code, self.sections[table.link].offset + at) for at in records["name"].tolist()]
        self.values: NDArray[np.int64] = records["value"].copy()
        """Of each symbol, where it is: in its section at first, in memory later."""
        self.slots = np.zeros_like(self.values)
        """Of each symbol, where its address is, if it is somewhere."""
        self.homes: list[int] = records["section"].tolist()
        bindings: list[int] = (records["info"] >> 4).tolist()
        self.external = [
            k for k, home in enumerate(self.homes) if k and home == _UNDEFINED and self.names[k] != _SLOT_TABLE
        ]
        self.defined = {name: k for k, name in enumerate(self.names) if name and self.homes[k] != _UNDEFINED}
        self.shown = {name: k for name, k in self.defined.items() if bindings[k] != _LOCAL}
        """What other objects may call."""

    def place(self, base: int) -> None:
        """Says where each symbol is. Requires: the sections have their places."""
        for k, home in enumerate(self.homes):
            if home not in (_UNDEFINED, _ABSOLUTE):
                place = self.sections[home].place if home < _RESERVED else None
                self.values[k] += 0 if place is None else base + place


def _link(objects: Sequence[_Object], symbols: Sequence[str], libraries: Mapping[str, int]) -> LinkedObject:
    homes = {name: (one, k) for one in objects for name, k in one.shown.items()}
    if len(homes) != sum(len(one.shown) for one in objects):
        raise ObjectError("two objects define the same function")
    # Each function of a library has one entry, by whichever objects it is called.
    external = list({one.names[k]: None for one in objects for k in one.external if one.names[k] not in homes})
    if unknown := sorted(set(external) - libraries.keys()):
        raise ObjectError(f"it calls {', '.join(unknown)}, which nobody defines (libm, SLEEF and OpenMP are offered)")
    found = {name: (one, k) for one in objects for name, k in one.defined.items()} | homes
    if missing := sorted(set(symbols) - found.keys()):
        raise ObjectError(f"it does not define {', '.join(missing)}")

    entries, bounds = _lay_out([section for one in objects for section in one.sections], len(external))
    linked = LinkedObject(bounds[-1])
    base = linked.address
    image = np.ctypeslib.as_array((ctypes.c_uint8 * bounds[-1]).from_address(base))
    for one in objects:
        one.place(base)
        for section in one.sections:
            if section.place is not None and section.kind != _NO_BITS:
                piece = np.frombuffer(one.code, np.uint8, section.size, section.offset)
                image[section.place : section.place + section.size] = piece
    entry_of: dict[str, int] = {}
    for number, name in enumerate(external):
        at = entries + number * _ENTRY_SIZE
        image[at : at + _ENTRY_SIZE] = np.frombuffer(_JUMP + struct.pack("<Q", libraries[name]), np.uint8)
        entry_of[name] = base + at
    for one in objects:
        for k in one.external:
            if (home := homes.get(one.names[k])) is not None:
                one.values[k] = home[0].values[home[1]]
            else:
                one.values[k] = entry_of[one.names[k]]
                one.slots[k] = one.values[k] + len(_JUMP)
        for section in one.sections:
            if section.kind == _RELOCATIONS and (place := one.sections[section.info].place) is not None:
                count = section.size // _RELOCATION.itemsize
                relocations = np.frombuffer(one.code, _RELOCATION, count, section.offset)
                _relocate(relocations, place, image, base, one.values, one.slots)

    for protection, start, end in zip(_PROTECTIONS, bounds, bounds[1:], strict=False):
        if end > start and _c_library().mprotect(base + start, end - start, protection):
            raise OSError(ctypes.get_errno(), "memory for machine code cannot be protected")
    linked.symbols = {name: int(found[name][0].values[found[name][1]]) for name in symbols}
    return linked


def _sections_of(object_code: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", object_code, 40)
    count, of_names = struct.unpack_from("<HH", object_code, 60)
    rows = [_SECTION.unpack_from(object_code, table + k * _SECTION.size) for k in range(count)]
    return [
        _Section(_text(object_code, rows[of_names][4] + name), kind, flags, offset, size, link, info, alignment)
        for name, kind, flags, _, offset, size, link, info, alignment, _ in rows
    ]


def _text(object_code: bytes, start: int) -> str:
    return object_code[start : object_code.index(b"\0", start)].decode()


# Read and execute, read, read and write: the order of the parts of an image.
_PROTECTIONS = (mmap.PROT_READ | mmap.PROT_EXEC, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE)


def _lay_out(sections: Sequence[_Section], external: int) -> tuple[int, list[int]]:
    """Gives every section its place: (where the entries of external functions begin, the bounds of the three parts)."""
    needed = [section for section in sections if section.flags & _ALLOCATE and section.name != _UNWIND_TABLE]
    code = [section for section in needed if section.flags & _EXECUTE]
    constants = [section for section in needed if not section.flags & (_EXECUTE | _WRITE)]
    variables = [section for section in needed if section.flags & _WRITE and not section.flags & _EXECUTE]
    end, entries, bounds = 0, 0, [0]
    for part in (code, constants, variables):
        for section in part:
            section.place = _round_up(end, max(1, section.alignment))
            end = section.place + section.size
        if part is code:
            entries = _round_up(end, _ENTRY_SIZE)
            end = entries + external * _ENTRY_SIZE
        end = _round_up(end, mmap.PAGESIZE)
        bounds.append(end)
    return entries, bounds


def _round_up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _relocate(
    relocations: NDArray[Any],
    place: int,
    image: NDArray[np.uint8],
    base: int,
    values: NDArray[np.int64],
    slots: NDArray[np.int64],
) -> None:
    """Fills in the addresses and distances of one section, which lies at `place`."""
    kinds = relocations["kind"]
    if unknown := set(kinds.tolist()) - {_ADDRESS, *_DISTANCES, *_SLOT_DISTANCES}:
        raise ObjectError(f"it has relocations of unknown kinds: {', '.join(map(str, sorted(unknown)))}")
    at = relocations["offset"].astype(np.int64) + place
    symbols = relocations["symbol"]
    through_slots = np.isin(kinds, _SLOT_DISTANCES)
    targets = np.where(through_slots, slots[symbols], values[symbols])
    if not targets.all():
        raise ObjectError("it reaches a symbol through a slot, or reaches one that has no place")
    targets = targets + relocations["addend"]
    absolute = kinds == _ADDRESS
    _write(image, at[absolute], targets[absolute])
    distances = targets[~absolute] - (base + at[~absolute])
    short = distances.astype(np.int32)
    if (short != distances).any():
        raise ObjectError("it is too large for 32-bit distances")
    _write(image, at[~absolute], short)


def _write(image: NDArray[np.uint8], at: NDArray[np.int64], values: NDArray[Any]) -> None:
    width = values.dtype.itemsize
    image[at[:, None] + np.arange(width)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)


@functools.cache
def _c_library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


__all__ = ["LinkedObject", "ObjectError", "link"]
