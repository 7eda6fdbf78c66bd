"""A product whose result is much larger than what it is made of, and than what is made of it, in parts of its rows.

    l = x @ w;  loss = f(l);  g = t · f'(l);  dx = g @ w.T;  dw = x.T @ g
    →
    of every part x' of the rows:  l' = x' @ w;  f(l');  g' = f'(l');  dx' = g' @ w.T;  dw = dw + x'.T @ g'
    and in the backward pass:      t · cat(dx', …), t · dw

as in the cross entropy of a product with a vocabulary: neither logits nor their gradients are there as a whole, and
no product is computed twice. Three laws, none of which knows of a loss:

    split       what is done element by element and along each row is done to parts of the rows as to all of them
    join        what a product makes of rows is the parts' results one below the other, and a sum over rows is the sum
                of the parts' sums
    linear      a gradient is linear in the tangent that the backward pass is given: where that is one number t, the
                gradient is t times that of 1, which the forward pass can compute

It is decided on the joint graph, before PyTorch divides it. Sums of parts are f32, and rounded once, after t has
multiplied them. In f16 nothing is done: there t is large because gradients of 1 would be denormal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.lowering.capture.inserting import closure_of, fake_mode_of, users_of

_aten = torch.ops.aten

LEAST_BYTES: Final = 1 << 28
"""So many bytes of a product's result are taken apart, and so many a part may have.

Source: a choice: a part of 1024 rows of 128k numbers in 16 bits, at which a product is as fast as a whole one.
"""
MOST_PARTS: Final = 16
"""Into so many parts the rows are taken at most.

Source: a bound: a part of a sum over all rows reads and writes all of the sum.
"""
ALIGNED: Final = 8
"""Parts begin at a multiple of so many rows.

Source: a definition: 16 bytes of 16 bits, where rows lie side by side.
"""
FEWEST: Final = 64
"""So many rows a part has at least.

Source: a bound: a product of fewer reads its weights for little.
"""
MOST_TRIED: Final = 4
"""So many products, the last of the forward pass, are looked at: each time all that comes after one is.

Source: a bound against compile-time growth.
"""
_FLAT: Final = (
    _aten.view.default,
    _aten._unsafe_view.default,
    _aten.reshape.default,
)
_SAME: Final = (_aten.alias.default, _aten.detach.default, _aten.clone.default, _aten._to_copy.default)
_ALONG: Final = (
    _aten.amax.default,
    _aten.amin.default,
    _aten.sum.dim_IntList,
    _aten.mean.dim,
    _aten.logsumexp.default,
)
_TYPES: Final = (torch.bfloat16, torch.float32)
_LINEAR_IN_FIRST: Final = (
    *(_aten.div.Tensor, _aten.div.Scalar, _aten.mul.Scalar, _aten.neg.default),
    *(_aten.sum.dim_IntList, _aten.mean.dim, _aten.permute.default, _aten.expand.default),
    *(_aten.unsqueeze.default, _aten.squeeze.dims, _aten.squeeze.dim),
    *(_aten.tanh_backward.default, _aten.sigmoid_backward.default, _aten.gelu_backward.default),
    *(_aten.silu_backward.default, _aten.threshold_backward.default, _aten.hardtanh_backward.default),
)
"""Operators that are linear in their first operand, whatever the others are."""


def rows_in_parts(gm: GraphModule) -> int:
    """Rewrites a joint graph in place, metadata included; says how many products were taken apart."""
    graph = gm.graph
    found = 0
    large = [node for node in graph.find_nodes(op="call_function", target=_aten.mm.default) if _is_worth_it(node)]
    if not large or any(
        _writes(node) for node in graph.nodes
    ):  # what is written to here would be read later than it was
        return 0
    given = {one for one in graph.find_nodes(op="placeholder") if "tangents" in str(one.target)}
    dependent = users_of(given)
    for product in [one for one in reversed(large) if one not in dependent][:MOST_TRIED]:
        region = _Region.around(graph, product, dependent, given)
        if region is not None:
            _Writer(graph, region).write()
            found += 1
    return found


def _writes(node: Node) -> bool:
    target: Any = node.target
    return isinstance(node.target, OpOverload) and target._schema.is_mutable


def _is_random(node: Node) -> bool:
    target: Any = node.target
    return isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _is_worth_it(product: Node) -> bool:
    value = product.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype not in _TYPES or not _is_static(value):
        return False
    return value.numel() * value.element_size() >= 2 * LEAST_BYTES


class _Region:
    """What is done to the rows of a product, and how each node of it is computed for a part of them.

    `lead` says of a node of which the rows are the first dims, how many of them; `turned` are matrices whose columns
    are the rows; `sums` have been summed over all rows.
    """

    def __init__(self, product: Node, tangents: set[Node], given: set[Node]) -> None:
        self.product = product
        self.rows = _value(product).shape[0]
        self.size = _value(product).numel()
        self.tangents = tangents
        """What depends on a tangent."""
        self.given = given
        """The tangents that it depends on."""
        self.body: list[Node] = []
        self.lead: dict[Node, int] = {}
        self.turned: set[Node] = set()
        self.sums: set[Node] = set()
        self.sliced: dict[tuple[Node, Node], int] = {}
        """The dim along which a node of the body reads a part of what is no part of it."""

    @staticmethod
    def around(graph: Graph, product: Node, dependent: set[Node], given: set[Node]) -> _Region | None:
        """The region that a product begins, with everything large and all that reads it; None where something in it is
        no part of the laws, or large and asked for by others, or leaves no gradient.
        """
        after = users_of([product])
        if any(_is_random(node) for node in after):  # it would be moved behind others, and draw other numbers
            return None
        region = _Region(product, dependent, given)
        large = {node for node in after if region.is_large(node)}
        before = _made_of(large)
        chosen = {node for node in after if node in before or any(one in large for one in node.all_input_nodes)}
        work = [*chosen]
        while work:
            for one in work.pop().all_input_nodes:
                if one not in chosen and region.is_large(one) and one.op == "call_function":
                    chosen.add(one)
                    work.append(one)
        region.body = [node for node in graph.nodes if node in chosen]
        visible = {one for one in tree_leaves(graph.output_node().args) if isinstance(one, Node)}
        if len(region.parts()) < 2 or not all(region.takes(node) for node in region.body):
            return None
        if any(region.is_large(node) and (node in visible or node in region.turned) for node in region.leaving()):
            return None
        is_gradient = [node in region.sums or node in dependent for node in region.leaving()]
        return region if any(is_gradient) and region.is_linear() else None

    def is_large(self, node: Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and _is_static(value) and value.numel() >= self.size

    def leaving(self) -> list[Node]:
        """What of the body others read, in order."""
        inside = set(self.body)
        return [node for node in self.body if any(user not in inside for user in node.users)]

    def parts(self) -> list[tuple[int, int]]:
        """Where the parts of the rows begin, and how many rows each has: as many as another, but for the last one."""
        value = _value(self.product)
        count = min(MOST_PARTS, -(-value.numel() * value.element_size() // LEAST_BYTES))
        step = max(FEWEST, -(-self.rows // (count * ALIGNED)) * ALIGNED)
        return [(start, min(step, self.rows - start)) for start in range(0, self.rows, step)]

    def takes(self, node: Node) -> bool:
        """Whether a node may be computed for a part of the rows; notes how."""
        value = node.meta.get("val")
        target = node.target
        if not isinstance(value, torch.Tensor) or not _is_static(value) or node.meta.get("recompute") is not None:
            return False
        if node is self.product:
            self.sliced[node, cast("Node", node.args[0])] = 0
            self.lead[node] = 1
            return True
        if target is _aten.mm.default:
            return self._takes_product(node)
        if target in _FLAT:
            return self._takes_view(node)
        if target is _aten.permute.default and _value(cast("Node", node.args[0])).dim() == 2:
            source = cast("Node", node.args[0])
            if self.lead.get(source) == 1 and [dim % 2 for dim in cast("Sequence[int]", node.args[1])] == [1, 0]:
                self.turned.add(node)
                return True
            return False
        if target in _ALONG:
            dims = cast("Any", (*node.args, None))[1]
            of = cast("Node", node.args[0])
            rank = _value(of).dim()
            if self.lead.get(of) != 1:
                return False
            if not dims or any(dim % rank == 0 for dim in dims):
                self.sums.add(node)
                return target is _aten.sum.dim_IntList
            self.lead[node] = 1
            return True
        if target in (_aten.unsqueeze.default, _aten.squeeze.dims, _aten.squeeze.dim):
            of = cast("Node", node.args[0])
            dims = cast("list[int]", tree_leaves(node.args[1]))
            rank = _value(of).dim() + (target is _aten.unsqueeze.default)
            if self.lead.get(of) != 1 or any(dim % rank == 0 for dim in dims):
                return False
            self.lead[node] = 1
            return True
        if target is _aten.gather.default:
            return cast("int", node.args[1]) % value.dim() != 0 and self._reads_rows(node, same_rank=True)
        if target is _aten.full.default and value.dim() and value.shape[0] == self.rows:
            self.lead[node] = 1
            return True
        if target is _aten.expand.default:
            return self._reads_rows(node, same_rank=False)
        is_pointwise = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
        return (is_pointwise or target in _SAME) and not _is_random(node) and self._reads_rows(node, same_rank=False)

    def _reads_rows(self, node: Node, same_rank: bool) -> bool:
        """Of operands that are broadcast to a result: whether each begins with the rows, or knows nothing of them."""
        rank = _value(node).dim()
        if not rank or _value(node).shape[0] != self.rows:
            return False
        for one in node.all_input_nodes:
            value = one.meta.get("val")
            if not isinstance(value, torch.Tensor) or one in self.turned or one in self.sums:
                return False
            aligned = value.dim() == rank and value.shape[0] == self.rows
            if one in self.lead:
                if self.lead[one] != 1 or not aligned:
                    return False
            elif aligned:
                self.sliced[node, one] = 0
            elif same_rank or (value.dim() == rank and value.shape[0] != 1):
                return False
        self.lead[node] = 1
        return True

    def _takes_view(self, node: Node) -> bool:
        source = cast("Node", node.args[0])
        if source not in self.lead:
            return False
        shape = _value(node).shape
        for lead in range(1, len(shape) + 1):
            if math.prod(shape[:lead]) == self.rows:
                self.lead[node] = lead
                return True
        return False

    def _takes_product(self, node: Node) -> bool:
        left, right = (cast("Node", one) for one in node.args[:2])
        inside = {*self.lead, *self.turned, *self.sums}
        if self.lead.get(left) == 1 and right not in inside:
            self.lead[node] = 1
            return True
        if left in self.turned and (self.lead.get(right) == 1 or right not in inside):
            if right not in inside:
                self.sliced[node, right] = 0
            self.sums.add(node)
            return True
        if left not in inside and self.lead.get(right) == 1:
            self.sliced[node, left] = 1
            self.sums.add(node)
            return True
        return False

    def is_linear(self) -> bool:
        """Whether what leaves the body depends on one tangent at most, one number, and is linear in it."""
        dependent = [node for node in self.body if node in self.tangents]
        read = _made_of(dependent) & self.tangents
        given = read & self.given
        if len(given) > 1 or any(_value(one).dim() or _value(one).dtype not in _TYPES for one in given):
            return False
        return all(self._is_linear(node) for node in read - given)

    def _is_linear(self, node: Node) -> bool:
        operands = node.all_input_nodes
        dependent = [one in self.tangents for one in operands]
        target = node.target
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype not in _TYPES:
            return False
        first_alone = bool(operands) and operands[0] is node.args[0] and dependent[0] and not any(dependent[1:])
        if target in (*_FLAT, *_SAME, *_LINEAR_IN_FIRST):
            return first_alone
        if target in (_aten.mul.Tensor, _aten.mm.default):
            return sum(one in self.tangents for one in node.args if isinstance(one, Node)) == 1
        if target in (_aten.add.Tensor, _aten.sub.Tensor):
            return all(isinstance(one, Node) and one in self.tangents for one in node.args)
        if target is _aten.where.self:
            condition, *chosen = cast("tuple[Node, ...]", node.args)
            return condition not in self.tangents and all(one in self.tangents or _is_zero(one) for one in chosen)
        if target is _aten.masked_fill.Scalar:
            return first_alone and bool(node.args[2] == 0)
        return False


class _Writer:
    """Writes the parts of a region, and what takes the place of what leaves it."""

    def __init__(self, graph: Graph, region: _Region) -> None:
        self.graph, self.region = graph, region
        self.output = graph.output_node()
        self.of_one: dict[Node, Node] = {}
        """Of what depends on the tangent and is no part of the body, the same of a tangent of 1."""

    def write(self) -> None:
        """The new nodes come before all that reads them, one part after the other."""
        region = self.region
        old, before = region.leaving(), set(self.graph.nodes)
        found: dict[Node, list[Node]] = {node: [] for node in old}
        inside = set(region.body)
        for node in region.body:  # before the first part, which is like the others then
            for one in node.all_input_nodes:
                if one in region.tangents and one not in inside:
                    self._of_one(one)
        for start, size in region.parts():
            values = self._part(start, size)
            for node in old:
                if node in region.sums and found[node]:
                    found[node] = [self._call(node, _aten.add.Tensor, found[node][0], values[node])]
                else:
                    found[node].append(values[node])
        replaced = set[Node]()
        for node in old:
            result = self._whole(node, found[node])
            if node in region.tangents:
                # The tangent is a number of the backward pass: what it multiplies is computed before, and kept.
                result.meta["recompute"] = CheckpointPolicy.MUST_SAVE
                (tangent,) = _made_of([node]) & region.given
                result = self._times(node, result, tangent)
            node.replace_all_uses_with(result, delete_user_cb=lambda user: user not in inside)
            replaced.add(result)
        moved = users_of(replaced) - replaced
        for node in [one for one in self.graph.nodes if one in moved and one in before and one.op != "output"]:
            self.output.prepend(node)
        for node in reversed(region.body):
            if not node.users:
                self.graph.erase_node(node)

    def _part(self, start: int, size: int) -> dict[Node, Node]:
        region = self.region
        values = dict[Node, Node]()
        slices = dict[tuple[Node, int], Node]()

        def operand(node: Node, one: Node) -> Node:
            if one in values:
                return values[one]
            whole = self._of_one(one) if one in region.tangents else one
            dim = region.sliced.get((node, one))
            if dim is None:
                return whole
            if (whole, dim) not in slices:
                slices[whole, dim] = self._call(node, _aten.slice.Tensor, whole, dim, start, start + size)
            return slices[whole, dim]

        for node in region.body:
            args: Any = torch.fx.map_arg(node.args, lambda one, node=node: operand(node, one))
            sizes = [size, *_value(node).shape[region.lead.get(node, 1) :]]
            if node.target in (*_FLAT, _aten.expand.default):
                args = (args[0], sizes)
            elif node.target is _aten.full.default:
                args = (sizes, args[1])
            values[node] = self._sum(node, args) if node in region.sums else self._same(node, args)
        return values

    def _same(self, node: Node, args: Any) -> Node:
        return self._call(node, cast("Any", node.target), *args, **node.kwargs)

    def _sum(self, node: Node, args: Any) -> Node:
        """A part of a sum over all rows, in f32: the sum of the parts is rounded once, as the whole one was."""
        if node.target is not _aten.mm.default:
            return self._call(node, cast("Any", node.target), *args, **{**node.kwargs, "dtype": torch.float32})
        if _value(node).dtype == torch.float32:
            return self._same(node, args)
        return self._call(node, _aten.mm.dtype, *args, torch.float32)

    def _whole(self, node: Node, parts: Sequence[Node]) -> Node:
        if node in self.region.sums:
            # What the tangent multiplies is rounded after that.
            exact = _value(parts[0]).dtype == _value(node).dtype or node in self.region.tangents
            return parts[0] if exact else self._call(node, _aten._to_copy.default, parts[0], dtype=_value(node).dtype)
        whole = self._call(node, _aten.cat.default, list(parts))
        shape = list(_value(node).shape)
        return whole if list(_value(whole).shape) == shape else self._call(node, _aten.view.default, whole, shape)

    def _times(self, node: Node, value: Node, tangent: Node) -> Node:
        """A gradient of 1, times the tangent, rounded once."""
        dtype = _value(node).dtype
        factor = tangent
        if _value(tangent).dtype != torch.float32:
            factor = self._call(node, _aten._to_copy.default, tangent, dtype=torch.float32)
        wide = value
        if _value(value).dtype != torch.float32:
            wide = self._call(node, _aten._to_copy.default, value, dtype=torch.float32)
        product = self._call(node, _aten.mul.Tensor, wide, factor)
        return product if dtype == torch.float32 else self._call(node, _aten._to_copy.default, product, dtype=dtype)

    def _of_one(self, node: Node) -> Node:
        if node not in self.of_one:
            if node in self.region.given:
                value = _value(node)
                options = {"dtype": value.dtype, "device": value.device}
                self.of_one[node] = self._call(node, _aten.full.default, [], 1.0, **options)
            else:
                args: Any = torch.fx.map_arg(
                    node.args, lambda one: self._of_one(one) if one in self.region.tangents else one
                )
                self.of_one[node] = self._call(node, cast("Any", node.target), *args, **node.kwargs)
        return self.of_one[node]

    def _call(self, like: Node, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        with self.graph.inserting_before(self.output):
            node = self.graph.call_function(target, args, kwargs)
        node.meta = {key: value for key, value in like.meta.items() if key not in ("val", "tensor_meta", "recompute")}
        fakes: Any = torch.fx.map_arg(args, _value)
        with fake_mode_of(_value(like)), torch.no_grad():
            node.meta["val"] = target(*fakes, **kwargs)
        return node


def _made_of(nodes: Sequence[Node] | set[Node]) -> set[Node]:
    """Nodes, what they are made of, and so on."""
    return closure_of(nodes, lambda node: node.all_input_nodes)


def _is_zero(node: Node) -> bool:
    """Whether a node is a zero that was written as one."""
    written: Iterator[Any] = iter(node.args)
    if node.target is _aten.full.default:
        next(written)
    elif node.target is not _aten.scalar_tensor.default:
        return False
    return next(written) == 0


def _is_static(value: torch.Tensor) -> bool:
    return not any(isinstance(size, torch.SymInt) for size in value.shape)


def _value(node: Node) -> torch.Tensor:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


__all__ = ["rows_in_parts"]
