"""Tables that do not outgrow a long life: one object for a key while anybody holds it, and memos that forget."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar
from weakref import ReferenceType

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Reference(ReferenceType[Value]):
    """What an `Interned` holds: a weak reference that knows its key."""

    __slots__ = ("key",)
    key: Hashable


class Interned(Generic[Key, Value]):
    """The one object of each key, for as long as anybody else holds it, and a while longer.

    So equality may be identity: of two objects with equal keys that live at a time there is but one, in all threads.
    What was made lately is held here too, because a compiler drops an expression and makes it again a moment later.
    Lookups are written out where they are hot, and ask nothing but a dictionary and the reference:
    `(reference := table.find(key)) is not None and (found := reference()) is not None`, else `table.add(key, made)`.
    Requires: objects that can be weakly referenced, and keys that do not hold their objects.
    """

    def __init__(self, recent: int = 8192) -> None:
        """The latest `recent` objects are held, and up to as many before them."""
        self._references: dict[Key, Reference[Value]] = {}
        self.find: Callable[[Key], Reference[Value] | None] = self._references.get
        self._recent = recent
        self._young: list[Value] = []
        self._old: list[Value] = []
        # The collector may come by while a thread holds the lock, and forget a key in the same thread.
        self._lock = RLock()

    def add(self, key: Key, made: Value) -> Value:
        """The object of the key: `made`, unless another thread was first."""
        reference = Reference(made, self._forget)
        reference.key = key
        # One step of Python's, so no lock: an entry is only ever put where none is, and only a dead one is taken away.
        while (known := self._references.setdefault(key, reference)) is not reference:
            found = known()
            if found is not None:
                return found
            self._forget(known)
        self._young.append(made)
        if len(self._young) >= self._recent:
            self._old, self._young = self._young, []
        return made

    def _forget(self, reference: ReferenceType[Value]) -> None:
        assert isinstance(reference, Reference)
        with self._lock:
            if self._references.get(reference.key) is reference:  # pyright: ignore[reportArgumentType]
                del self._references[reference.key]  # pyright: ignore[reportArgumentType]

    def __len__(self) -> int:
        return len(self._references)


class Memo(dict[Key, Value]):
    """Answers by key. When there are `most`, the older half is forgotten: who asks again finds the answer again."""

    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: Key, value: Value) -> Value:
        """Remembers an answer; returns it."""
        if len(self) >= self.most:
            for old in list(self)[: self.most // 2]:
                self.pop(old, None)
        self[key] = value
        return value


__all__ = ["Interned", "Memo", "Reference"]
