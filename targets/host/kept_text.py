"""The text of launches whose outs are kept from call to call (`kept.py` says what it looks like)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from cuesta.dialects import host, kernel
from cuesta.dialects.layout import tensor_type_of
from cuesta.targets.host.python_text import identifier

if TYPE_CHECKING:
    from cuesta.targets.host.wrapper import WrapperWriter


class KeptLaunches:
    """The launches of a program, whose kernels these are, that are kept."""

    def __init__(self, kernels: Mapping[str, kernel.FuncOp]) -> None:
        self.kernels = kernels
        self.names: list[str] = []
        """What the text calls what is kept, launch by launch."""
        self.sources: dict[SSAValue, dict[SSAValue, None]] = {}
        """For a buffer that is kept, the arguments of which it is computed."""
        self.put_off: dict[SSAValue, host.ReinterpretOp] = {}
        """Aliases that only these launches need, when they run."""
        self.not_freed: set[SSAValue] = set()
        """Those arguments, at which every call looks, and those aliases."""
        self.writing = False
        """Whether what is being written is done only where nothing is kept."""

    def definitions(self) -> list[str]:
        """The text that makes what is kept, if anything is."""
        return ["".join(f"{name} = Kept()\n" for name in self.names)] if self.names else []

    def begin(self, main: host.FuncOp) -> None:
        """A function's text begins."""
        self.put_off = {}
        kept = [op for op in main.body.ops if isinstance(op, host.LaunchOp) and op.kept]
        for op in kept:
            inputs = len(self.kernels[op.kernel].inputs)
            arguments: dict[SSAValue, None] = {}
            for operand in op.operands[:inputs]:
                source = host.chain_of_views(operand)[-1]
                arguments |= self.sources.get(source, {source: None})
            self.sources |= dict.fromkeys(op.operands[inputs:], arguments)
        if kept:
            for op in reversed(list(main.body.ops)):
                if isinstance(op, host.ReinterpretOp) and self._is_only_ours(op.results[0]):
                    self.put_off[op.results[0]] = op
        self.not_freed = {*self.put_off, *(one for arguments in self.sources.values() for one in arguments)}

    def _is_only_ours(self, alias: SSAValue) -> bool:
        users = [use.operation for use in alias.uses if not isinstance(use.operation, host.FreeOp)]
        return bool(users) and all(
            (isinstance(user, host.LaunchOp) and user.kept)
            or (isinstance(user, host.ReinterpretOp) and user.results[0] in self.put_off)
            for user in users
        )

    def write(self, writer: WrapperWriter, op: host.LaunchOp) -> None:
        """A launch that is left out while what it wrote in an earlier call is there, of the same tensors."""
        writer.flush()
        inputs = len(self.kernels[op.kernel].inputs)
        outs = op.operands[inputs:]
        sources = ", ".join(writer.names[one] for one in self.sources[outs[0]])
        buffers = ", ".join(writer.names[out] for out in outs) + ","
        kept, key, found = (identifier(one, writer.taken) for one in ("kept", "key", "found"))
        self.names.append(kept)
        writer.lines.append(f"{key}, {found} = {kept}.look({sources})")
        first = len(writer.lines)
        writer.lines += [f"{writer.names[out]} = {writer.allocation(tensor_type_of(out))}" for out in outs]
        self.writing = True
        for operand in op.operands[:inputs]:
            for alias in reversed(host.chain_of_views(operand)):
                if alias in self.put_off:
                    writer.op(self.put_off[alias])
        writer.op(op)
        writer.flush()
        self.writing = False
        writer.lines.append(f"{found} = {kept}.keep({key}, ({buffers}))")
        writer.lines[first:] = [f"if {found} is None:", *(f"    {line}" for line in writer.lines[first:])]
        writer.lines.append(f"{buffers} = {found}")


__all__ = ["KeptLaunches"]
