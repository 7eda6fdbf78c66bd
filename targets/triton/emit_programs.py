"""Which programs of the grid a program of the launch does, and their coordinates.

    p = tl.program_id(0)
    … program p

With `programs = 132` in the schedule a launch has no more, and each does one program of the grid after the other:

    for number in tl.range(tl.program_id(0), 2048, 132):
        … program `number`

With descriptors the loop of a contraction in it is said to be one with it (`flatten`): what the next tile begins with
is on its way while this one is finished. Loads by pointers are left as they are: Triton 3.6 does not have them on their
way in such a loop (shared memory of machine code for sm_90: one tile, where three were asked for).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuesta.dialects import kernel, sym
from cuesta.targets.triton.emit_index import operand_text
from cuesta.targets.triton.emit_meet import draw_turn

if TYPE_CHECKING:
    from cuesta.targets.triton.emit_kernel import KernelEmitter


def emit_programs(emitter: KernelEmitter, body: Callable[[], None]) -> None:
    """The text of a program, by `body`, for each that a program of the launch does."""
    grid, choices = emitter.func.schedule.grid, emitter.func.schedule.choices
    if "programs" not in choices or not grid:
        _place(emitter, f"tl.program_id(0){'.to(tl.int64)' if emitter.wide else ''}")
        body()
        return
    counter = emitter.fresh("number")
    emitter.flattened = bool(emitter.tensors) and sum(map(emitter.is_walk, emitter.func.walk())) == 1
    emitter.enter()
    _place(emitter, f"tl.cast({counter}, tl.int64)" if emitter.wide else counter)
    body()
    total, flat = operand_text(sym.product_of(grid), ()), ", flatten=True" if emitter.flattened else ""
    emitter.leave(f"for {counter} in tl.range(tl.program_id(0), {total}, {choices['programs']}{flat}):")


def _place(emitter: KernelEmitter, number: str) -> None:
    """The coordinates of the program in the grid, from one number."""
    grid, choices = emitter.func.schedule.grid, emitter.func.schedule.choices
    if not grid:
        return
    program = emitter.fresh("program" if len(grid) > 1 else "p")
    meeting = kernel.meeting_of(emitter.func)
    if meeting is not None and "ahead" in choices:
        number = draw_turn(emitter, meeting) + (".to(tl.int64)" if emitter.wide else "")
    elif choices.get("reversed"):
        number = f"{operand_text(sym.product_of(grid) - 1, ())} - {number}"
    emitter.line(f"{program} = {number}")
    emitter.program = program
    rest = program
    coordinates: list[str] = []
    group = int(choices.get("group", 1))
    if group > 1 and len(grid) > 1:
        rest, coordinates = _grouped(emitter, program, group)
        grid = grid[:-2]
    for size in reversed(grid[1:]):
        divisor = operand_text(size, ())
        coordinates.append(emitter.bind(f"{rest} % {divisor}", "p"))
        rest = emitter.bind(f"{rest} // {divisor}", "p")
    emitter.coordinates = [*([rest] if grid else []), *reversed(coordinates)]


def _grouped(emitter: KernelEmitter, program: str, group: int) -> tuple[str, list[str]]:
    """The coordinates along the last two axes of the grid, the last one first, and what is left of the number.

    Programs that follow one another take `group` rows of one column, then those of the next: what they read along rows
    and columns is still in the cache.
    """
    grid = emitter.func.schedule.grid
    rows, columns = (operand_text(size, ()) for size in grid[-2:])
    rest = own = program
    if len(grid) > 2:
        rest = emitter.bind(f"{program} // ({rows} * {columns})", "p")
        own = emitter.bind(f"{program} % ({rows} * {columns})", "p")
    width = f"({group} * {columns})"
    first = emitter.bind(f"{own} // {width} * {group}", "first")
    height = emitter.bind(f"tl.minimum({rows} - {first}, {group})", "height")
    row = emitter.bind(f"{first} + {own} % {width} % {height}", "p")
    return rest, [emitter.bind(f"{own} % {width} // {height}", "p"), row]


__all__ = ["emit_programs"]
