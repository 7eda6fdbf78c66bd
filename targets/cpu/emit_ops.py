"""How each op of a kernel becomes LLVM IR: the table `EMITTERS`; every other op is a row of `elem`'s table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import bf16, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue

from cuesta.dialects import elem, kernel, sym
from cuesta.dialects.core.diagnostics import fail
from cuesta.dialects.core.locations import format_location
from cuesta.dialects.elem import kind_of, scalar_of
from cuesta.targets.cpu.bf16 import bf16_rounding
from cuesta.targets.cpu.division import check_of_divisor, division, has_normal_reciprocal
from cuesta.targets.cpu.emit_dot import emit_dot
from cuesta.targets.cpu.emit_index import Index, pointee
from cuesta.targets.cpu.emit_memory import LINE, load, load_rows, store, store_rows
from cuesta.targets.cpu.emit_reduce import IN_REGISTERS, SimpleAccumulator, accumulator_for
from cuesta.targets.cpu.emit_scan import ScanCarry, combine
from cuesta.targets.cpu.emit_types import (
    byte_width,
    constant,
    conversion,
    memory_text,
    out_of_range,
    splat_integer,
    suffix,
    type_text,
)
from cuesta.targets.cpu.features import host_features
from cuesta.targets.cpu.integer_functions import gcd
from cuesta.targets.cpu.philox import philox, random_word
from cuesta.targets.cpu.remainders import remainder
from cuesta.targets.cpu.vector_math import MathFunction, math_function
from cuesta.targets.cpu.vector_text import vector_type
from cuesta.targets.program import BoundSite

if TYPE_CHECKING:
    from cuesta.targets.cpu.emit_kernel import KernelEmitter


def _function_of(name: str, template: str, scalar: Attribute, lanes: int) -> MathFunction | None:
    """The function that an op of the table is a call of, where it is one."""
    dtype = suffix(scalar, 1)
    if name == "gcd":
        return gcd(dtype, lanes, signed=kind_of(scalar) == "i")
    if name == "fmod" and lanes > 1 and scalar in (f32, f64) and host_features().has_fused_multiply_add:
        return remainder(dtype, lanes)
    return math_function(template[5:], dtype, lanes) if template.startswith("math:") else None


def emit_table_op(emitter: KernelEmitter, op: Operation) -> None:
    """An op of `elem`'s table: its template, or a call of the vector math function it names."""
    assert isinstance(op, elem.TableOp), op.name
    operand_type = op.operands[0].type
    lanes = emitter.lanes_of(operand_type)
    scalar = scalar_of(operand_type)
    arguments = [emitter.name(operand) for operand in op.operands]
    inverse = _inverse(emitter, op.operands[1]) if op.row.name == "div" and lanes > 1 else None
    if inverse is not None:
        function = division(suffix(scalar, 1), lanes)
        emitter.functions[function.symbol] = function
        kind = type_text(operand_type, lanes)
        values = ", ".join(f"{kind} {value}" for value in (*arguments, inverse[0]))
        call = f"call {kind} {function.symbol}({values}, i1 {inverse[1]})"
        emitter.names[op.results[0]] = emitter.instruction(call)
        return
    result = emitter.fresh()
    emitter.names[op.results[0]] = result
    template = op.row.llvm.get(kind_of(operand_type))
    if template is None:
        fail(op, f"there is no LLVM spelling for {operand_type}")
    kind = type_text(operand_type, lanes)
    if lanes > 1 and _halves(op):
        _emit_half(emitter, op, kind, lanes, scalar)
        return
    if op.row.name in ("trunc_div", "fmod") and kind_of(operand_type) in "iu" and not _divides_well(op.operands[1]):
        _emit_any_division(emitter, op, template, kind, lanes, scalar)
        return
    function = _function_of(op.row.name, template, scalar, lanes)
    if function is not None:
        emitter.functions[function.symbol] = function
        emitter.line(f"{result} = call {kind} {function.symbol}({', '.join(f'{kind} {a}' for a in arguments)})")
        return
    text = template.format(
        r=result,
        **dict(zip("abc", arguments, strict=False)),
        t=kind,
        m=vector_type("i1", lanes),
        s=suffix(scalar, lanes),
        zero=constant(0, scalar, lanes),
        one=constant(1, scalar, lanes),
        ones=constant(1 if kind_of(scalar) == "b" else -1, scalar, lanes),
    )
    for line in text.split("\n"):
        emitter.line(line)


def _halves(op: elem.TableOp) -> int:
    """The divisor of a signed quotient by a constant 2 or −2; else 0."""
    owner = op.operands[-1].owner
    while isinstance(owner, kernel.BroadcastOp):
        owner = owner.operands[0].owner
    if op.row.name != "trunc_div" or kind_of(scalar_of(op.operands[0].type)) != "i":
        return 0
    return int(owner.value) if isinstance(owner, elem.ConstantOp) and owner.value in (2, -2) else 0


def _emit_half(emitter: KernelEmitter, op: elem.TableOp, kind: str, lanes: int, scalar: Attribute) -> None:
    """Half of an integer, towards 0: the floor of it, and 1 where it is odd and negative.

    LLVM 22 gives the dividend itself as `sdiv` by 2 of a product of two vectors of i64 whose ranges are known to be
    short, one of which may be negative (`x * (x − 1) / 2` of x in 0 … 8).
    """
    dividend = emitter.name(op.operands[0])
    sign = constant(int(type_text(scalar, 1)[1:]) - 1, scalar, lanes)
    negative = emitter.instruction(f"lshr {kind} {dividend}, {sign}")
    odd = emitter.instruction(f"and {kind} {negative}, {dividend}")
    floor = emitter.instruction(f"ashr {kind} {dividend}, {constant(1, scalar, lanes)}")
    half = emitter.instruction(f"add {kind} {floor}, {odd}")
    if _halves(op) < 0:
        half = emitter.instruction(f"sub {kind} {constant(0, scalar, lanes)}, {half}")
    emitter.names[op.results[0]] = half


def _divides_well(divisor: SSAValue) -> bool:
    """Whether no division by a value traps: it is a constant other than 0 and −1. In programs of ours all are."""
    owner = divisor.owner
    while isinstance(owner, kernel.BroadcastOp):
        owner = owner.operands[0].owner
    return isinstance(owner, elem.ConstantOp) and owner.value not in (0, -1)


def _emit_any_division(
    emitter: KernelEmitter, op: elem.TableOp, template: str, kind: str, lanes: int, scalar: Attribute
) -> None:
    """A division of integers that a processor survives whatever the numbers are: nobody guards that of an edited text.

    By 0 the quotient is the dividend and the remainder 0; by −1 a quotient wraps.
    """
    boolean, zero = vector_type("i1", lanes), constant(0, scalar, lanes)
    dividend, divisor = (emitter.name(operand) for operand in op.operands)
    is_zero = emitter.instruction(f"icmp eq {kind} {divisor}, {zero}")
    safe = emitter.instruction(f"select {boolean} {is_zero}, {kind} {constant(1, scalar, lanes)}, {kind} {divisor}")
    if kind_of(scalar) == "u":
        result = emitter.fresh()
        emitter.line(template.format(r=result, a=dividend, b=safe, t=kind))
        emitter.names[op.results[0]] = result
        return
    is_minus_one = emitter.instruction(f"icmp eq {kind} {divisor}, {constant(-1, scalar, lanes)}")
    safe = emitter.instruction(f"select {boolean} {is_minus_one}, {kind} {constant(1, scalar, lanes)}, {kind} {safe}")
    result = emitter.fresh()
    emitter.line(template.format(r=result, a=dividend, b=safe, t=kind))
    if op.row.name == "trunc_div":
        negative = emitter.instruction(f"sub {kind} {constant(0, scalar, lanes)}, {dividend}")
        result = emitter.instruction(f"select {boolean} {is_minus_one}, {kind} {negative}, {kind} {result}")
    emitter.names[op.results[0]] = result


def _inverse(emitter: KernelEmitter, divisor: SSAValue) -> tuple[str, str] | None:
    """The reciprocal of a divisor that the loop does not change, and whether it is normal; None: no gain."""
    scalar = scalar_of(divisor.type)
    if scalar not in (f32, f64) or not host_features().has_fused_multiply_add:
        return None
    if emitter.row_axes:  # in a tile a divisor may vary from row to row, or along the lanes
        return None
    dtype = suffix(scalar, 1)
    owner = divisor.owner
    if isinstance(owner, elem.ConstantOp):
        value = float(owner.value)
        # LLVM multiplies for a power of two.
        if not has_normal_reciprocal(value, dtype) or abs(math.frexp(value)[0]) == 0.5:
            return None
        return constant(1 / value, scalar, emitter.width), "true"
    if not isinstance(owner, kernel.BroadcastOp):
        return None
    level = emitter.broadcast_levels[divisor]
    if level == len(emitter.levels) - 1:
        return None
    known = emitter.levels[level].addresses
    if (key := ("reciprocal", divisor)) not in known:
        known[key] = emitter.fresh()
        for line in check_of_divisor(emitter.name(owner.operands[0]), dtype, known[key]):
            emitter.levels[level].lines.append(line)
    prefix = known[key]
    if (wide := ("reciprocal", divisor, emitter.width)) not in known:
        known[wide] = emitter.broadcast(f"{prefix}.r", type_text(scalar, 1), level)
    return known[wide], f"{prefix}.ok"


def _emit_bitcast(emitter: KernelEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    lanes = emitter.lanes_of(source)
    value = emitter.name(op.operands[0])
    cast = f"bitcast {type_text(source, lanes)} {value} to {type_text(target, lanes)}"
    emitter.names[op.results[0]] = emitter.instruction(cast)


def _emit_philox(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, elem.PhiloxOp)
    lanes = emitter.lanes_of(op.result.type)
    function = philox(op.word, lanes)
    emitter.functions[function.symbol] = function
    kind = type_text(op.result.type, lanes)
    arguments = ", ".join(f"{kind} {emitter.name(operand)}" for operand in op.operands)
    emitter.names[op.result] = emitter.instruction(f"call {kind} {function.symbol}({arguments})")


def _emit_random_word(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, elem.RandomWordOp)
    lanes = emitter.lanes_of(op.result.type)
    function = random_word(lanes)
    emitter.functions[function.symbol] = function
    kind = type_text(op.result.type, lanes)
    arguments = [*(emitter.name(operand) for operand in op.operands), splat_integer(op.first, lanes)]
    call = f"call {kind} {function.symbol}({', '.join(f'{kind} {one}' for one in arguments)})"
    emitter.names[op.result] = emitter.instruction(call)


def _emit_convert(emitter: KernelEmitter, op: Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    lanes = emitter.lanes_of(source)
    given = op.operands[0].owner
    if isinstance(given, elem.ConstantOp) and (known := out_of_range(given.value, source, target)) is not None:
        emitter.names[op.results[0]] = constant(known, target, lanes)
        return
    value = emitter.name(op.operands[0])
    if scalar_of(target) == bf16 and scalar_of(source) != bf16:
        if scalar_of(source) != f32:
            value = _converted(emitter, source, f32, lanes, value)
        function = bf16_rounding(lanes)
        emitter.functions[function.symbol] = function
        kind, narrow = type_text(f32, lanes), type_text(bf16, lanes)
        emitter.names[op.results[0]] = emitter.instruction(f"call {narrow} {function.symbol}({kind} {value})")
    else:
        emitter.names[op.results[0]] = _converted(emitter, source, target, lanes, value)


def _converted(emitter: KernelEmitter, source: Attribute, target: Attribute, lanes: int, value: str) -> str:
    result = emitter.fresh()
    for line in conversion(source, target, lanes, result, value):
        emitter.line(line)
    return result


def _emit_select(emitter: KernelEmitter, op: Operation) -> None:
    condition, on_true, on_false = op.operands
    kind = emitter.type_of(on_true.type)
    emitter.names[op.results[0]] = emitter.instruction(
        f"select {emitter.type_of(condition.type)} {emitter.name(condition)}, "
        f"{kind} {emitter.name(on_true)}, {kind} {emitter.name(on_false)}"
    )


def _emit_broadcast(emitter: KernelEmitter, op: Operation) -> None:
    source = op.operands[0]
    if kind_of(source.type) == "x":
        index = emitter.index(source)
        emitter.indices[op.results[0]] = index
        return
    emitter.broadcast_levels[op.results[0]] = len(emitter.levels) - 1


def _emit_program_id(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ProgramIdOp)
    emitter.indices[op.result] = emitter.coordinate(op.axis)
    emitter.naturals.add(op.result)


def _emit_for(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ForOp)
    emitter.loop(op, None)


def _emit_reduce(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ReduceOp)
    accumulator = accumulator_for(emitter, op)
    if accumulator.vectors >= IN_REGISTERS:
        _ask_for_stores(emitter, op)
    emitter.loop(op, accumulator)
    names = accumulator.finish(emitter)
    if isinstance(accumulator, SimpleAccumulator) and accumulator.rows > 1:
        for row, name in enumerate(names):
            with emitter.at_row(row):
                emitter.names[op.results[0]] = name
        return
    for result, name in zip(op.results, names, strict=True):
        emitter.names[result] = name


def _ask_for_stores(emitter: KernelEmitter, op: kernel.ReduceOp) -> None:
    """Asks for the memory that is stored to after a long reduction, so that it is there by then."""
    block = op.parent
    for write in block.ops if block is not None else ():
        if not isinstance(write, kernel.StoreOp) or _lane_stride(emitter, write) != 1:
            continue
        scalar = scalar_of(write.value.type)
        for row in range(emitter.rows):
            with emitter.at_row(row):
                place = emitter.address(write.pointer, write.offset, write.indices)
                for lane in range(0, emitter.lanes_of(write.value.type), LINE // byte_width(scalar)):
                    there = emitter.instruction(f"getelementptr {memory_text(scalar)}, ptr {place}, i64 {lane}")
                    emitter.line(f"call void @llvm.prefetch.p0(ptr {there}, i32 1, i32 3, i32 1)")


def _emit_index(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.IndexOp)
    lanes = emitter.lanes_of(op.result.type)
    level = len(emitter.levels) - 1
    value = emitter.lanewise(op.offset, op.indices) if lanes > 1 else emitter.scalar(op.offset, op.indices, level)
    kind, wide = type_text(op.result.type, lanes), vector_type("i64", lanes)
    if kind == wide:
        emitter.names[op.result] = emitter.instruction(f"add {wide} {value}, {splat_integer(0, lanes)}")
    else:
        emitter.names[op.result] = emitter.instruction(f"trunc {wide} {value} to {kind}")


def _emit_bound(emitter: KernelEmitter, op: Operation) -> None:
    """Compares, and takes a cold path that records the first failure; a failing lane goes on with index 0."""
    assert isinstance(op, kernel.BoundOp)
    source = op.operands[0]
    lanes = emitter.lanes_of(source.type)
    wide, boolean = vector_type("i64", lanes), vector_type("i1", lanes)
    value = emitter.name(source)
    kind = type_text(source.type, lanes)
    if kind != wide:
        extension = "sext" if kind_of(source.type) == "i" else "zext"
        value = emitter.instruction(f"{extension} {kind} {value} to {wide}")
    if emitter.is_checked:  # what is checked is what is used, also where a conversion overflowed
        value = emitter.instruction(f"freeze {wide} {value}")
    size_name = emitter.scalar(op.size, (), 0)
    size = emitter.broadcast(size_name, "i64") if lanes > 1 else size_name
    position = value
    if op.wrap:
        negative = emitter.instruction(f"icmp slt {wide} {value}, {splat_integer(0, lanes)}")
        lifted = emitter.instruction(f"add {wide} {value}, {size}")
        position = emitter.instruction(f"select {boolean} {negative}, {wide} {lifted}, {wide} {value}")
    good = emitter.instruction(f"icmp ult {wide} {position}, {size}")
    every = good
    if lanes > 1:
        every = emitter.instruction(f"call i1 @llvm.vector.reduce.and.v{lanes}i1({boolean} {good})")
    bad_label, join = emitter.label(), emitter.label()
    emitter.line(f"br i1 {every}, label %{join}, label %{bad_label}")
    emitter.line(f"{bad_label}:")
    first = value
    if lanes > 1:
        bad = emitter.instruction(f"xor {boolean} {good}, splat (i1 true)")
        bits = emitter.instruction(f"bitcast {boolean} {bad} to i{lanes}")
        lane = emitter.instruction(f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {bits}, i1 false)")
        first = emitter.instruction(f"extractelement {wide} {value}, i{lanes} {lane}")
    emitter.report(BoundSite(format_location(op.location), divides=op.is_of_divisor), first, size_name)
    emitter.line(f"br label %{join}")
    emitter.line(f"{join}:")
    safe = emitter.instruction(f"select {boolean} {good}, {wide} {position}, {wide} {splat_integer(0, lanes)}")
    emitter.indices[op.result] = Index(safe, len(emitter.levels) - 1, vector=lanes > 1)


def _emit_within(emitter: KernelEmitter, op: Operation) -> None:
    """Compares the addresses of the access that follows, and leaves the kernel where one is outside.

    Lanes whose address moves by a fixed step need only their first and their last.
    """
    assert isinstance(op, kernel.WithinOp)
    lanes = emitter.lanes_of(op.index_type)
    size = emitter.scalar(op.size, (), 0)
    step = _lane_stride(emitter, op) if op.mask is None or lanes == 1 else None
    leave, join = emitter.label(), emitter.label()
    if lanes == 1 or step is not None:
        first = last = emitter.scalar(op.offset, op.indices, len(emitter.levels) - 1)
        bad = some = _outside(emitter, first, size, 1)
        if step and lanes > 1:
            last = emitter.instruction(f"add i64 {first}, {step * (lanes - 1)}")
            some = emitter.instruction(f"or i1 {bad}, {_outside(emitter, last, size, 1)}")
        if op.mask is not None:
            some = emitter.instruction(f"and i1 {some}, {emitter.name(op.mask)}")
        emitter.line(f"br i1 {some}, label %{leave}, label %{join}")
        emitter.line(f"{leave}:")
        value = emitter.instruction(f"select i1 {bad}, i64 {first}, i64 {last}")
    else:
        wide, boolean, bits = vector_type("i64", lanes), vector_type("i1", lanes), f"i{lanes}"
        values = emitter.lanewise(op.offset, op.indices)
        bad = _outside(emitter, values, emitter.broadcast(size, "i64"), lanes)
        if op.mask is not None:
            mask = emitter.name(op.mask)
            mask = emitter.broadcast(mask, "i1") if emitter.lanes_of(op.mask.type) == 1 else mask
            bad = emitter.instruction(f"and {boolean} {bad}, {mask}")
        some = emitter.instruction(f"call i1 @llvm.vector.reduce.or.v{lanes}i1({boolean} {bad})")
        emitter.line(f"br i1 {some}, label %{leave}, label %{join}")
        emitter.line(f"{leave}:")
        bad = emitter.instruction(f"bitcast {boolean} {bad} to {bits}")
        lane = emitter.instruction(f"call {bits} @llvm.cttz.{bits}({bits} {bad}, i1 false)")
        value = emitter.instruction(f"extractelement {wide} {values}, {bits} {lane}")
    emitter.report(BoundSite(format_location(op.location), f"{op.access} in @{emitter.func.sym_name}"), value, size)
    emitter.line("ret void")
    emitter.line(f"{join}:")


def _outside(emitter: KernelEmitter, value: str, size: str, lanes: int) -> str:
    """Whether a number is not in [0, size); a size may be negative, where symbols make it so."""
    wide, boolean = vector_type("i64", lanes), vector_type("i1", lanes)
    negative = emitter.instruction(f"icmp slt {wide} {value}, {splat_integer(0, lanes)}")
    beyond = emitter.instruction(f"icmp sge {wide} {value}, {size}")
    return emitter.instruction(f"or {boolean} {negative}, {beyond}")


def _emit_local(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.LocalOp)
    name = emitter.fresh()
    emitter.names[op.result] = name
    emitter.entry.append(f"{name} = alloca [{op.size} x {memory_text(pointee(op.result))}], align 64")


def emit_rows(emitter: KernelEmitter, op: Operation) -> None:
    """Emits an op for every row of a tile: row by row, or at once where memory runs along the rows."""
    if isinstance(op, kernel.LoadOp) and _runs_along_rows(emitter, op):
        load_rows(emitter, op)
    elif isinstance(op, kernel.StoreOp) and _runs_along_rows(emitter, op):
        store_rows(emitter, op)
    else:
        for row in range(emitter.rows):
            with emitter.at_row(row):
                EMITTERS.get(type(op), emit_table_op)(emitter, op)


def _runs_along_rows(emitter: KernelEmitter, op: kernel.LoadOp | kernel.StoreOp) -> bool:
    """Whether an access is contiguous from row to row, and from lane to lane a fixed number of elements apart."""
    along_rows: sym.IndexExpr = 0
    along_lanes: sym.IndexExpr = 0
    for k, operand in enumerate(op.indices):
        index = emitter.index(operand)
        if index.row or index.lane:
            step = sym.coefficient(op.offset, k)
            if step is None:
                return False
            along_rows, along_lanes = along_rows + (step if index.row else 0), along_lanes + (step if index.lane else 0)
        elif emitter.varies_by_row(operand) or index.vector:
            return False
    if op.mask is not None or along_rows != 1 or sym.dims_of(along_lanes):
        return False
    return along_lanes not in (0, 1)


def _lane_stride(emitter: KernelEmitter, op: kernel.LoadOp | kernel.MemoryWriteOp | kernel.WithinOp) -> int | None:
    """By how many elements the address moves from lane to lane; None when that is not one number."""
    total = 0
    for k, operand in enumerate(op.indices):
        index = emitter.index(operand)
        if index.vector:
            return None
        if index.lane:
            stride = sym.coefficient(op.offset, k)
            if not isinstance(stride, int):
                return None
            total += stride
    return total


def _emit_load(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.LoadOp)
    emitter.names[op.result] = load(emitter, op, _lane_stride(emitter, op))


def _emit_store(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.StoreOp)
    store(emitter, op, _lane_stride(emitter, op))


def _emit_atomic(emitter: KernelEmitter, op: Operation) -> None:
    fail(op, "the CPU target has no atomic changes: its schedule keeps scans, one point after the other")


def _emit_scan(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.ScanOp)
    carry = emitter.scans[op] = ScanCarry(emitter, op)
    emitter.loop(op, carry if carry.running else None)


def _emit_running(emitter: KernelEmitter, op: Operation) -> None:
    scan = op.parent_op()
    assert isinstance(op, kernel.RunningOp) and scan is not None
    emitter.scans[scan].take(emitter, op)


def _emit_combine(emitter: KernelEmitter, op: Operation) -> None:
    assert isinstance(op, kernel.CombineOp)
    combine(emitter, op, _lane_stride(emitter, op))


EMITTERS: dict[type[Operation], Callable[[KernelEmitter, Operation], None]] = {
    elem.BitcastOp: _emit_bitcast,
    elem.ConvertOp: _emit_convert,
    elem.DotOp: emit_dot,
    elem.PhiloxOp: _emit_philox,
    elem.RandomWordOp: _emit_random_word,
    elem.SelectOp: _emit_select,
    kernel.AtomicOp: _emit_atomic,
    kernel.BoundOp: _emit_bound,
    kernel.BroadcastOp: _emit_broadcast,
    kernel.CombineOp: _emit_combine,
    kernel.ForOp: _emit_for,
    kernel.IndexOp: _emit_index,
    kernel.LoadOp: _emit_load,
    kernel.LocalOp: _emit_local,
    kernel.ProgramIdOp: _emit_program_id,
    kernel.ReduceOp: _emit_reduce,
    kernel.RunningOp: _emit_running,
    kernel.ScanOp: _emit_scan,
    kernel.StoreOp: _emit_store,
    kernel.WithinOp: _emit_within,
}
