"""`torch.compiler.save_cache_artifacts` and `load_cache_artifacts` take entries of our cache with them.

The type of artifact is known where `cuesta.backend` is imported: do that before artifacts are loaded.
"""

from __future__ import annotations

import warnings

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from cuesta.caching.cache import DiskCache
from cuesta.caching.entry import DamagedEntryError, decode
from cuesta.options import Options


@CacheArtifactFactory.register
class CuestaArtifact(CacheArtifact):
    """A compiled graph: its key, and the bytes of its entry."""

    @staticmethod
    def type() -> str:
        """Its kind's name."""
        return "cuesta"

    def populate_cache(self) -> None:
        """Puts the entry into the cache on disk. One that is damaged is left out, with a warning."""
        try:
            entry = decode(self.key, self.content)
        except DamagedEntryError as error:
            warnings.warn(f"cuesta: an artifact is damaged and left out: {error}", stacklevel=2)
            return
        cache = DiskCache.chosen_by(Options())
        if cache is not None:
            cache.store(self.key, entry)


def record_artifact(key: str, data: bytes) -> None:
    """Notes an entry for who saves what this process compiled, or took from the cache."""
    CacheArtifactManager.record_artifact(CuestaArtifact.type(), key, data)
