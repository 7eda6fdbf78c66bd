"""The pieces of a program become functions of it: one program, one set of kernels.

    builtin.module @piece_0 { kernel.func @relu_0 …  host.func @main(%x …) }  host.func @main { host.call @piece_0(%x) }
    →  kernel.func @relu_0 …  host.func @piece_0(%x …)  host.func @main { host.call @piece_0(%x) }

A kernel that a piece before has, too, is that one; another kernel of a name that is taken gets a name of its own.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from cuesta.dialects import host, kernel
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.entry import entry_function
from cuesta.dialects.core.fingerprint import Fingerprint, fingerprint
from cuesta.dialects.core.typed import symbol_attribute
from cuesta.dialects.core.whole_program import WholeProgramPass


class LinkPiecesPass(WholeProgramPass):
    """Pieces become functions of the program."""

    name = "link-pieces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs on a program whose pieces stand at the level `host`."""
        linked: list[Operation] = []
        kernels: dict[Fingerprint, str] = {}
        names = {one.sym_name for one in op.body.ops if isinstance(one, kernel.FuncOp)}
        for one in list(op.body.ops):
            if isinstance(one, ModuleOp):
                _link(one, linked, kernels, names)
                one.detach()
        first = op.body.block.first_op
        assert first is not None
        op.body.block.insert_ops_before(linked, first)


def _link(module: ModuleOp, linked: list[Operation], kernels: dict[Fingerprint, str], names: set[str]) -> None:
    """Takes a piece apart, and what pieces it has."""
    renamed: dict[str, str] = {}
    main = entry_function(module)
    if not isinstance(main, host.FuncOp):
        fail(main, "only a program at the level `host` can be linked")
    for one in list(module.body.ops):
        if isinstance(one, ModuleOp):
            _link(one, linked, kernels, names)
            continue
        one.detach()
        if not isinstance(one, kernel.FuncOp):
            continue
        old = one.sym_name
        one.properties["sym_name"] = StringAttr("")
        same = fingerprint(one)
        new = kernels.get(same)
        if new is None:
            new = kernels[same] = _fresh(old, names)
            one.properties["sym_name"] = StringAttr(new)
            linked.append(one)
        renamed[old] = new
    for launch in main.body.ops:
        if isinstance(launch, host.LaunchOp):
            launch.properties["kernel"] = symbol_attribute(renamed[launch.kernel])
    main.properties["sym_name"] = StringAttr(_name_of(module))
    linked.append(main)


def _name_of(module: ModuleOp) -> str:
    name = module.sym_name
    assert name is not None, "a piece has a name"
    return name.data


def _fresh(name: str, names: set[str]) -> str:
    """The name, or one that nobody has: `relu_0` → `relu_1`."""
    base, number = name.rstrip("0123456789"), 0
    while name in names:
        name, number = f"{base}{number}", number + 1
    names.add(name)
    return name
