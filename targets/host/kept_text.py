"""The text of launches whose outs are kept from call to call (`kept.py` says what it looks like).

Launches that read what others wrote are done together, or not at all: what they keep is of one state of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from cuesta.dialects import host, kernel
from cuesta.dialects.core.structs import struct
from cuesta.dialects.layout import tensor_type_of
from cuesta.targets.host.pending import Address
from cuesta.targets.host.python_text import identifier

if TYPE_CHECKING:
    from cuesta.targets.host.wrapper import WrapperWriter


@struct(frozen=False)
class _Group:
    """Launches that are done together: they, the arguments that they read, and their outs."""

    launches: list[host.LaunchOp] = field(default_factory=list[host.LaunchOp])
    sources: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    outs: list[SSAValue] = field(default_factory=list[SSAValue])
    is_written: bool = False

    def take(self, other: _Group) -> None:
        """Adds another group, whose launches come later."""
        self.launches += other.launches
        self.sources |= other.sources
        self.outs += other.outs


class KeptLaunches:
    """The launches of a program, whose kernels these are, that are kept."""

    def __init__(self, kernels: Mapping[str, kernel.FuncOp]) -> None:
        self.kernels = kernels
        self.names: list[str] = []
        """What the text calls what is kept, group by group."""
        self.groups: dict[Operation, _Group] = {}
        self.put_off: set[SSAValue] = set()
        """Aliases that only these launches need, when they run."""
        self.not_freed: set[SSAValue] = set()
        """The arguments that they read, at which every call looks, and those aliases."""
        self.writing = False
        """Whether what is being written is done only where nothing is kept."""

    def definitions(self) -> list[str]:
        """The text that makes what is kept, if anything is."""
        return ["".join(f"{name} = Kept()\n" for name in self.names)] if self.names else []

    def begin(self, main: host.FuncOp) -> None:
        """A function's text begins."""
        self.groups, self.put_off, self.not_freed = {}, set(), set()
        kept = [op for op in main.body.ops if isinstance(op, host.LaunchOp) and op.kept]
        makers: dict[SSAValue, host.LaunchOp] = {}
        for op in kept:
            group = _Group([op])
            count = len(self.kernels[op.kernel].inputs)
            group.outs += op.operands[count:]
            for operand in op.operands[:count]:
                source = host.chain_of_views(operand)[-1]
                maker = makers.get(source)
                if maker is None:
                    group.sources[source] = None
                elif (other := self.groups[maker]) is not group:
                    other.take(group)
                    self.groups.update(dict.fromkeys(group.launches, other))
                    group = other
            self.groups[op] = group
            makers.update(dict.fromkeys(op.operands[count:], op))
        for op in reversed(list(main.body.ops)) if kept else ():
            if isinstance(op, host.ReinterpretOp) and self._is_only_ours(op.results[0]):
                self.put_off.add(op.results[0])
        self.not_freed.update(self.put_off, *(group.sources for group in self.groups.values()))

    def _is_only_ours(self, alias: SSAValue) -> bool:
        users = [use.operation for use in alias.uses if not isinstance(use.operation, host.FreeOp)]
        return bool(users) and all(
            user in self.groups or (isinstance(user, host.ReinterpretOp) and user.results[0] in self.put_off)
            for user in users
        )

    def write(self, writer: WrapperWriter, op: host.LaunchOp) -> None:
        """A launch, with the others of its group, where the first of them stands."""
        group = self.groups[op]
        if group.is_written:
            return
        group.is_written = True
        names, addresses = writer.names, writer.addresses
        writer.flush()
        for out in group.outs:
            if out not in names:
                writer.define(out, "buf")
        ours: set[Operation] = set(group.launches)
        needed = [out for out in group.outs if any(use.operation not in ours for use in out.uses)]
        sources = ", ".join(names[one] for one in group.sources)
        kept, key, found = (identifier(one, writer.taken) for one in ("kept", "key", "found"))
        self.names.append(kept)
        writer.lines.append(f"{key}, {found} = {kept}.look({sources})")
        first = len(writer.lines)
        aliases: dict[SSAValue, tuple[str | None, Address | None]] = {}
        self.writing = True
        for launch in group.launches:
            for operand in launch.operands:
                for value in reversed(host.chain_of_views(operand)):
                    if isinstance(value.owner, host.ReinterpretOp) and value not in aliases:
                        aliases[value] = names.get(value), addresses.pop(value, None)
                        writer.op(value.owner)
            outs = launch.operands[len(self.kernels[launch.kernel].inputs) :]
            writer.lines += [f"{names[out]} = {writer.allocation(tensor_type_of(out))}" for out in outs]
            writer.op(launch)
        writer.flush()
        self.writing = False
        for alias, (name, address) in aliases.items():  # what they were called in the block is not known behind it
            if name is not None:
                names[alias] = name
            addresses.pop(alias, None)
            if address is not None:
                addresses[alias] = address
        buffers = "".join(f"{names[out]}, " for out in needed)
        writer.lines.append(f"{found} = {kept}.keep({key}, ({buffers.rstrip()}))")
        writer.lines[first:] = [f"if {found} is None:", *(f"    {line}" for line in writer.lines[first:])]
        if needed:
            writer.lines.append(f"{buffers.rstrip()} = {found}")


__all__ = ["KeptLaunches"]
