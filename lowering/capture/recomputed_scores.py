"""What lies between two products is computed again in the backward pass, and not saved: queries × keys of it.

    s = bmm(q, k);  p = softmax(f(s));  o = bmm(p, v);            h = bmm(g, v.T);  … sum(p · h) … p …
    →
    s = bmm(q, k);  m = amax(f(s));  l = sum(exp(f(s) - m));  o = bmm(exp(f(s) - m) / l, v);  c = m + log(l)
    with c saved, s computed again, exp(f(s) - c) for p, and sum(g · o) for sum(p · h)

That is worth it where both products and what is between them become one kernel (`join-products`), forward and
backward, so that a tile of scores costs a product of a tile and no memory. It is decided before the graph is divided:
neither half sees what the other will do. Nodes are only marked, as `torch.utils.checkpoint` marks them; PyTorch's
partitioner does the rest.

A draw of random numbers that lies between is drawn again: it becomes a function of a key, which is one number and is
saved (`keyed_draws.py`).

Three rewrites of the joint graph, each a law:

    a softmax     is written out in its reductions, which are saved: exp(x - m) / l, and in the backward pass
                  exp(x - (m + log(l))), which divides nothing
    exchange      Σ_j p[i, j] · (Σ_d g[i, d] · v[j, d]) = Σ_d g[i, d] · (Σ_j p[i, j] · v[j, d]): what a softmax's
                  gradient subtracts is a sum over what has been computed, not over the scores. So it is where the
                  weights are a product of p and other factors (a mask, a scale), which h is multiplied by, too
    take out      p · h - p · t = p · (h - t): one multiplication less, and p is only ever a factor

What is computed again is a rounding apart from what it was: nobody may ask whether it is equal to something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

import torch
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.dialects.core.devices import traits_of_device
from cuesta.lowering.capture.inserting import NodeWriter
from cuesta.lowering.capture.keyed_draws import IsKeyed, Keys, has_key, is_draw, no_keys

_aten = torch.ops.aten

_PRODUCT: Final = _aten.bmm.default
"""Of a batch: the gradient of a matrix of weights would walk along all that a model is given, in few programs."""
_SOFTMAX: Final = _aten._softmax.default
_VIEWS: Final = (
    _aten.view.default,
    _aten._unsafe_view.default,
    _aten.reshape.default,
    _aten.expand.default,
    _aten.unsqueeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.permute.default,
    _aten.transpose.int,
    _aten.t.default,
    _aten.alias.default,
    _aten.detach.default,
)
_OF_ROWS: Final = (
    _aten.view.default,
    _aten.expand.default,
    _aten._unsafe_view.default,
    _aten.alias.default,
    _aten.detach.default,
)
"""The views among them that keep rows, where the sizes say so."""
_COPIES: Final = (_aten._to_copy.default, _aten.clone.default)
_READS: Final = (_aten.index.Tensor, _aten.embedding.default, _aten.gather.default)
"""Of a table, by indices: what is read is read again, as a bias for each distance between a query and a key."""
_SUMS: Final = (_aten.sum.dim_IntList, _aten.amax.default)
_EQUALITIES: Final = (_aten.eq.Tensor, _aten.eq.Scalar, _aten.ne.Tensor, _aten.ne.Scalar)
_LOGARITHM: Final = "cuesta, saved in the place of what it is made of"
"""Marks a node in its metadata."""
_SAVED: Final = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_AGAIN: Final = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_NARROW: Final = (torch.bfloat16, torch.float16)
_WIDEST: Final = 256
"""The most columns of a factor: those that `join-products` takes."""
_LEAST: Final = 64
"""The fewest rows and columns between two products.

Source: a bound: fewer are small beside what else is saved.
"""


def has_matrix_units(device: torch.device) -> bool:
    """Whether products on a device may be kernels of ours."""
    return traits_of_device(str(device)).contractions


def recompute_scores(gm: GraphModule, results: int, keyed: IsKeyed = no_keys) -> int:
    """Rewrites and marks a joint graph in place, metadata included; says between how many products. The first of what
    it returns are `results`, the rest are gradients. On devices that are `keyed` draws become those of a key where they
    are to be drawn again: there, and where a checkpoint of the user's says so.
    """
    graph = gm.graph
    keys = Keys(graph)
    if keyed is not no_keys:
        again = [one for one in graph.nodes if one.meta.get("recompute") in _AGAIN and is_draw(one)]
        keys.instead_of_draws([one for one in again if keyed(_value(one).device)])
    products = list(graph.find_nodes(op="call_function", target=_PRODUCT))
    if len(products) < 2:
        return 0
    visible = _results(graph, results)
    forward = _made_for(visible)
    found = 0
    for last in products:
        if last in forward and (between := _between(last, forward, visible, keyed)) is not None:
            if all(user in forward for node in between for user in node.users):
                continue
            found += 1
            between = keys.instead_of_draws(between)
            forward.update(between)
            for node in between:
                node.meta["recompute"] = CheckpointPolicy.MUST_RECOMPUTE
            _exchange(graph, last, forward)
            for node in between:
                if node.target is _SOFTMAX:
                    _write_out(graph, node, between, forward)
            _save_what_is_small(between)
    return found


def key_draws(gm: GraphModule, keyed: IsKeyed) -> int:
    """Makes draws of a graph without a backward pass, in place, those of a key, where they lie between products that
    may become one kernel; says how many.
    """
    if keyed is no_keys:
        return 0
    graph = gm.graph
    keys = Keys(graph)
    products = list(graph.find_nodes(op="call_function", target=_PRODUCT))
    visible = _results(graph, len(tree_leaves(graph.output_node().args)))
    for last in products:
        if (between := _between(last, set(graph.nodes), visible, keyed)) is not None:
            keys.instead_of_draws(between)
    return keys.draws


def _results(graph: Graph, count: int) -> set[Node]:
    """The first results."""
    results = cast("list[object]", tree_leaves(graph.output_node().args))[:count]
    return {one for one in results if isinstance(one, Node)}


def _made_for(results: set[Node]) -> set[Node]:
    """Results, and the nodes that they are made of."""
    work = [*results]
    found = set[Node]()
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            work += node.all_input_nodes
    return found


def _between(last: Node, forward: set[Node], visible: set[Node], keyed: IsKeyed) -> list[Node] | None:
    """The nodes as large as the left factor of a product, from products on, in order; None where they had better be
    saved: nothing but what is done element by element and along a row, or drawn, may stand there, nobody else may want
    it in the forward pass, all sizes are known, and no policy of the user's says that something of it is saved.
    """
    left = cast("Node", last.args[0])
    if not _is_large(left) or (value := _value(last)).shape[-1] > _WIDEST or value.dtype not in _NARROW:
        return None
    if not has_matrix_units(value.device):
        return None
    size = _value(left).numel()
    inside, work = dict[Node, None](), [left]
    products = 0
    while work:
        node = work.pop()
        if node in inside or node.op != "call_function":
            continue
        if not _is_static(node) or node.meta.get("recompute") in _SAVED:
            return None
        if _value(node).numel() < size and not _is_reduction_of(node, size):
            continue
        inside[node] = None
        if node.target is _PRODUCT:
            products += 1
            if _value(cast("Node", node.args[0])).shape[-1] > _WIDEST or _value(node).dtype not in _NARROW:
                return None
        elif _is_elementwise(node) or _is_reduction_of(node, size) or _is_softmax_of_rows(node):
            work += node.all_input_nodes
        elif not (is_draw(node) and keyed(value.device)) and not has_key(node):
            return None
    if not products:
        return None
    for node in inside:
        if node in visible or any(user in forward and user is not last and user not in inside for user in node.users):
            return None
        if _is_compared(node):
            return None
    return sorted(inside)


def _is_compared(node: Node) -> bool:
    """Whether somebody asks whether elements are equal to something: computed again they are a rounding apart."""
    work, seen = [node], set[Node]()
    while work:
        for user in work.pop().users:
            if user.target in _EQUALITIES:
                return True
            if (user.target in _VIEWS or user.target in _COPIES) and user not in seen:
                seen.add(user)
                work.append(user)
    return False


def _is_static(node: Node) -> bool:
    """Whether a node gives one tensor, of sizes that are known: to ask for another's would guard them."""
    value = _value_or_none(node)
    return value is not None and not any(isinstance(size, torch.SymInt) for size in value.shape)


def _is_large(node: Node) -> bool:
    return _is_static(node) and _value(node).dim() > 1 and min(_value(node).shape[-2:]) >= _LEAST


def _is_elementwise(node: Node) -> bool:
    target = node.target
    if target in _VIEWS or target in _COPIES or target in _READS:
        return True
    if not isinstance(target, OpOverload):  # `getitem`, or a body of a control flow
        return False
    return torch.Tag.pointwise in target.tags and torch.Tag.nondeterministic_seeded not in target.tags


def _is_reduction_of(node: Node, size: int) -> bool:
    """Along rows of what is large."""
    if node.target not in _SUMS:
        return False
    of = cast("Node", node.args[0])
    dims: Any = node.args[1] if len(node.args) > 1 and node.args[1] is not None else ()
    return _is_static(of) and _value(of).numel() == size and list(dims) in ([-1], [_value(of).dim() - 1])


def _is_softmax_of_rows(node: Node) -> bool:
    return node.target is _SOFTMAX and node.args[1] in (-1, _value(node).dim() - 1)


def _value_or_none(node: Node) -> torch.Tensor | None:
    value = node.meta.get("val")
    return value if isinstance(value, torch.Tensor) else None


def _value(node: Node) -> torch.Tensor:
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


def _save_what_is_small(between: Sequence[Node]) -> None:
    """Of the results along rows, which those who compute again read."""
    for node in between:
        if node.target in _SUMS:
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _write_out(graph: Graph, softmax: Node, between: Sequence[Node], forward: set[Node]) -> None:
    """softmax(x) -> exp(x - m) / l with m = amax(x) and l = sum(exp(x - m)), in f32; and for the backward pass, of what
    is saved, exp(x - (m + log(l))).
    """
    write = NodeWriter(graph, softmax, CheckpointPolicy.MUST_RECOMPUTE)
    save = NodeWriter(graph, softmax, CheckpointPolicy.MUST_SAVE)
    x = write.as_f32(cast("Node", softmax.args[0]))
    greatest = save(_aten.amax.default, x, [-1], True)
    weights = write(_aten.exp.default, write(_aten.sub.Tensor, x, greatest))
    total = save(_aten.sum.dim_IntList, weights, [-1], True)
    result = write.of_type(write(_aten.div.Tensor, weights, total), _value(softmax).dtype)
    logarithm = write(_aten.add.Tensor, greatest, write(_aten.log.default, total))
    logarithm.meta[_LOGARITHM] = True
    again = write(_aten.exp.default, write(_aten.sub.Tensor, x, logarithm))
    copies = {softmax: write.of_type(again, _value(softmax).dtype)}
    for node in between:
        if node not in copies and any(one in copies for one in node.all_input_nodes):
            with graph.inserting_after(node):
                copies[node] = graph.node_copy(node, lambda one: copies.get(one, one))
    copied = set(copies.values())
    for node, copy in copies.items():
        node.replace_all_uses_with(copy, delete_user_cb=lambda user: user not in forward and user not in copied)
    softmax.replace_all_uses_with(result)
    graph.erase_node(softmax)


def save_logarithms(forward: GraphModule, backward: GraphModule) -> None:
    """Lets a forward pass hand on m + log(l) in the place of m and l, where its backward pass needs nothing else of
    them: the partitioner saves nothing that no result of the forward pass is made of. In place.
    """
    for total in [node for node in backward.graph.nodes if node.meta.get(_LOGARITHM)]:
        greatest, logarithm = (cast("Node", one) for one in total.args)
        exponentials = cast("Node", logarithm.args[0])
        chain = (greatest, logarithm, exponentials)
        if any(len(one.users) > 1 for one in chain) or greatest.op != "placeholder" or exponentials.op != "placeholder":
            continue
        output = forward.graph.output_node()
        results = list(cast("Sequence[Any]", output.args[0]))
        names = [one.name if isinstance(one, Node) else "" for one in results]
        if names.count(greatest.name) != 1 or names.count(exponentials.name) != 1:
            continue
        kept, gone = names.index(greatest.name), names.index(exponentials.name)
        with forward.graph.inserting_before(output):
            copies = dict(zip((greatest, exponentials), (results[kept], results[gone]), strict=True))
            copies[logarithm] = forward.graph.node_copy(logarithm, copies.__getitem__)
            results[kept] = forward.graph.node_copy(total, copies.__getitem__)
        for values in (results, output.meta.get("desc")):
            if isinstance(values, list):
                del values[gone]
        output.args = (tuple(results),)
        with backward.graph.inserting_before(greatest):
            saved = backward.graph.placeholder(results[kept].name)
        saved.meta = dict(greatest.meta)
        total.replace_all_uses_with(saved)
        for one in (total, *chain):
            backward.graph.erase_node(one)
        forward.recompile()
        backward.recompile()


def _exchange(graph: Graph, last: Node, forward: set[Node]) -> None:
    """sum(p · a · bmm(g, v.T), -1) -> sum(g · bmm(p · a, v), -1), where `last` is bmm(p · a, v)."""
    weights, values = (cast("Node", one) for one in last.args[:2])
    for product in graph.find_nodes(op="call_function", target=_PRODUCT):
        if product in forward or not _is_transposed(cast("Node", product.args[1]), values):
            continue
        given = cast("Node", product.args[0])
        for total in _sums_of_product(product, weights):
            write = NodeWriter(graph, total)
            elements = write(_aten.mul.Tensor, write.as_f32(given), write.as_f32(last))
            new = write(_aten.sum.dim_IntList, elements, [-1], True)
            new = write.of_type(new, _value(total).dtype)
            if _value(new).shape != _value(total).shape:
                new = write(_aten.view.default, new, list(_value(total).shape))
            total.replace_all_uses_with(new)
            graph.erase_node(total)
            _take_out(graph, new)


def _take_out(graph: Graph, total: Node) -> None:
    """g · p - p · total -> p · (g - total)"""
    for product in [one for one in total.users if one.target is _aten.mul.Tensor]:
        p = next((one for one in product.args[:2] if isinstance(one, Node) and one is not total), None)
        for difference in list(product.users):
            if difference.target is not _aten.sub.Tensor or difference.kwargs or difference.args[1] is not product:
                continue
            first = difference.args[0]
            if not isinstance(first, Node) or first.target is not _aten.mul.Tensor or p not in first.args[:2]:
                continue
            given = first.args[1] if first.args[0] is p else first.args[0]
            write = NodeWriter(graph, difference)
            new = write(_aten.mul.Tensor, p, write(_aten.sub.Tensor, given, total))
            if _value(new).shape != _value(difference).shape or _value(new).dtype != _value(difference).dtype:
                continue
            difference.replace_all_uses_with(new)
            for old in (difference, product, first):
                if not old.users:
                    graph.erase_node(old)


def _factors(node: object, size: int) -> Counter[object] | None:
    """What is multiplied, element by element, to give one of so many elements; None where a factor is no number, and
    not as large: it might lie otherwise in another product.
    """
    if isinstance(node, int | float):
        return Counter([float(node)])
    if not isinstance(node, Node) or _value(node).numel() != size:
        return None
    node = _origin(node)
    if node.target is _aten._to_copy.default and _value(cast("Node", node.args[0])).dtype == torch.bool:
        node = _origin(cast("Node", node.args[0]))  # 1 and 0, in whatever type
    if node.target is not _aten.mul.Tensor:
        return Counter([node])
    left, right = (_factors(one, size) for one in node.args[:2])
    return None if left is None or right is None else left + right


def _origin(node: Node) -> Node:
    """What a node is a view, a copy or another rounding of, row by row."""
    while node.op == "call_function":
        source = node.args[0] if node.args else None
        if not isinstance(source, Node) or (value := _value_or_none(source)) is None:
            return node
        if node.target is _aten._to_copy.default:
            if not value.dtype.is_floating_point:
                return node
        elif node.target in _OF_ROWS:
            if value.numel() != _value(node).numel() or value.shape[-1:] != _value(node).shape[-1:]:
                return node
        elif node.target is not _aten.clone.default:
            return node
        node = source
    return node


def _is_transposed(node: Node, of: Node) -> bool:
    if not node.args or node.args[0] is not of:
        return False
    if node.target is _aten.permute.default:
        return [dim % 3 for dim in cast("Sequence[int]", node.args[1])] == [0, 2, 1]
    return node.target is _aten.transpose.int and sorted(cast("int", dim) % 3 for dim in node.args[1:3]) == [1, 2]


def _sums_of_product(product: Node, weights: Node) -> list[Node]:
    """The sums along rows of what a product is times the factors of the weights."""
    size = _value(product).numel()
    if (expected := _factors(weights, size)) is None or product in expected:
        return []
    expected[product] += 1
    found: list[Node] = []
    work, seen = [product], set[Node]()
    while work:
        node = work.pop()
        for user in node.users:
            if user in seen:
                continue
            seen.add(user)
            if user.target is _aten.mul.Tensor:
                factors = _factors(user, size)
                if factors is None or factors - expected:
                    continue  # there is more than what is expected already
                if factors != expected:
                    work.append(user)
                    continue
                for total in user.users:
                    if total.target is not _aten.sum.dim_IntList or not cast("Any", (*total.args, False, False))[2]:
                        continue
                    if _is_reduction_of(total, size):
                        found.append(total)
            elif user.op == "call_function" and _origin(user) is _origin(node) and _value(user).numel() == size:
                work.append(user)
    return found


__all__ = ["has_matrix_units", "key_draws", "recompute_scores", "save_logarithms"]
