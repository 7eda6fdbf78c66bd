"""A graph's place in the cache: its program is taken from there, or kept there once it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from cuesta.caching.turns import in_a_job, turn
from cuesta.dialects.core.structs import struct
from cuesta.fallbacks import watched
from cuesta.finishing import BoxedFunction, finish_equal, load_program, with_constants
from cuesta.options import Options
from cuesta.record import CompileRecord

if TYPE_CHECKING:
    import torch

    from cuesta.caching.cache import DiskCache
    from cuesta.targets.program import Program


@struct
class Place:
    """Where a graph's program lies, or will."""

    gm: torch.fx.GraphModule
    record: CompileRecord
    cache: DiskCache | None
    key: str | None
    devices: tuple[int, ...] = ()
    """The CUDA devices that the key counts."""

    @classmethod
    def of(cls, gm: torch.fx.GraphModule, record: CompileRecord, options: Options) -> Place:
        """The place of a graph; of one that cannot be named there is none, nor where the cache is turned off."""
        from cuesta.caching.cache import DiskCache

        with record.stage("cache-key"):
            cache = DiskCache.chosen_by(options)
            if cache is None:
                return cls(gm, record, None, None)
            from cuesta.caching.key import key_and_devices, why_unnamable

            key, devices = key_and_devices(gm, record.kind, options)
            if key is None:
                record.not_kept = why_unnamable()
            return cls(gm, record, cache, key, devices)

    def look_up(self) -> BoxedFunction | None:
        """The function of a graph that was compiled before, here or in another process.

        Errors: CudaError when it is the device or its driver that refuses the kernels.
        """
        cache, key, gm, record = self.cache, self.key, self.gm, self.record
        if cache is None or key is None:
            return None
        finish_equal(key)
        with record.stage("cache-read"):
            entry = cache.load(key)
        if entry is None:
            return None
        import torch

        from cuesta.caching.device_numbers import on_devices
        from cuesta.targets.cpu.machine_code import MachineCodeError
        from cuesta.targets.program import CudaError

        try:
            program = on_devices(entry.program_for(gm), entry.devices, self.devices)
            function = watched(load_program(program, record), program.overloads, record.kind)
            function = with_constants(function, entry.constants_for(gm))
        except (torch.cuda.OutOfMemoryError, CudaError):
            raise
        except (
            MachineCodeError, SyntaxError, AttributeError, ImportError, LookupError, TypeError, ValueError,
            RuntimeError, MemoryError,
        ) as error:  # fmt: skip
            cache.discard(key, error)
            return None
        record.from_cache = True
        record.aten_ops, record.kernels, record.library_calls = entry.aten_ops, entry.kernels, entry.library_calls
        record.fallbacks, record.result_strides = entry.fallbacks, entry.result_strides
        return function

    @contextmanager
    def turn(self) -> Iterator[BoxedFunction | None]:
        """The `with` block in which no other process of this job begins to compile an equal graph; the function, if one
        has just done so. When one had its turn and left nothing, the others need not come one by one.
        """
        found: BoxedFunction | None = None
        with ExitStack() as held:
            if self.cache is not None and self.key is not None and in_a_job():
                with self.record.stage("wait"):
                    waited = held.enter_context(turn(self.cache.path(self.key)))
                found = self.look_up()  # perhaps it was there a moment after we looked
                if waited:
                    held.close()
            yield found

    def finished(self, function: BoxedFunction) -> BoxedFunction:
        """The function, of which the program is in the cache where other processes of this job wait for it."""
        if self.cache is not None and self.key is not None and in_a_job():
            finish_equal(self.key)
        return function

    def keep(self, program: Program, constants: Sequence[str]) -> None:
        """Puts the graph's program there; `constants` are the names of what it takes last, which the graph holds."""
        if self.cache is None or self.key is None:
            return
        with self.record.stage("cache-write"):
            from cuesta.caching.entry import Entry
            from cuesta.caching.key import loaded_sources, sources_on_disk

            if sources_on_disk() != loaded_sources():
                return  # edited since this process began to compile: who knows which version each module of it has
            told = ("aten_ops", "kernels", "library_calls", "fallbacks", "result_strides")
            facts = {name: getattr(self.record, name) for name in told}
            self.cache.store(self.key, Entry.of(program, self.gm, constants, devices=self.devices, **facts))
