"""The constants that `benchmarks/constants.py` measures: which values to try, on which cases.

A row's cases are such that the kernels of at least one change with at least one value (`tests/benchmarks/` holds that).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

PLACES = {
    "assign_layouts": "cuesta.transforms.views.assign_layouts",
    "cost": "cuesta.transforms.fusion.cost",
    "domains": "cuesta.transforms.reductions.domains",
    "forward_stores": "cuesta.transforms.loops.forward_stores",
    "fuse_nests": "cuesta.transforms.fusion.fuse_nests",
    "gpu_cost": "cuesta.transforms.reductions.gpu_cost",
    "meetings": "cuesta.lowering.schedule.gpu.meetings",
    "profit": "cuesta.transforms.fusion.profit",
    "reuse_across_stages": "cuesta.transforms.loops.reuse_across_stages",
    "schedule_cpu": "cuesta.lowering.schedule.cpu.schedule_cpu",
    "schedule_gpu": "cuesta.lowering.schedule.gpu.schedule_gpu",
    "siblings": "cuesta.transforms.fusion.siblings",
    "sliding_windows": "cuesta.lowering.schedule.gpu.sliding_windows",
    "starts": "cuesta.transforms.scatters.starts",
    "sum_columns_with_rows": "cuesta.transforms.reductions.sum_columns_with_rows",
    "thresholds": "cuesta.transforms.thresholds",
    "tiles": "cuesta.transforms.products.tiles",
    "tiling": "cuesta.transforms.fusion.tiling",
    "when": "cuesta.transforms.reductions.when",
    "when_on_cpu": "cuesta.transforms.reductions.when_on_cpu",
}
"""The modules that have such constants, by the names that rows call them."""


@dataclass(frozen=True, slots=True)
class Row:
    """A constant, and where it decides something."""

    key: str
    """The module's name in `PLACES`, and the attribute: `schedule_cpu.TILE`."""
    device: Literal["cpu", "cuda"]
    cases: tuple[str, ...]
    """Of `benchmarks/constant_cases.py`."""
    values: tuple[Any, ...]
    """The values to try beside the one that it has."""

    @property
    def module(self) -> str:
        return PLACES[self.key.partition(".")[0]]

    @property
    def name(self) -> str:
        return self.key.partition(".")[2]

    def current(self) -> Any:
        """The value that stands in the module."""
        return getattr(import_module(self.module), self.name)


def cpu(key: str, *values: Any, on: str) -> Row:
    """A row measured on a processor; `on` names cases, with commas between."""
    return Row(key, "cpu", tuple(on.split(", ")), values)


def gpu(key: str, *values: Any, on: str) -> Row:
    """A row measured on a GPU; `on` names cases, with commas between."""
    return Row(key, "cuda", tuple(on.split(", ")), values)


ROWS: tuple[Row, ...] = (
    # How a nest runs on a processor
    cpu("schedule_cpu.TILE", 2048, 8192, on="pointwise, rows looked up"),
    cpu("schedule_cpu.BLOCK", (64, 16), (256, 16), (128, 32), on="transposed gather"),
    cpu("schedule_cpu.TILE_ROWS", 32, 128, on="transposed add, channels first"),
    cpu("schedule_cpu.TILE_COLUMNS", 128, 512, on="transposed add, channels first"),
    cpu("schedule_cpu.WINDOW_POINTS", 4, 64, on="middle of 64, sums of 8"),
    cpu("schedule_cpu.MOST_SIDE_BY_SIDE", 8, 32, on="1024 columns, 8192 columns"),
    cpu("schedule_cpu.SIDE_BY_SIDE_WORK", 20, 80, on="columns of sines, columns of exponentials"),
    cpu("schedule_cpu.FEWEST_STRIPS", 2, 8, on="512 columns, 64 columns"),
    cpu("schedule_cpu.SCATTER_STRIPS", 4, 16, on="wide scatter"),
    cpu("schedule_cpu.UNSURE", 1, 64, on="rows of some length"),
    cpu("schedule_cpu.PROGRAM", 2.5, 5.0, 20.0, on="average pool 4x4, sums of 12, middle of 4"),
    cpu("schedule_cpu.ITERATION", 0.5, 2.0, 4.0, on="average pool 5x5, middle of 4"),
    cpu("schedule_cpu.HORIZONTAL", 1.0, 2.0, 8.0, on="average pool 4x4, sums of 12"),
    cpu("schedule_cpu.INVARIANT", 0.0625, 1.0, on="weighted sums of 6"),
    cpu("schedule_cpu.NEAR_LANE", 0.5, 2.0, on="average pool 5x5, average pool 7x7"),
    cpu("schedule_cpu.FAR_LANE", 1.25, 5.0, on="average pool 4x4, average pool 5x5"),
    cpu("schedule_cpu.SHUFFLED", 0.75, 3.0, on="average pool 4x4, middle of 4"),
    cpu("schedule_cpu.TRANSPOSED", 2.5, 10.0, on="padded"),
    # Which nests fuse
    cpu("cost.FREE_ARITHMETIC", 1, 12, on="batch norm, shared exponential"),
    cpu("cost.FREE_LOADS", 0, 2, on="batch norm, shared product"),
    cpu("cost._HEAVY", 5, 20, on="softmax, shared exponential"),
    cpu("profit.ARITHMETIC_PER_ACCESS", 2, 4, 32, on="shared exponential, layer norm backward"),
    cpu("profit._MOST_READS", 2, 4, 16, on="layer norm backward"),
    cpu("siblings._LARGE", 1 << 14, 1 << 17, on="few columns three ways"),
    cpu("thresholds.FEW", 8, 32, on="sums of 12 rows, sums of 20 rows"),
    cpu("reuse_across_stages._WORTH_KEEPING", 4, 16, on="softmax"),
    cpu("reuse_across_stages._MOST_KEPT", 8192, 32768, on="softmax 12000, softmax 24000"),
    cpu("fuse_nests._MANY_POINTS", 2048, 8192, on="8 sums 5600 products, 8 sums 3200 products"),
    cpu("siblings._MOST_OUTS", 4, 16, on="nine products"),
    cpu("profit._MANY_COLUMNS", 512, 2048, on="700 exponential columns"),
    cpu("thresholds.SMALL", 4, 16, on="6 and their bias, 12 and their bias"),
    cpu("tiling._MOST_INNER", 1 << 16, 1 << 20, on="channels of 300000, channels of 100000"),
    cpu("forward_stores._MOST_READS", 2, 8, on="six of a row"),
    cpu("assign_layouts._ACROSS", 0.25, 4.0, on="convolutions, convolutions given out"),
    # Reductions in parts, and scatters, on a processor
    cpu("when_on_cpu.PARTS", 16, 64, on="sum"),
    cpu("when_on_cpu.PART", 2048, 8192, on="sum of some length"),
    cpu("when_on_cpu.MANY_ROWS", 512, 2048, on="columns three ways"),
    cpu("domains.ROWS", 4, 16, on="sum of some rows"),
    cpu("starts.WORTH_SPLITTING", 4096, 65536, on="scatter, narrow scatter"),
    # How a nest runs on a GPU
    gpu("schedule_gpu.TILE", 512, 2048, on="scaled rows of 1000"),
    gpu("schedule_gpu.ROW", 128, 1024, on="parts of rows of 701, padded rows of 250"),
    gpu("schedule_gpu.FILLED", 0.3, 0.9, on="parts of rows of 301, parts of rows of 701"),
    gpu("schedule_gpu.LOOPED", 8192, 32768, on="softmax 65536"),
    gpu("schedule_gpu.LONG", 1024, 16384, on="layer norm backward 4096x1024, logsumexp 5000"),
    gpu("schedule_gpu.LONGEST", 8192, 65536, on="logsumexp 5000, cross entropy 32768"),
    gpu("schedule_gpu.SCANNED", 1024, 4096, on="cumsum 4096, cumsum 8192"),
    gpu("schedule_gpu.UNKNOWN", 256, 1024, on="softmax of some length"),
    gpu("schedule_gpu.WINDOW_TILE", 256, 1024, on="middle of 12"),
    gpu("schedule_gpu.WINDOW_WARP", 32, 128, on="middle of 12"),
    gpu("schedule_gpu.POINTWISE_WARP", 128, 512, on="scaled rows of 1000"),
    gpu("schedule_gpu.ROW_WARP_BYTES", 1024, 4096, on="16 columns, layer norm 256"),
    gpu("meetings.MEETING_WARP", 512, 2048, on="batch norm trained"),
    gpu("meetings.MEETING_REGISTERS", 32, 128, on="batch norm trained"),
    gpu("schedule_gpu.WAVES", 1, 4, on="softmax in 1000 rows of 200"),
    gpu("sliding_windows.MOST_POINTS", 16, 128, on="average pool 5x5 stride 1"),
    gpu("sliding_windows.MOST_LOADS", 32, 128, on="average pool 5x5 stride 1, max pool 5x5 and where"),
    gpu("sliding_windows.FARTHEST", 8, 32, on="max pool of 57x57, max pool 3x3 stride 1"),
    gpu("sliding_windows.ALWAYS", (4,), (8, 16), on="max pool 3x3 stride 1, max pool 5x5 and where"),
    gpu("sliding_windows.APART", 1, 8, on="max pool 3x3 stride 2"),
    gpu("sliding_windows.WARPS", 2, 8, on="max pool 3x3 stride 1"),
    gpu("sliding_windows.BESIDE", (2,), (4,), (), on="average pool 5x5 stride 1, max pool 5x5 and where"),
    gpu("sliding_windows.MOST_WRITTEN", 8, 32, on="average pool 5x5 stride 1"),
    gpu("sliding_windows.WASTE", 0.025, 0.4, on="small max pool, max pool of volumes"),
    gpu("sliding_windows.WAVES", 2, 16, on="small max pool, max pool 3x3 stride 2"),
    gpu("sliding_windows.WINDOW", 8, 16, 128, on="middle of 12, middle of 24, middle of 128"),
    gpu("sliding_windows.LARGEST_WINDOW", 128, 1024, on="average pool 15x15"),
    gpu("sliding_windows.BESIDE_BYTES", 32, 128, on="average pool 15x15"),
    gpu("sliding_windows.ADDRESS", 8, 32, on="max pool 3x3 of 20x200 bf16"),
    gpu("sliding_windows.LOAD", 1, 6, on="max pool 3x3 of 20x200 bf16"),
    gpu("sliding_windows.STEP", 0, 2, on="max pool 3x3 of 20x200 bf16, max pool of volumes"),
    gpu("tiles.GROUP", 1, 4, 16, on="product"),
    # Reductions in parts on a GPU
    gpu("gpu_cost.PERSISTENT", 16384, 65536, on="cross entropy 32768, logsumexp 65535"),
    gpu("gpu_cost.WORD", 1, 2, 8, on="softmax 65535 in 256 rows bf16, softmax 65535"),
    gpu("gpu_cost.AT_ONCE", 1, 2, 8, 16, on="batch norm trained, layer norm 400000"),
    gpu("when.LARGE_GPU", 4096, 65536, on="layer norm backward 4096x1024, logsumexp 65535"),
    gpu("when.LEAST", 512, 2048, on="sums of 4 rows of 262144"),
    gpu("when.COLUMNS", 32, 128, on="4001 columns"),
    gpu("when.FEW_PROGRAMS", 0, 4, on="16 columns"),
    gpu("when.MANY_PROGRAMS", 4, 16, on="16 columns, 4001 columns"),
    gpu("when.TILE", 4096, 16384, on="layer norm 400000, logsumexp 65535"),
    gpu("when.WORTH", 0.45, 1.8, on="softmax in 132 rows, logsumexp 65535"),
    gpu("when.SURE", 0.465, 1.86, on="layer norm 400000, softmax 65535 in 256 rows bf16"),
    gpu("sum_columns_with_rows.HEIGHTS", (32, 16, 8), (16, 8), on="layer norm backward 16384x4096"),
    gpu("sum_columns_with_rows.FEW", 0.75, 3.0, on="layer norm backward 16384x4096"),
    gpu("sum_columns_with_rows.BUSY", 3072, 12288, on="layer norm backward 4096x1024, layer norm backward 16384x4096"),
    gpu("sum_columns_with_rows.LEAST", 256, 1024, on="layer norm backward 65536x512"),
    gpu("sum_columns_with_rows.MOST", 8192, 65536, on="layer norm backward 16384x4096, layer norm backward 2048x16384"),
    # Which nests fuse, on a GPU
    gpu("cost.FREE_ARITHMETIC", 1, 12, on="shared by nine"),
    gpu("profit.ARITHMETIC_PER_ACCESS", 2, 4, 32, on="shared exponential"),
    gpu("profit._MOST_READS", 2, 16, on="layer norm backward 2100x1024"),
    gpu("siblings._MOST_OUTS", 4, 16, on="nine large products"),
    gpu("forward_stores._CHEAPER_THAN_MEMORY", 32, 128, on="five exponentials, eight exponentials"),
    gpu("forward_stores._MOST_LOADS", 1, 8, on="softmax backward, products of five"),
    gpu("forward_stores._MOST_READS", 1, 8, on="norm of two"),
)
