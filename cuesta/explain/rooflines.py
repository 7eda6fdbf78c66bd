"""How near a time is to what a machine needs at least."""

from __future__ import annotations

from cuesta.explain.model import Machine


def roofline(
    machine: Machine | None, measured_us: float | None, moved: int | None, flops: int | None, matrix: str = ""
) -> tuple[float | None, str]:
    """The fraction of the roofline, and what the machine would wait for. `matrix` is the type of the factors, where the
    arithmetic is that of products of matrices.
    """
    if machine is None or measured_us is None or not measured_us or (moved is None and flops is None):
        return None, ""
    rate = dict(machine.matrix_flops_per_second).get(matrix) or machine.flops_per_second
    moving = (moved or 0) / machine.bytes_per_second * 1e6 if machine.bytes_per_second else 0.0
    computing = (flops or 0) / rate * 1e6 if rate else 0.0
    least = max(moving, computing)
    if not least:
        return None, ""
    bound = "memory" if moving >= computing else "arithmetic"
    if machine.launch_us is not None and least < machine.launch_us:
        bound = "launch"
    return least / measured_us, bound
