"""A process that compiles problems of a folder, checks them, and measures them when it is told that it is alone.

A problem is a Python file with a class `Model`, `get_init_inputs()` (its arguments) and `get_inputs()` (those of its
forward pass), as published lists of problems have them. Between compiling and measuring a process holds parameters and
compiled code only: inputs are made again, with the same numbers.

Units: milliseconds and bytes, unless it says otherwise.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import statistics
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from benchmarks.case import Case, Prepared, Step
from benchmarks.gpu_worker import ERROR, answer, compiled, device_times
from benchmarks.timing import in_turns, large_copy_bandwidth

SEED = 2024
SECONDS = 0.35
"""For the samples of all sides of a problem on a device, about."""
FEWEST, MOST = 3, 15
"""Rounds of them."""
CALLED_SECONDS = 0.06
"""For the samples of each side by the wall's clock."""
LONG = 5.0
"""What takes longer on the device is not measured by the wall's clock as well: the host is ahead of it."""
FACTOR = 3.0
"""How many times eager's own distance from exact results Cuesta's may be, as in `cuesta.testing`."""
FLOORS = {"f32": 1e-4, "bf16": 2**-7}
"""Of the largest number: distances that are always allowed, as `gpu_worker` does of what is large; two roundings."""
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PART = 2**26
"""Elements that are compared at once, so that comparing takes little memory."""
ROOM = 2**31
"""Bytes on top of what eager's tensors take: what libraries and comparing use meanwhile."""

GUESS = 2**34
"""Bytes that a problem is given that cannot be run without computing it."""

Result = dict[str, Any]


class Memory:
    """The memory of a device that processes share: who needs some waits until it is there."""

    def __init__(self, total: int, context: Any, slots: int) -> None:
        self.total = total
        self._kept, self._more = (context.Array("q", slots, lock=False) for _ in range(2))
        self._changed = context.Condition()

    def hold(self, slot: int, kept: int, more: int = 0) -> None:
        """What the process of a slot holds from now on: what it keeps between its tasks, at once; and more for a task,
        as soon as that is there, or as nobody else has a task: who wants all gets it at last.
        """
        with self._changed:
            self._kept[slot], self._more[slot] = kept, 0
            self._changed.notify_all()
            while (others := sum(self._more)) and others + sum(self._kept) + more > self.total and more:
                self._changed.wait(1.0)
            self._more[slot] = more


def problems_of(folder: Path, parts: list[str]) -> dict[str, Path]:
    """The problems of a folder by name, those first whose text is the longest: they take the longest to compile.
    Files whose names begin with `_` are none. With `parts`, those whose names contain one of these.

    Errors: ValueError, if there is none.
    """
    paths = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    paths = [path for path in paths if not parts or any(part in path.stem for part in parts)]
    if not paths:
        raise ValueError(f"no problem in {folder}" + (f" has one of {', '.join(parts)} in its name" if parts else ""))
    return {path.stem: path for path in sorted(paths, key=lambda path: (-path.stat().st_size, path.stem))}


def loaded(path: Path) -> ModuleType:
    """The module of a problem."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inputs_of(module: ModuleType, device: str, dtype: str) -> list[Any]:
    """The inputs of a problem, the same numbers at every call."""
    torch.manual_seed(SEED + 1)
    with torch.device(device):
        return tree_map(lambda one: _as(one, device, dtype), list(module.get_inputs()))


def case_of(name: str, module: ModuleType, device: str, dtype: str) -> Case:
    """A problem as a case, made on the device: gigabytes of random numbers take long on a processor."""

    def make() -> tuple[torch.nn.Module, list[Any]]:
        torch.manual_seed(SEED)
        with torch.device(device):
            model = module.Model(*module.get_init_inputs())
        return model if dtype == "f32" else model.to(DTYPES[dtype]), inputs_of(module, device, dtype)

    return Case(name, make)


def _as(value: Any, device: str, dtype: str) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(device, DTYPES[dtype]) if value.is_floating_point() else value.to(device)


class Live(TorchDispatchMode):
    """The most bytes of tensors that are there at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage in self._known:
            return
        self._known.add(storage)
        size = storage.nbytes()
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._gone, size)

    def _gone(self, size: int) -> None:
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            if isinstance(one, torch.Tensor):
                self.add(one)
        return result


def memory_of(case: Case) -> int:
    """About what compiling and checking a case takes: what it is given, exact results, and what eager needs meanwhile,
    with half as much more for copies in other layouts. Nothing is computed.
    """
    live = Live()
    with FakeTensorMode(allow_non_fake_inputs=True), live, torch.no_grad():
        model, inputs = case.make()
        for one in tree_leaves(inputs):
            if isinstance(one, torch.Tensor):
                live.add(one)
        before = live.now
        results = model(*inputs)
        given = sum(one.untyped_storage().nbytes() for one in tree_leaves(results) if isinstance(one, torch.Tensor))
        return before + given + 3 * (live.most - before) // 2 + ROOM


class Worker:
    """What it holds: the problems it has compiled, ready to be measured."""

    def __init__(
        self, sides: tuple[str, ...], paths: Mapping[str, Path], device: str, dtype: str, memory: Memory, slot: int
    ) -> None:
        self.sides, self.paths, self.device, self.dtype = sides, paths, device, dtype
        self.memory, self.slot, self.kept = memory, slot, 0
        self.ready: dict[str, tuple[ModuleType, Prepared, dict[str, Step]]] = {}
        torch._dynamo.config.recompile_limit = 1000  # problems may share code, and what was compiled is kept
        torch._dynamo.config.accumulated_recompile_limit = 10_000

    def warm_up(self) -> None:
        """Imports and starts what every compiler needs once in a process."""
        for side in self.sides:
            compiled(lambda x: x + 1, side)(torch.ones(8, device=self.device))

    def compile(self, name: str) -> Result:
        """Makes a problem, compiles it with every side, and checks what Cuesta gives. Where the device's memory was not
        enough beside others it is done once more, alone.
        """
        module = loaded(self.paths[name])
        case = case_of(name, module, self.device, self.dtype)
        try:
            needed = memory_of(case_of(name, module, self.device, "f32"))
        except Exception:  # noqa: BLE001 - what cannot be told in advance is guessed
            needed = GUESS
        made = None
        with contextlib.suppress(torch.OutOfMemoryError):  # outside of it, no traceback keeps tensors
            made = self._within(needed, case)
        prepared, steps, result = made or self._within(self.memory.total, case)
        self.ready[name] = module, prepared, steps
        return {**result, "needed": needed}

    def _within(self, needed: int, case: Case) -> tuple[Prepared, dict[str, Step], Result]:
        """As `_compiled`, when there is memory for it. Afterwards the problem has no inputs."""
        self._free()
        self.memory.hold(self.slot, self.kept, needed)
        try:
            prepared, steps, result = self._compiled(case)
            prepared.inputs = ()
            self.kept += sum(tensor.nbytes for tensor in prepared.tensors())
            return prepared, steps, result
        finally:
            self._free()
            self.memory.hold(self.slot, self.kept)

    def _compiled(self, case: Case) -> tuple[Prepared, dict[str, Step], Result]:
        import cuesta

        prepared = Prepared(case, self.device)
        result: Result = {"errors": {}, "bytes": 0}
        steps: dict[str, Step] = {"eager": prepared.step(prepared.function)}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exact = _leaves(self._exact(prepared))
            tensors = [*prepared.tensors(), *exact]
            result["bytes"] = sum(tensor.nbytes for tensor in tensors)
            off = distances(_leaves(_seeded(steps["eager"])), exact)
            for side in self.sides:
                cuesta.clear_records()
                try:
                    steps[side] = prepared.step(compiled(prepared.function, side))
                    start = time.perf_counter()
                    given = _seeded(steps[side])
                    self.wait()
                    result[f"{side}_compile_seconds"] = time.perf_counter() - start
                    if side == "cuesta":
                        made = cuesta.statistics()
                        result |= {"kernels": made.kernels, "library_calls": made.library_calls}
                        result |= {"fallbacks": dict(made.fallbacks), "stage_seconds": made.seconds}
                    self._check(prepared, _leaves(given), exact, off)
                    del given
                except torch.OutOfMemoryError:
                    raise
                except AssertionError as error:
                    result["errors"][side] = f"wrong: {error}"[:ERROR]
                except Exception as error:  # noqa: BLE001 - whatever a compiler throws is its result
                    steps.pop(side, None)
                    result["errors"][side] = f"{type(error).__name__}: {error}"[:ERROR]
        return prepared, steps, result

    def _exact(self, prepared: Prepared) -> Any:
        """The results in f32, without TF32."""
        model, inputs = prepared.function, prepared.inputs
        assert isinstance(model, torch.nn.Module)
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            try:
                model.float()
                prepared.inputs = tree_map(lambda one: _as(one, self.device, "f32"), inputs)
                return _seeded(prepared.step(model))
            finally:
                model.to(DTYPES[self.dtype])
                prepared.inputs = inputs

    def _check(
        self, prepared: Prepared, results: list[torch.Tensor], exact: list[torch.Tensor], off: list[float]
    ) -> None:
        """Holds results to exact ones by eager's distance, or by that of operands in TF32, where PyTorch's settings let
        libraries take it: eager may have got a kernel that does not.

        Errors: AssertionError.
        """
        try:
            check(results, exact, off, FLOORS[self.dtype])
        except AssertionError:
            if self.device == "cpu" or self.dtype != "f32" or not torch.backends.cudnn.allow_tf32:
                raise
            rounded = distances(_leaves(self._of_tf32(prepared)), exact)
            check(results, exact, [max(pair) for pair in zip(off, rounded, strict=True)], FLOORS[self.dtype])

    def _of_tf32(self, prepared: Prepared) -> Any:
        """The results in f32 of inputs and parameters that are rounded to TF32."""
        model, inputs = prepared.function, prepared.inputs
        assert isinstance(model, torch.nn.Module)
        kept = [one.detach().clone() for one in model.parameters()]
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            try:
                for one, was in zip(model.parameters(), kept, strict=True):
                    one.copy_(rounded_to_tf32(was))
                prepared.inputs = tree_map(
                    lambda one: rounded_to_tf32(one) if isinstance(one, torch.Tensor) else one, inputs
                )
                return _seeded(prepared.step(model))
            finally:
                prepared.inputs = inputs
                for one, was in zip(model.parameters(), kept, strict=True):
                    one.copy_(was)

    def measure(self, name: str) -> Result:
        """The time of every side of a problem: on the device (`…_ms`), and, where that is short, from call to result
        (`…_called_ms`). Requires: nobody else uses the device.
        """
        module, prepared, steps = self.ready.pop(name)
        prepared.inputs = inputs_of(module, self.device, self.dtype)
        result: Result = {}
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.device == "cpu":
                samples = in_turns(steps, SECONDS / len(steps)).milliseconds
            else:
                samples = device_times(steps, self._rounds(steps))
            result |= {f"{side}_ms": statistics.median(times) for side, times in samples.items()}
            if self.device != "cpu" and min(result.values()) < LONG:
                called = in_turns(steps, CALLED_SECONDS, self.wait).milliseconds
                result |= {f"{side}_called_ms": statistics.median(times) for side, times in called.items()}
        prepared.inputs = ()
        self.kept -= sum(tensor.nbytes for tensor in prepared.tensors())
        del prepared, steps
        self._free()
        return result

    def _rounds(self, steps: Mapping[str, Step]) -> int:
        """How many rounds take `SECONDS`; a sample costs its side's time and about two milliseconds."""
        for step in steps.values():
            step()
        self.wait()
        start = time.perf_counter()
        for step in steps.values():
            step()
        self.wait()
        return max(FEWEST, min(MOST, int(SECONDS / (time.perf_counter() - start + 0.002 * len(steps)))))

    def bandwidth(self) -> Result:
        """Bytes per second of a large copy."""
        return {"copy_bandwidth": large_copy_bandwidth(self.device)}

    def wait(self) -> None:
        """Until the device has done all."""
        if self.device != "cpu":
            torch.cuda.synchronize()

    def _free(self) -> None:
        gc.collect()
        if self.device != "cpu":
            torch.cuda.empty_cache()


def _leaves(results: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(results) if isinstance(one, torch.Tensor)]


def _seeded(step: Step) -> Any:
    torch.manual_seed(SEED)
    return step()


def _parts(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Tensors of one shape in parts of few elements."""
    yield from zip(*(one.reshape(-1).split(PART) for one in tensors), strict=True)


def rounded_to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Its numbers in ten bits behind the point, the nearest, ties away from zero; what is not f32 as it is.

    Source: a definition: the format of NVIDIA's tensor cores, and `cvt.rna.tf32.f32` of PTX.
    """
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    return torch.where(tensor.isfinite(), ((bits + 0x1000) & ~0x1FFF).view(torch.float32), tensor)


def distances(results: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    """The largest distance of each result from the exact one; for integers, how many are others. What is no number in
    both, or the same infinity, is not apart.
    """
    found: list[float] = []
    for ours, truth in zip(results, exact, strict=True):
        assert ours.shape == truth.shape, f"{tuple(ours.shape)}, not {tuple(truth.shape)}"
        if not truth.is_floating_point():
            found.append(float((ours != truth).sum()))
            continue
        most = 0.0
        for one, other in _parts(ours, truth):
            apart = torch.where(torch.isclose(one.float(), other, 0, 0, equal_nan=True), 0, (one - other).abs())
            most = max(most, float(apart.nan_to_num(nan=torch.inf).max()) if apart.numel() else 0.0)
        found.append(most)
    return found


def check(results: list[torch.Tensor], exact: list[torch.Tensor], allowed: list[float], floor: float) -> None:
    """Holds results to exact ones: floats to `FACTOR` times what is allowed (eager's distance), or to a part of the
    largest number; integers to no more others than eager has.

    Errors: AssertionError.
    """
    for number, (off, most, truth) in enumerate(zip(distances(results, exact), allowed, exact, strict=True)):
        if truth.is_floating_point():
            largest = max(
                (float(one.nan_to_num(0, 0, 0).abs().max()) for (one,) in _parts(truth) if len(one)), default=0
            )
            most = max(FACTOR * most, floor * largest)
        assert off <= most, f"result {number}: {off:.3g} apart, {most:.3g} is allowed"


def serve(
    connection: Connection,
    sides: tuple[str, ...],
    texts: str | None,
    *,
    paths: Mapping[str, Path],
    device: str,
    dtype: str,
    memory: Memory,
    slot: int,
) -> None:
    """Answers requests (verb, problem) until there are no more. `texts` is not used."""
    worker = Worker(sides, paths, device, dtype, memory, slot)
    worker.warm_up()
    connection.send({})
    verbs: dict[str, Callable[[str], Result]] = {
        "compile": worker.compile,
        "measure": worker.measure,
        "bandwidth": lambda _: worker.bandwidth(),
    }
    answer(connection, verbs)
