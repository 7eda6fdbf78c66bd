"""`elide-roundings`: reduced-precision values that never reach memory are not rounded on the way."""

from __future__ import annotations

from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from cuesta.dialects import elem, loops
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.rewriting import apply_patterns, no_match
from cuesta.dialects.loops.surgery import loads_of, stores_of


class ElideRounding(RewritePattern):
    """convert(convert(x : f32 to bf16) : bf16 to f32) -> x, the same for f16; of an integer x -> convert(x).

    Not exact: the result is closer to the real number than eager's, by one rounding. NaN stays NaN. A value beyond
    f16's range stays finite where eager would have made it infinite. Left out under `emulate_precision_casts`.

    A value is one number in a nest: x + (0 - x) is 0, and some x is max x. Near misses: what is read back, rounded,
    from where the nest stored it; a nest that compares such a value with another, which may come of the rounded one, or
    that gives others the greatest or least of such values, or what it computes of that: a gradient asks which elements
    are equal to it, and computes them again. So are the nests that numbers of 16 bits lead to from there
    (`exact_nests`): none of the values is beyond the greatest, whatever is made of both. What a value is made of was
    there before it: comparing it with that asks for nothing. And a nest that makes whole numbers, floats of 8 bits or
    bits of such values: between two levels the last digit of a value decides about a whole level.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    @cached_property
    def exact(self) -> set[loops.NestOp]:
        """`exact_nests`, asked once: in these nothing changes, and nothing that is done in others makes one more."""
        return exact_nests(self.block)

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: elem.ConvertOp, rewriter: PatternRewriter, /):
        inner = op.operands[0].owner
        if not isinstance(inner, elem.ConvertOp) or not isinstance(elem.scalar_of(op.result.type), Float32Type):
            return
        narrow = elem.scalar_of(inner.result.type)
        source = elem.scalar_of(inner.operands[0].type)
        if isinstance(narrow, BFloat16Type | Float16Type) and isinstance(source, Float32Type | IntegerType):
            if is_factor_of_contraction(op):
                no_match(op, "it gives a factor of a contraction the type that matrix units take")
                return
            if is_read_back(inner.result):
                no_match(op, "the nest reads it back where it is stored, rounded")
                return
            if loops.enclosing_nest(op) in self.exact:
                no_match(op, "it is compared or quantised, or others get the greatest or least of such values")
                return
            if isinstance(source, Float32Type):
                rewriter.replace(op, (), [inner.operands[0]])
            else:
                wide = elem.ConvertOp.build(inner.operands[0], elem.scalar_of(op.result.type))
                wide.location = inner.location
                rewriter.replace(op, (wide,), [wide.result])


def is_factor_of_contraction(op: Operation) -> bool:
    """Whether an op stands in the sum of a nest that is scheduled as a contraction."""
    return isinstance(op.parent_op(), loops.ReduceOp) and "depth" in loops.enclosing_nest(op).choices


def is_read_back(value: SSAValue) -> bool:
    """Whether a nest stores a value where it loads from."""
    stores = [use.operation for use in value.uses if isinstance(use.operation, loops.StoreOp)]
    return any(isinstance(use.operation, loops.LoadOp) for store in stores for use in store.target.uses)


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_EXTREMES = frozenset({"maximum", "minimum"})
_STEPS = frozenset({"ceil", "floor", "fmod", "round", "trunc"})


def exact_nests(block: Block) -> set[loops.NestOp]:
    """The nests of a block in which nothing is left unrounded: those that take steps (`takes_steps`); those that
    compare, or give others an extreme; and of the others all that numbers of 16 bits lead to from these, through
    memory, in either direction:

        what they read such numbers from; who reads such from them; and who reads the same such numbers as one of them
        does, and stores some, since it may compute for a result what the other compares.

    So where something is asked of such a number, all that compute it, or something of it, round as eager does. What the
    numbers come from that no nest computes, and an operator that is called with them, end that.
    """
    nests = [op for op in block.ops if isinstance(op, loops.NestOp)]
    found = set[loops.NestOp]()
    work: list[loops.NestOp] = []
    for nest in nests:
        steps, asks = _asked_of(nest)
        if steps or asks:
            found.add(nest)
        if asks:
            work.append(nest)
    if not work:
        return found
    tensors = {nest: _NarrowTensors(nest) for nest in nests}
    readers: dict[SSAValue, list[loops.NestOp]] = {}
    for nest, of_nest in tensors.items():
        for tensor in of_nest.read:
            readers.setdefault(tensor, []).append(nest)
    reached = set(work)
    while work:
        nest = work.pop()
        near: list[loops.NestOp] = []
        for tensor in tensors[nest].read:
            if isinstance(tensor.owner, loops.NestOp):
                near.append(tensor.owner)
            near += [reader for reader in readers.pop(tensor, ()) if tensors[reader].written]
        for tensor in tensors[nest].written:
            near += readers.get(tensor, ())
        new = [one for one in near if one not in reached]
        reached.update(new)
        work += new
    return found | reached


class _NarrowTensors:
    """The tensors whose numbers of 16 bits a nest reads, and the results of its own that it stores such in."""

    def __init__(self, nest: loops.NestOp) -> None:
        self.read = dict.fromkeys(_root_of(load.source) for load in loads_of(nest) if _is_narrow(load))
        stores = [op for op in stores_of(nest) if isinstance(op.value.type, BFloat16Type | Float16Type)]
        self.written = dict.fromkeys(_root_of(store.target) for store in stores)


def _root_of(tensor: SSAValue) -> SSAValue:
    """What a tensor is a view of: a result of an op, which a handle within a nest stands for, or an argument."""
    while isinstance(tensor.owner, loops.ViewOp):
        tensor = tensor.owner.source
    nest = tensor.owner.parent_op() if isinstance(tensor.owner, Block) else None
    if isinstance(nest, loops.NestOp) and tensor in nest.handles:
        return nest.results[nest.handles.index(tensor)]
    return tensor


def asks_which(nest: loops.NestOp) -> bool:
    """Whether a nest compares rounded values with others, takes steps of them, or gives others the greatest or least of
    such values: then all of them have to be what they are in memory.
    """
    return any(_asked_of(nest))


def _asked_of(nest: loops.NestOp) -> tuple[bool, bool]:
    """Whether a nest makes whole levels of rounded values; and whether it compares such values with others, or gives
    others the greatest or least of them.
    """
    steps = asks = False
    for op in nest.walk():
        if isinstance(op, elem.TableOp) and op.row.name in _COMPARISONS:
            one, other = op.operands
            asks = asks or any(_is_rounded(p) and not _is_known_before(q, p) for p, q in ((one, other), (other, one)))
        elif isinstance(op, loops.ReduceOp):
            asks = asks or (op.kind in _EXTREMES and _is_of_rounded(op.yielded) and _is_read_by_others(nest, op))
        elif not steps and is_step(op):
            steps = any(map(_is_of_rounded, op.operands))
    return steps, asks


def _is_read_by_others(nest: loops.NestOp, extreme: loops.ReduceOp) -> bool:
    """Whether others read where a nest stores an extreme, or what it computes of one and of what the extreme is not
    taken of.
    """
    return any(nest.results[nest.handles.index(one.target)].uses for one in _stores_of(extreme))


def _stores_of(extreme: loops.ReduceOp) -> list[loops.StoreOp]:
    """Where an extreme goes to memory, whatever it is converted to on the way; and where that goes, in 16 bits, which
    is computed of it, element by element, and of what does not come from where it was taken.

    Near miss: a softmax, which is of the greatest and of the numbers themselves.
    """
    found: list[loops.StoreOp] = []
    value = extreme.results[0]
    work, seen = [(value, True)], {value}
    taken_of: set[SSAValue] | None = None
    while work:
        one, is_itself = work.pop()
        for use in one.uses:
            user = use.operation
            if isinstance(user, loops.StoreOp):
                if is_itself or isinstance(user.value.type, BFloat16Type | Float16Type):
                    found.append(user)
            elif isinstance(user, elem.ConvertOp | elem.TableOp | elem.SelectOp) and user.results[0] not in seen:
                others = [operand for operand in user.operands if operand is not one]
                if not all(isinstance(other.owner, elem.ConstantOp) for other in others):
                    taken_of = _read_for(extreme.results[0]) if taken_of is None else taken_of
                    if any(other not in seen and taken_of & _read_for(other) for other in others):
                        continue
                seen.add(user.results[0])
                work.append((user.results[0], is_itself and isinstance(user, elem.ConvertOp)))
    return found


def _read_for(value: SSAValue) -> set[SSAValue]:
    """The tensors that a value is computed from, by whatever ops of its nest."""
    work, seen, found = [value], {value}, set[SSAValue]()
    while work:
        owner = work.pop().owner
        if isinstance(owner, loops.LoadOp):
            found.add(_root_of(owner.source))
        elif isinstance(owner, Operation):
            needed = [owner.yielded] if isinstance(owner, loops.ReduceOp) else []
            new = [one for one in (*owner.operands, *needed) if one not in seen]
            seen.update(new)
            work += new
    return found


def is_step(op: Operation) -> bool:
    """Whether an op makes a whole level of an operand, which its last digit may decide about: a whole number (a
    remainder, too, is made of one), an integer, a float of 8 bits, or the bits that it consists of.
    """
    if isinstance(op, elem.ConvertOp):
        return elem.kind_of(op.operands[0].type) == "f" and elem.kind_of(op.result.type) in "ius"
    if isinstance(op, elem.BitcastOp):
        return elem.kind_of(op.operands[0].type) == "f"
    return isinstance(op, elem.TableOp) and op.row.name in _STEPS and elem.kind_of(op.operands[0].type) == "f"


def _is_rounded(value: SSAValue) -> bool:
    """Whether a value is rounded to 16 bits, or read, so rounded, from where this nest or another stores it."""
    if not isinstance(value.owner, elem.ConvertOp):
        return False
    made = value.owner.operands[0].owner
    if isinstance(made, loops.LoadOp):
        return _is_narrow(made) and isinstance(_maker_of(made.source), loops.NestOp)
    return isinstance(made, elem.ConvertOp)


def _is_narrow(load: loops.LoadOp) -> bool:
    return isinstance(load.results[0].type, BFloat16Type | Float16Type)


def _maker_of(tensor: SSAValue) -> Operation | None:
    """The op that gives a tensor, or a view of it, or whose nest's out it is; None for an argument of the program."""
    while isinstance(tensor.owner, loops.ViewOp):
        tensor = tensor.owner.source
    owner = tensor.owner
    return owner.parent_op() if isinstance(owner, Block) else owner


def _is_known_before(value: SSAValue, compared: SSAValue) -> bool:
    """Whether a value cannot come of the one that it is compared with: a constant, or an element of memory that the
    other is computed from, point by point.
    """
    while isinstance(value.owner, elem.ConvertOp):
        value = value.owner.operands[0]
    if isinstance(value.owner, elem.ConstantOp):
        return True
    read = value.owner
    return isinstance(read, loops.LoadOp) and any(
        isinstance(one.owner, loops.LoadOp) and one.owner.map is read.map and one.owner.operands == read.operands
        for one in _made_of(compared)
    )


def _made_of(value: SSAValue) -> set[SSAValue]:
    """What a value is computed from point by point, itself included."""
    work, seen = [value], {value}
    while work:
        owner = work.pop().owner
        if isinstance(owner, elem.TableOp | elem.ConvertOp | elem.SelectOp):
            new = [operand for operand in owner.operands if operand not in seen]
            seen.update(new)
            work += new
    return seen


def _is_of_rounded(value: SSAValue) -> bool:
    return any(_is_rounded(one) for one in _made_of(value))


class ElideRoundingsPass(ModulePass):
    """One rounding on the way out, as docs/levels.md says of reduced precision."""

    name = "elide-roundings"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        say_what_is_rounded(op)
        apply_patterns(op, [ElideRounding(entry_block(op))])


def say_what_is_rounded(module: ModuleOp) -> None:
    """tanh x : f32, all of whose uses round it to bf16  ->  tanh x : f32 rounded bf16, the same for f16

    Exact: `relax-accuracy` reads it, when the rounding is gone. Only of functions that have approximations, and where
    something takes the rounded number back to f32.
    """
    for op in module.walk():
        if not isinstance(op, elem.TableOp) or not op.row.approximations or not isinstance(op.result.type, Float32Type):
            continue
        users = [use.operation for use in op.result.uses]
        if op.precision is None and users and all(isinstance(user, elem.ConvertOp) for user in users):
            kinds = {_narrow_name(user.results[0]) for user in users}
            back = (use.operation for user in users for use in user.results[0].uses)
            if kinds in ({"bf16"}, {"f16"}) and any(isinstance(one, elem.ConvertOp) for one in back):
                op.properties["rounded"] = StringAttr(*kinds)


def _narrow_name(value: SSAValue) -> str:
    scalar = elem.scalar_of(value.type)
    return "bf16" if isinstance(scalar, BFloat16Type) else "f16" if isinstance(scalar, Float16Type) else ""
