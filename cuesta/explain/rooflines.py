"""How near a time is to what a machine needs at least."""

from __future__ import annotations

from cuesta.explain.model import Machine

LEAST = "the roofline: so much moved at the speed of a copy, or computed at that of a product"
"""By what a time is predicted that no model of schedules knows."""


def least_time(
    machine: Machine | None, moved: int | None, flops: int | None, matrix: str = ""
) -> tuple[float | None, str]:
    """The microseconds that a machine needs at least, and for what: `memory` or `arithmetic`. `matrix` is the type of
    the factors, where the arithmetic is that of products of matrices. None where nothing is known.
    """
    if machine is None or (moved is None and flops is None):
        return None, ""
    rate = dict(machine.matrix_flops_per_second).get(matrix) or machine.flops_per_second
    moving = (moved or 0) / machine.bytes_per_second * 1e6 if machine.bytes_per_second else 0.0
    computing = (flops or 0) / rate * 1e6 if rate else 0.0
    least = max(moving, computing)
    return (least, "memory" if moving >= computing else "arithmetic") if least else (None, "")


def roofline(
    machine: Machine | None, measured_us: float | None, moved: int | None, flops: int | None, matrix: str = ""
) -> tuple[float | None, str]:
    """The fraction of the roofline, and what the machine would wait for."""
    least, bound = least_time(machine, moved, flops, matrix)
    if machine is None or not measured_us or least is None:
        return None, ""
    if machine.launch_us is not None and least < machine.launch_us:
        bound = "launch"
    return least / measured_us, bound
