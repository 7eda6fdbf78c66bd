"""`loops-to-kernel`: every nest, run as a kernel by the reference interpreter, gives what the nest gave."""

from __future__ import annotations

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp, VectorType
from xdsl.parser import Parser

from cuesta.context import make_context
from cuesta.dialects import kernel, loops
from cuesta.dialects.core.diagnostics import CuestaError
from cuesta.dialects.core.dominance import verify_dominance
from cuesta.dialects.core.machine import Machine
from cuesta.targets import reference
from tests.support.lowering import to_kernel


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def lower(text: str, lanes: int = 8) -> ModuleOp:
    module = parse(text)
    to_kernel(module, machine=Machine(lanes=lanes), verify_each=False)
    module.verify()
    verify_dominance(module)
    printed = str(module)
    assert str(parse(printed)) == printed, "a kernel parses back to itself"
    return module


def kernels(module: ModuleOp) -> list[kernel.FuncOp]:
    return [op for op in module.body.ops if isinstance(op, kernel.FuncOp)]


def only_kernel(text: str, lanes: int = 8) -> kernel.FuncOp:
    (found,) = kernels(lower(text, lanes))
    return found


def accesses(func: kernel.FuncOp) -> list[str]:
    """What is loaded and stored where, as text without names of pointers."""
    found = []
    for op in func.walk():
        if isinstance(op, kernel.LoadOp | kernel.StoreOp):
            found.append(str(op))
    return found


def nest(inputs: str, domain: str, outs: str, body: str, symbols: str = "") -> str:
    """A program of one nest. `inputs` and `outs` are `%name : type` lists."""
    types = ", ".join(out.split(":", 1)[1].strip() for out in outs.split("; "))
    results = ", ".join(f"%r{k}" for k in range(len(outs.split("; "))))
    attributes = f" attributes {{sym.symbols = #sym.symbols<{symbols}>}}" if symbols else ""
    return f"""
func.func @main({inputs}) -> ({types}){attributes} {{
  {results} = loops.nest ({domain}) outs({outs.replace("; ", ", ")}) {{
    {body}
  }}
  func.return {results} : {types}
}}"""


POINTWISE = nest(
    "%x : tensor<40x70xf32>, %b : tensor<70xf32>",
    "%i : 40, %j : 70",
    "%o : tensor<40x70xf32>",
    """
    %a = loops.load %x[%i, %j] : tensor<40x70xf32>
    %c = loops.load %b[%j] : tensor<70xf32>
    %k = elem.constant 2.0 : f32
    %d = elem.add %a, %c : f32
    %e = elem.mul %d, %k : f32
    loops.store %e, %o[%i, %j] : tensor<40x70xf32>
    """,
)

CONTIGUOUS = nest(
    "%x : tensor<3x5x700xf32>",
    "%i : 3, %j : 5, %k : 700",
    "%o : tensor<3x5x700xf32>",
    """
    %a = loops.load %x[%i, %j, %k] : tensor<3x5x700xf32>
    %e = elem.exp %a : f32
    loops.store %e, %o[%i, %j, %k] : tensor<3x5x700xf32>
    """,
)

TRANSPOSE = nest(
    "%x : tensor<50x330xf32>",
    "%i : 330, %j : 50",
    "%o : tensor<330x50xf32>",
    """
    %a = loops.load %x[%j, %i] : tensor<50x330xf32>
    loops.store %a, %o[%i, %j] : tensor<330x50xf32>
    """,
)

COLUMN_MAJOR_OUT = nest(
    "%x : tensor<50x64xf32>",
    "%i : 50, %j : 64",
    "%o : tensor<50x64xf32, #aten.layout<strides = [1, 50]>>",
    """
    %a = loops.load %x[%i, %j] : tensor<50x64xf32>
    loops.store %a, %o[%i, %j] : tensor<50x64xf32, #aten.layout<strides = [1, 50]>>
    """,
)

ROW_SUM = nest(
    "%x : tensor<10x100xf32>",
    "%i : 10",
    "%o : tensor<10xf32>",
    """
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<10x100xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%i] : tensor<10xf32>
    """,
)

COLUMN_SUM = nest(
    "%x : tensor<300x96xf32>",
    "%j : 96",
    "%o : tensor<96xf32>",
    """
    %s = loops.reduce sum (%i : 300) {
      %a = loops.load %x[%i, %j] : tensor<300x96xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[%j] : tensor<96xf32>
    """,
)

FULL_SUM = nest(
    "%x : tensor<30x40xf32>",
    "",
    "%o : tensor<f32>",
    """
    %s = loops.reduce sum (%i : 30, %j : 40) {
      %a = loops.load %x[%i, %j] : tensor<30x40xf32>
      loops.yield %a : f32
    } : f32
    loops.store %s, %o[] : tensor<f32>
    """,
)

SOFTMAX = """
func.func @main(%x : tensor<9x100xf32>) -> tensor<9x100xf32> {
  %y, %t = loops.nest (%i : 9) outs(%o : tensor<9x100xf32>, %tmp : tensor<9x100xf32>) {
    %m = loops.reduce maximum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<9x100xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 100) {
      %a = loops.load %x[%i, %j] : tensor<9x100xf32>
      %b = elem.sub %a, %m : f32
      %e = elem.exp %b : f32
      loops.store %e, %tmp[%i, %j] : tensor<9x100xf32>
      loops.yield %e : f32
    } : f32
    loops.for (%j : 100) {
      %e = loops.load %tmp[%i, %j] : tensor<9x100xf32>
      %q = elem.div %e, %s : f32
      loops.store %q, %o[%i, %j] : tensor<9x100xf32>
    }
  }
  func.return %y : tensor<9x100xf32>
}
"""

# Softmax over axis 0: stages run down columns, so the lanes are on the parallel axis and the temporary stays a tensor.
COLUMN_SOFTMAX = """
func.func @main(%x : tensor<50x64xf32>) -> tensor<50x64xf32> {
  %y, %t = loops.nest (%i : 64) outs(%o : tensor<50x64xf32>, %tmp : tensor<50x64xf32>) {
    %m = loops.reduce maximum (%j : 50) {
      %a = loops.load %x[%j, %i] : tensor<50x64xf32>
      loops.yield %a : f32
    } : f32
    %s = loops.reduce sum (%j : 50) {
      %a = loops.load %x[%j, %i] : tensor<50x64xf32>
      %b = elem.sub %a, %m : f32
      %e = elem.exp %b : f32
      loops.store %e, %tmp[%j, %i] : tensor<50x64xf32>
      loops.yield %e : f32
    } : f32
    loops.for (%j : 50) {
      %e = loops.load %tmp[%j, %i] : tensor<50x64xf32>
      %q = elem.div %e, %s : f32
      loops.store %q, %o[%j, %i] : tensor<50x64xf32>
    }
  }
  func.return %y : tensor<50x64xf32>
}
"""

MAX_POOL = nest(
    "%x : tensor<2x3x14x14xf32>",
    "%n : 2, %c : 3, %h : 7, %w : 7",
    "%o : tensor<2x3x7x7xf32>; %at : tensor<2x3x7x7xi64>",
    """
    %m, %k = loops.reduce argmax (%p : 2, %q : 2) {
      %a = loops.load %x[%n, %c, %h * 2 + %p, %w * 2 + %q] : tensor<2x3x14x14xf32>
      loops.yield %a : f32
    } : f32, i64
    loops.store %m, %o[%n, %c, %h, %w] : tensor<2x3x7x7xf32>
    loops.store %k, %at[%n, %c, %h, %w] : tensor<2x3x7x7xi64>
    """,
)

ONE_POINT = nest(
    "%x : tensor<20xf32>",
    "%i : 20",
    "%o : tensor<20xf32>; %at : tensor<20xi64>; %mean : tensor<20xf32>; %rest : tensor<20xf32>",
    """
    %m, %k = loops.reduce argmax () {
      %a = loops.load %x[%i] : tensor<20xf32>
      loops.yield %a : f32
    } : f32, i64
    %u, %v = loops.reduce welford () {
      %a = loops.load %x[%i] : tensor<20xf32>
      loops.yield %a : f32
    } : f32, f32
    loops.store %m, %o[%i] : tensor<20xf32>
    loops.store %k, %at[%i] : tensor<20xi64>
    loops.store %u, %mean[%i] : tensor<20xf32>
    loops.store %v, %rest[%i] : tensor<20xf32>
    """,
)

EMBEDDING = nest(
    "%w : tensor<7x33xf32>, %k : tensor<20xi64>",
    "%i : 20, %j : 33",
    "%o : tensor<20x33xf32>",
    """
    %q = loops.load %k[%i] : tensor<20xi64>
    %b = loops.bound %q, 7 wrap : i64
    %a = loops.load %w[%b, %j] : tensor<7x33xf32>
    %n = loops.index [%i * 33 + %j] : i64
    %f = elem.convert %n : i64 to f32
    %e = elem.add %a, %f : f32
    loops.store %e, %o[%i, %j] : tensor<20x33xf32>
    """,
)

GATHER = nest(
    "%x : tensor<6x40xf32>, %k : tensor<6x40xi64>",
    "%i : 6, %j : 40",
    "%o : tensor<6x40xf32>",
    """
    %q = loops.load %k[%i, %j] : tensor<6x40xi64>
    %b = loops.bound %q, 6 : i64
    %a = loops.load %x[%b, %j] : tensor<6x40xf32>
    loops.store %a, %o[%i, %j] : tensor<6x40xf32>
    """,
)

PAD = nest(
    "%x : tensor<5x30xf32>",
    "%i : 5, %j : 34",
    "%o : tensor<5x34xf32>",
    """
    %n = loops.index [%j - 2] : i64
    %lo = elem.constant 0 : i64
    %hi = elem.constant 30 : i64
    %c = elem.ge %n, %lo : i64
    %d = elem.lt %n, %hi : i64
    %m = elem.and %c, %d : i1
    %z = elem.constant -1.0 : f32
    %a = loops.load %x[%i, %j - 2] if %m else %z : tensor<5x30xf32>
    loops.store %a, %o[%i, %j] : tensor<5x34xf32>
    """,
)

# The mask does not depend on the lanes, the address does; and the other way round.
MASKS = nest(
    "%x : tensor<4x40xf32>, %f : tensor<4xi1>, %g : tensor<40xi1>",
    "%i : 4, %j : 40",
    "%o : tensor<4x40xf32>",
    """
    %c = loops.load %f[%i] : tensor<4xi1>
    %d = loops.load %g[%j] : tensor<40xi1>
    %z = elem.constant 3.0 : f32
    %a = loops.load %x[%i, %j] if %c else %z : tensor<4x40xf32>
    %b = loops.load %x[%i, 0] if %d else %z : tensor<4x40xf32>
    %e = elem.add %a, %b : f32
    loops.store %e, %o[%i, %j] : tensor<4x40xf32>
    """,
)

LAYER_NORM = nest(
    "%x : tensor<6x5x20xbf16>, %w : tensor<5x20xf32>",
    "%i : 6",
    "%o : tensor<6x5x20xbf16>; %mean : tensor<6xf32>",
    """
    %m, %v = loops.reduce welford (%j : 5, %k : 20) {
      %a = loops.load %x[%i, %j, %k] : tensor<6x5x20xbf16>
      %b = elem.convert %a : bf16 to f32
      loops.yield %b : f32
    } : f32, f32
    loops.store %m, %mean[%i] : tensor<6xf32>
    %c = elem.constant 100.0 : f32
    %d = elem.div %v, %c : f32
    %e = elem.rsqrt %d : f32
    loops.for (%j : 5, %k : 20) {
      %a = loops.load %x[%i, %j, %k] : tensor<6x5x20xbf16>
      %b = elem.convert %a : bf16 to f32
      %f = elem.sub %b, %m : f32
      %g = elem.mul %f, %e : f32
      %h = loops.load %w[%j, %k] : tensor<5x20xf32>
      %l = elem.mul %g, %h : f32
      %n = elem.convert %l : f32 to bf16
      loops.store %n, %o[%i, %j, %k] : tensor<6x5x20xbf16>
    }
    """,
)

SCALAR = nest(
    "%x : tensor<f32>, %y : tensor<2x3xf32>",
    "",
    "%o : tensor<f32>",
    """
    %a = loops.load %x[] : tensor<f32>
    %b = loops.load %y[1, 2] : tensor<2x3xf32>
    %c = elem.mul %a, %b : f32
    loops.store %c, %o[] : tensor<f32>
    """,
)

UNIT_AXES = nest(
    "%x : tensor<1x9x1xf32>",
    "%i : 1, %j : 9, %k : 1",
    "%o : tensor<1x9x1xf32>; %m : tensor<1x9x1xi64>",
    """
    %v, %n = loops.reduce argmin (%l : 1) {
      %a = loops.load %x[%i, %j, %l] : tensor<1x9x1xf32>
      loops.yield %a : f32
    } : f32, i64
    %s = loops.reduce sum (%l : 1) {
      loops.yield %v : f32
    } : f32
    loops.store %s, %o[%i, %j, %k] : tensor<1x9x1xf32>
    loops.store %n, %m[%i, %j, %k] : tensor<1x9x1xi64>
    """,
)

ZERO_SIZE = nest(
    "%x : tensor<0x8xf32>",
    "%i : 0, %j : 8",
    "%o : tensor<0x8xf32>",
    """
    %a = loops.load %x[%i, %j] : tensor<0x8xf32>
    loops.store %a, %o[%i, %j] : tensor<0x8xf32>
    """,
)

EMPTY_REDUCTION = nest(
    "%x : tensor<8x0xf32>, %w : tensor<0xf32>",
    "%i : 8",
    "%o : tensor<8xf32>",
    """
    %s = loops.reduce sum (%j : 0) {
      %a = loops.load %x[%i, %j] : tensor<8x0xf32>
      %b = loops.load %w[0] : tensor<0xf32>
      %c = elem.add %a, %b : f32
      loops.yield %c : f32
    } : f32
    loops.store %s, %o[%i] : tensor<8xf32>
    """,
)

DYNAMIC = nest(
    "%x : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>",
    "%i : s0, %j : 10",
    "%o : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>",
    """
    %a = loops.load %x[%i, %j] : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>
    %b = elem.add %a, %a : f32
    loops.store %b, %o[%i, %j] : tensor<?x10xf32, #aten.layout<sizes = [s0, 10]>>
    """,
    symbols="s0 in [2, 4096]",
)

DYNAMIC_ROWS = nest(
    "%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>, %b : tensor<?xf32, #aten.layout<sizes = [s1]>>",
    "%i : s0, %j : s1",
    "%o : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>",
    """
    %a = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    %c = loops.load %b[%j] : tensor<?xf32, #aten.layout<sizes = [s1]>>
    %d = elem.add %a, %c : f32
    loops.store %d, %o[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
    """,
    symbols="s0 in [0, inf], s1 in [2, inf]",
)

DYNAMIC_SUM = nest(
    "%x : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>",
    "%i : s0",
    "%o : tensor<?xf32, #aten.layout<sizes = [s0]>>",
    """
    %s = loops.reduce sum (%j : s1) {
      %a = loops.load %x[%i, %j] : tensor<?x?xf32, #aten.layout<sizes = [s0, s1]>>
      loops.yield %a : f32
    } : f32
    %n = loops.index [s1] : i64
    %f = elem.convert %n : i64 to f32
    %m = elem.div %s, %f : f32
    loops.store %m, %o[%i] : tensor<?xf32, #aten.layout<sizes = [s0]>>
    """,
    symbols="s0 in [2, 4096], s1 in [2, 4096]",
)

# A value of the outer stage, and a load that does not change in the loop; two loops within one another.
NESTED = nest(
    "%x : tensor<4x6x40xf32>, %w : tensor<6xf32>",
    "%i : 4",
    "%o : tensor<4x6x40xf32>",
    """
    loops.for (%j : 6) {
      %s = loops.reduce sum (%k : 40) {
        %a = loops.load %x[%i, %j, %k] : tensor<4x6x40xf32>
        loops.yield %a : f32
      } : f32
      loops.for (%k : 40) {
        %a = loops.load %x[%i, %j, %k] : tensor<4x6x40xf32>
        %b = elem.sub %a, %s : f32
        %c = loops.load %w[%j] : tensor<6xf32>
        %d = elem.mul %b, %c : f32
        loops.store %d, %o[%i, %j, %k] : tensor<4x6x40xf32>
      }
    }
    """,
)

# One row of many is written under a mask: lanes on %j are right, lanes on %i would all write to one place.
MASKED_STORES = nest(
    "%x : tensor<64x8xf32>",
    "%i : 64",
    "%o : tensor<8xf32>",
    """
    %n = loops.index [%i] : i64
    %t = elem.constant 5 : i64
    %c = elem.eq %n, %t : i64
    loops.for (%j : 8) {
      %a = loops.load %x[%i, %j] : tensor<64x8xf32>
      loops.store %a, %o[%j] if %c : tensor<8xf32>
    }
    """,
)

PROGRAMS = {name.lower(): text for name, text in list(globals().items()) if name.isupper() and isinstance(text, str)}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compute_what_nests_do(name: str, lanes: int) -> None:
    text = PROGRAMS[name]
    lowered = lower(text, lanes)
    assert not any(isinstance(op, loops.NestOp) for op in lowered.walk())
    reference.check_equivalent(parse(text), lowered, exact=False, pass_name="loops-to-kernel")


def test_dynamic_sizes_that_are_empty_or_large() -> None:
    for text, sizes in (
        (DYNAMIC_ROWS, {"s0": 0, "s1": 4}),
        (DYNAMIC_ROWS, {"s0": 300, "s1": 33}),
        (DYNAMIC, {"s0": 1700}),
    ):
        before = parse(text)
        inputs = reference.random_inputs(before, symbols=sizes)
        reference.check_equivalent(before, lower(text), inputs, pass_name="loops-to-kernel")


def test_an_index_out_of_range_is_still_an_error() -> None:
    lowered = lower(EMBEDDING)
    inputs = [torch.zeros(7, 33), torch.full((20,), 7)]
    with pytest.raises(IndexError):
        reference.run(lowered, inputs)


def test_contiguous_axes_become_one() -> None:
    func = only_kernel(CONTIGUOUS)
    assert accesses(func)[0].endswith("[%k] : vector<8xf32>")


def test_lanes_go_where_memory_is_contiguous() -> None:
    rows, columns = only_kernel(ROW_SUM), only_kernel(COLUMN_SUM)
    (reduce_rows,) = (op for op in rows.walk() if isinstance(op, kernel.ReduceOp))
    (reduce_columns,) = (op for op in columns.walk() if isinstance(op, kernel.ReduceOp))
    assert reduce_rows.lanes == 8 and not isinstance(reduce_rows.results[0].type, VectorType)
    assert reduce_columns.lanes == 1 and isinstance(reduce_columns.results[0].type, VectorType)


def test_stores_decide_between_two_directions() -> None:
    assert any("kernel.store" in text and "* 50 + %j]" in text for text in accesses(only_kernel(TRANSPOSE)))
    assert any("kernel.store" in text and "[%i + %j * 50]" in text for text in accesses(only_kernel(COLUMN_MAJOR_OUT)))


def test_a_temporary_of_a_row_is_scratch_memory() -> None:
    func = only_kernel(SOFTMAX)
    (local,) = (op for op in func.walk() if isinstance(op, kernel.LocalOp))
    assert local.size == 100
    assert func.num_outs == 1
    assert not any(isinstance(op, kernel.LocalOp) for op in only_kernel(COLUMN_SOFTMAX).walk())


def test_a_scalar_is_broadcast_once() -> None:
    func = only_kernel(SOFTMAX)
    assert sum(isinstance(op, kernel.BroadcastOp) for op in func.walk()) == 2


def test_what_does_not_change_in_a_loop_is_outside_of_it() -> None:
    func = only_kernel(NESTED)
    (load,) = (op for op in func.walk() if isinstance(op, kernel.LoadOp) and "vector" not in str(op.result.type))
    parent = load.parent_op()
    assert isinstance(parent, kernel.ForOp) and parent.lanes == 1


def test_a_load_does_not_leave_a_loop_that_may_be_empty() -> None:
    func = only_kernel(EMPTY_REDUCTION)
    assert not any(isinstance(op, kernel.LoadOp) for op in func.body.ops)


def test_nests_that_are_alike_share_a_kernel() -> None:
    lowered = lower("""
    func.func @main(%x : tensor<16xf32>, %w : tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
      %y = loops.nest (%i : 16) outs(%o : tensor<16xf32>) {
        %a = loops.load %x[%i] : tensor<16xf32>
        %b = elem.exp %a : f32
        loops.store %b, %o[%i] : tensor<16xf32>
      }
      %z = loops.nest (%j : 16) outs(%o : tensor<16xf32>) {
        %c = loops.load %w[%j] : tensor<16xf32>
        %d = elem.exp %c : f32
        loops.store %d, %o[%j] : tensor<16xf32>
      }
      %n = loops.nest (%j : 16) outs(%o : tensor<16xf32>) {
        %c = loops.load %w[%j] : tensor<16xf32>
        %d = elem.tanh %c : f32
        loops.store %d, %o[%j] : tensor<16xf32>
      }
      func.return %z, %n : tensor<16xf32>, tensor<16xf32>
    }""")
    assert [func.sym_name for func in kernels(lowered)] == ["exp_0", "tanh_1"]
    launches = [op.kernel for op in lowered.walk() if isinstance(op, kernel.LaunchOp)]
    assert launches == ["exp_0", "exp_0", "tanh_1"]


READS_A_VIEW = """
    func.func @main(%x : tensor<4x8xf32>) -> tensor<8xf32> {
      %v = loops.view %x by (d0) -> (1, INDEX) : tensor<4x8xf32> to tensor<8xf32>
      %y = loops.nest (%i : 8) outs(%o : tensor<8xf32>) {
        %a = loops.load %v[%i] : tensor<8xf32>
        loops.store %a, %o[%i] : tensor<8xf32>
      }
      func.return %y : tensor<8xf32>
    }"""


def test_a_view_that_is_read_is_a_pointer_where_strides_can_say_it() -> None:
    x = torch.randn(4, 8)
    (y,) = reference.run(lower(READS_A_VIEW.replace("INDEX", "d0")), [x])
    torch.testing.assert_close(y, x[1], rtol=0, atol=0)
    with pytest.raises(CuestaError, match="strides cannot say"):
        lower(READS_A_VIEW.replace("INDEX", "7 - d0"))


LARGE_SUMS = nest(
    "%x : tensor<2x300x320xf32>, %w : tensor<2xf32>",
    "%n : 2",
    "%o : tensor<2xf32>; %b : tensor<2xi1>",
    """
    %c = loops.load %w[%n] : tensor<2xf32>
    %s = loops.reduce sum (%i : 300, %j : 320) {
      %a = loops.load %x[%n, %i, %j] : tensor<2x300x320xf32>
      %d = elem.mul %a, %c : f32
      loops.yield %d : f32
    } : f32
    %t = loops.reduce any (%i : 300, %j : 320) {
      %a = loops.load %x[%n, %i, %j] : tensor<2x300x320xf32>
      %l = elem.gt %a, %c : f32
      loops.yield %l : i1
    } : i1
    %e = elem.mul %s, %c : f32
    loops.store %e, %o[%n] : tensor<2xf32>
    loops.store %t, %b[%n] : tensor<2xi1>
    """,
)


def test_large_reductions_are_split_for_the_threads() -> None:
    lowered = lower(LARGE_SUMS)
    first, second = kernels(lowered)
    assert first.schedule.grid == (2, 30)
    assert first.schedule.choices["parallel"] == 1
    assert second.num_outs == 2
    reference.check_equivalent(parse(LARGE_SUMS), lowered, exact=False)


def test_a_reduction_that_needs_another_is_not_split() -> None:
    text = nest(
        "%x : tensor<320x320xf32>",
        "",
        "%o : tensor<f32>",
        """
        %s = loops.reduce maximum (%i : 320, %j : 320) {
          %a = loops.load %x[%i, %j] : tensor<320x320xf32>
          loops.yield %a : f32
        } : f32
        %t = loops.reduce sum (%i : 320, %j : 320) {
          %a = loops.load %x[%i, %j] : tensor<320x320xf32>
          %b = elem.sub %a, %s : f32
          loops.yield %b : f32
        } : f32
        loops.store %t, %o[] : tensor<f32>
        """,
    )
    assert len(kernels(lower(text))) == 1
