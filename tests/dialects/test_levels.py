"""The contracts of the levels: a program that breaks one is refused where the level begins, and the pass that should have
established it is named.
"""

from __future__ import annotations

import pytest

from cuesta.context import make_context
from cuesta.dialects import host as host_dialect
from cuesta.dialects.core.contracts import Contract
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.levels import FUSED, HOST, KERNEL, LOOPS, SLICED
from cuesta.pipeline import STAGES, Stage, run_pipeline
from tests.support.text import parse

COPY = """
kernel.func @copy(%x : !kernel.ptr<f32>) outs(%o : !kernel.ptr<f32>) symbols(s0) schedule #kernel.schedule<grid = [s0]> {
  %i = kernel.program_id 0
  %a = kernel.load %x[%i] : f32
  kernel.store %a, %o[%i] : f32
}
"""
TYPE = "tensor<?xf32, #aten.layout<sizes = [s0]>>"
SYMBOLS = "attributes {sym.symbols = #sym.symbols<s0 in [2, 64]>}"
ALLOWED_IN_LOOPS = (
    "may not stand in @main; what may: aten.literal, func.return, loops.extern, loops.join, loops.nest, loops.view, "
    "loops.words, sym.value"
)


def main(body: str, *, results: str = "tensor<4xf32>", returned: str = "%y", declared: str = SYMBOLS) -> str:
    return (
        f"func.func @main(%x : tensor<4xf32>, %d : {TYPE}) -> {results} {declared} {{\n"
        f"{body}\nfunc.return {returned} : {results}\n}}"
    )


def host(body: str, *, declared: str = SYMBOLS) -> str:
    return (
        f"host.func @main(%x : tensor<4xf32>, %d : {TYPE}, %k : tensor<4xi64>) -> (tensor<4xf32>) {declared} {{\n"
        f"{body}\nhost.return %x : tensor<4xf32>\n}}"
    )


def kept(body: str, *, returned: str = "%x", frozen: str = "[0 : i64, 1 : i64]") -> str:
    attributes = f"attributes {{aten.frozen = {frozen}, aten.writes_to = [1 : i64]}}"
    return (
        COPY.replace(" symbols(s0)", "").replace("s0", "4")
        + f"host.func @main(%x : tensor<4xf32>, %c : tensor<4xf32>, %d : tensor<4xf32>) -> (tensor<4xf32>) {attributes} {{\n"
        f"%a = host.alloc : tensor<4xf32>\n%b = host.alloc : tensor<4xf32>\n"
        f"{body}\nhost.return {returned} : tensor<4xf32>\n}}"
    )


def copy(source: str, target: str, kept: str = "") -> str:
    return f"host.launch {kept} @copy({source}, {target}) : tensor<4xf32>, tensor<4xf32>\n"


READS = "host.launch: is kept, but reads what may be another in the next call"
WRITES = "host.launch: is kept, but writes to what is no buffer of its own"
GIVES = "host.launch: is kept, but what it writes is changed, freed, or given away"

NEST = """
%y = loops.nest (%i : 4) outs(%o : tensor<4xf32>) {
  %a = loops.load %v[%i] : tensor<4xf32>
  loops.store %a, %o[%i] : tensor<4xf32>
}"""
FLIP = "%v = loops.view %x by (d0) -> (3 - d0) : tensor<4xf32> to tensor<4xf32>"

BROKEN = [
    (
        LOOPS,
        main("%y = aten.exp.default(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
        f"aten.exp.default: {ALLOWED_IN_LOOPS}",
    ),
    (
        LOOPS,
        COPY + main(f"%z = kernel.launch @copy(%d) : ({TYPE}) -> ({TYPE})", returned="%x"),
        "kernel.launch: may not stand",
    ),
    (FUSED, main(FLIP + NEST), "loops.load: reads a view; eliminate-views should have composed the index maps"),
    (
        FUSED,
        main(FLIP, returned="%v"),
        "loops.view: strides cannot say this view; materialize-views should have made it a copy",
    ),
    (
        FUSED,
        main(
            "%v = loops.view %x by (d0, d1) -> (d0 * 2 + d1) : tensor<4xf32>"
            " to tensor<2x2xf32, #aten.layout<strides = [1, 2]>>",
            results="tensor<2x2xf32, #aten.layout<strides = [1, 2]>>",
            returned="%v",
        ),
        "loops.view: strides cannot say this view",
    ),
    (
        KERNEL,
        main(NEST.replace("%v", "%x")),
        "loops.nest: may not stand in @main; what may: aten.literal, func.return, kernel.launch",
    ),
    (KERNEL, main(FLIP, returned="%v"), "loops.view: strides cannot say this view"),
    (
        KERNEL,
        main(f"%z = kernel.launch @copy(%d) : ({TYPE}) -> ({TYPE})", returned="%x"),
        "launches @copy, which the module does not have",
    ),
    (
        KERNEL,
        COPY + main(f"%y = kernel.launch @copy(%x, %d) : (tensor<4xf32>, {TYPE}) -> (tensor<4xf32>)"),
        "passes 3 buffers to @copy, which takes 2",
    ),
    (
        KERNEL,
        COPY + main("%y, %z = kernel.launch @copy() : () -> (tensor<4xf32>, tensor<4xf32>)"),
        "takes 2 results from @copy, which has 1 outs",
    ),
    (
        KERNEL,
        COPY + main("%y = kernel.launch @copy(%x) : (tensor<4xf32>) -> (tensor<4xi64>)", results="tensor<4xi64>"),
        "number and element types must agree",
    ),
    (
        KERNEL,
        COPY + main("%y = kernel.launch @copy(%x) : (tensor<4xf32>) -> (tensor<4xf32>)", declared=""),
        "launches @copy, which uses s0; @main does not declare that",
    ),
    (HOST, main("", returned="%x"), "func.return: may not stand in @main; what may: aten.literal, host.alloc"),
    (
        HOST,
        host("%v = loops.view %x by (d0) -> (d0) : tensor<4xf32> to tensor<4xf32>"),
        "loops.view: may not stand in @main",
    ),
    (
        HOST,
        host("host.launch @copy(%x, %d) : tensor<4xf32>, " + TYPE),
        "launches @copy, which the module does not have",
    ),
    (HOST, COPY + host("host.launch @copy(%x) : tensor<4xf32>"), "passes 1 buffers to @copy, which takes 2"),
    (
        HOST,
        COPY + host("host.launch @copy(%x, %k) : tensor<4xf32>, tensor<4xi64>"),
        "number and element types must agree",
    ),
    (HOST, COPY + host("host.launch @copy(%x, %x) : tensor<4xf32>, tensor<4xf32>", declared=""), "which uses s0"),
    (HOST, kept(copy("%d", "%a", "kept")), READS),
    (HOST, kept(copy("%c", "%a", "kept")), READS),  # written to
    (HOST, kept(copy("%x", "%a") + copy("%a", "%b", "kept")), READS),
    (HOST, kept(copy("%x", "%a", "kept"), frozen="[]"), READS),
    (HOST, kept(copy("%x", "%c", "kept")), WRITES),
    (HOST, kept(copy("%x", "%a", "kept"), returned="%a"), GIVES),
    (HOST, kept(copy("%x", "%a", "kept") + "host.free %a : tensor<4xf32>"), GIVES),
    (HOST, kept(copy("%x", "%a", "kept") + copy("%d", "%a")), GIVES),
    (HOST, kept(copy("%x", "%a", "kept") + copy("%x", "%a", "kept")), GIVES),
    (
        HOST,
        kept(
            copy("%x", "%a", "kept") + "%v = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<4xf32>",
            returned="%v",
        ),
        GIVES,
    ),
    (
        HOST,
        kept(
            copy("%x", "%a", "kept")
            + '%v = host.extern "aten.reshape.default"(%a, [4]) : (tensor<4xf32>) -> tensor<4xf32>'
        ),
        GIVES,
    ),
]


def test_what_is_kept_may_be_read() -> None:
    """By launches, which may be kept as well, and by calls; an alias of it may be freed."""
    module = parse(
        kept(
            copy("%x", "%a", "kept")
            + "%v = host.reinterpret %a offset 0 : tensor<4xf32> to tensor<2x2xf32>\n"
            + '%m = host.extern "aten.mm.default"(%v, %v) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>\n'
            + "host.free %v : tensor<2x2xf32>\n"
            + copy("%a", "%b", "kept")
            + copy("%b", "%c")
        )
    )
    assert not list(HOST.check(module))
    assert [op.kept for op in module.walk() if isinstance(op, host_dialect.LaunchOp)] == [True, True, False]


@pytest.mark.parametrize(("contract", "text", "message"), BROKEN)
def test_broken_contract_names_the_pass(contract: Contract, text: str, message: str) -> None:
    module = parse(text)
    assert any(message in f"{op.name}: {reason}" for op, reason in contract.check(module))
    with pytest.raises(CuestaError) as caught:
        # A pass that changes nothing here is said to begin the level.
        run_pipeline(
            make_context(), module, [Stage("elide-roundings", "stands in for a pass with a bug", begins=contract)]
        )
    assert message in str(caught.value)
    assert f"(the contract of {contract.level})" in str(caught.value)
    assert "stage: elide-roundings" in str(caught.value)


def test_every_level_has_its_contract_checked_where_it_begins() -> None:
    assert [(stage.name, stage.begins) for stage in STAGES if stage.begins is not None] == [
        ("aten-to-loops", LOOPS),
        ("dce", FUSED),
        ("share-slices", SLICED),
        ("loops-to-kernel", KERNEL),
        ("pool-buffers", HOST),
    ]


ATEN = """
func.func @main(%x : tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %t = aten.permute.default(%x, [1, 0]) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.layout<strides = [1, 8]>>
  %f = aten.flip.default(%t, [0]) : (tensor<8x4xf32, #aten.layout<strides = [1, 8]>>) -> tensor<8x4xf32>
  %y = aten.exp.default(%f) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = aten.add.Tensor(%t, %y) : (tensor<8x4xf32, #aten.layout<strides = [1, 8]>>, tensor<8x4xf32>) -> tensor<8x4xf32>
  func.return %y, %z : tensor<8x4xf32>, tensor<8x4xf32>
}"""


@pytest.mark.parametrize(
    ("left_out", "message"),
    [
        ("aten-to-loops", "may not stand in @main"),
        ("eliminate-views", "reads a view; eliminate-views should have composed the index maps"),
        ("loops-to-kernel", "may not stand in @main"),
        ("kernel-to-host", "may not stand in @main"),
    ],
)
def test_a_pass_left_out_is_noticed(left_out: str, message: str) -> None:
    stages = [stage for stage in STAGES if stage.name != left_out]
    with pytest.raises(CuestaError) as caught:
        run_pipeline(make_context(), parse(ATEN), stages)
    assert message in str(caught.value)


def test_all_stages_pass() -> None:
    run_pipeline(make_context(), parse(ATEN), STAGES, verify_each=True)
