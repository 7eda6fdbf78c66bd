"""What eager does when it runs a case: the proofs that exclusions ask for, in the place of a look at the text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.fuzz.calls.case import Case

REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, AttributeError, AssertionError, KeyError)
"""What a call that does not fit may raise. (`NotImplementedError` is a RuntimeError.)"""


def is_known_leaf(tensor: Tensor) -> bool:
    """Whether autograd knows a tensor as a leaf. It raises where it is asked about a view that was made without
    gradients and whose base was written to with them.
    """
    try:
        return tensor.is_leaf
    except RuntimeError:
        return False


def eager_calls(case: Case, names: tuple[str, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The arguments and the results of every operator with one of these names that a case's calls run in eager."""
    seen = _Calls(lambda func: str(getattr(func, "overloadpacket", "")).removeprefix("aten.") in names)
    for _ in _results(case, seen):
        yield from ((given, result) for _, given, _, result in seen.found)
        seen.found.clear()


def has_size_said_otherwise(case: Case) -> bool:
    """Whether a result of an operator has another size in eager than PyTorch's metadata function says."""
    calls = _Calls(lambda func: isinstance(func, OpOverload))
    for _ in _results(case, calls):
        for func, given, named, result in calls.found:
            tensors = [one for one in tree_leaves((given, named, result)) if isinstance(one, Tensor)]
            if not all(type(one) is Tensor for one in tensors):
                continue
            said, results = _said(func, given, named), tree_leaves(result)
            pairs = zip(tree_leaves(said), results, strict=True) if said is not None else ()
            if any(isinstance(one, Tensor) and one.shape != other.shape for one, other in pairs):
                return True
        calls.found.clear()
    return False


def _said(func: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """What PyTorch's metadata function says of a call's result; None where it refuses, or only the data know. (It makes
    no fakes of some views that were written to, of whose history nothing is asked here.)
    """
    given, named = tree_map_only(Tensor, lambda one: one.detach(), (given, named))
    try:
        with FakeTensorMode() as fakes:
            given, named = tree_map_only(Tensor, fakes.from_tensor, (given, named))
            return func(*given, **named)
    except REFUSALS:
        return None


def negative_tensors(case: Case) -> list[Tensor]:
    """What the program is given or gives that has the negative bit."""
    given = [one for values in _results(case, None) for one in tree_leaves(values)]
    return [one for one in given if isinstance(one, Tensor) and one.layout is torch.strided and one.is_neg()]


def _results(case: Case, mode: Any) -> Iterator[Any]:
    """Arguments and outputs of each call that eager accepts; with a mode, arguments of each, whatever became of it: not
    all that eager does can be done in a mode (`torch.cond`), and what was seen before is evidence as well.
    """
    make, program = case.functions()
    for sizes in case.calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                given = make(*sizes)
            except REFUSALS:
                continue
            try:
                with mode or nullcontext():
                    outputs = program(*given[0])
            except (*REFUSALS, TorchDynamoException):
                if mode is None:
                    continue
                outputs = None
        yield given if mode is not None else (given, outputs)


class _Calls(TorchDispatchMode):
    """Remembers calls of some operators."""

    supports_higher_order_operators = True  # what they call runs as it is

    def __init__(self, wanted: Callable[[Any], bool]) -> None:
        super().__init__()
        self.wanted = wanted
        self.found: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []
        """Operators, arguments and results."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _are_subclasses(types):
            return NotImplemented  # the operators on their parts come here
        named = kwargs or {}
        result = func(*args, **named)
        if self.wanted(func):
            self.found.append((func, args, named, result))
        return result


def _are_subclasses(types: Any) -> bool:
    return any(hasattr(one, "__tensor_flatten__") for one in types)


class NoViews(TorchFunctionMode):
    """No tensor says that it is a view; those that do are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.views: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not Tensor._is_view or not result:
            return result
        self.views.append(args[0])
        return False


def asks_views_of_what_is_computed(case: Case) -> bool:
    """Whether a program asks tensors if they are views, and all that are, are views of what it computes: also where a
    tensor subclass computes what its view is to be, and PyTorch calls that a view of it.
    """
    asked = NoViews()
    for values in _results(case, asked):
        given = [one for one in tree_leaves(values) if isinstance(one, Tensor)]
        inputs = {id(base) for one in given for base in (one, one._base)}
        memory = {place for one in given for place in _memory_of(one)}
        if any(id(view._base) in inputs and not memory.isdisjoint(_memory_of(view)) for view in asked.views):
            return False
    return bool(asked.views)


def _memory_of(tensor: Any) -> set[int]:
    """Where the memory of a tensor begins, or that of its parts."""
    if not isinstance(tensor, Tensor):  # a mesh
        return set()
    if not hasattr(tensor, "__tensor_flatten__"):
        return {tensor.untyped_storage().data_ptr()}
    names, _ = cast("Any", tensor).__tensor_flatten__()
    return {place for name in names for place in _memory_of(getattr(tensor, name))}


class _Corrected(TorchDispatchMode):
    """Eager, put right: of tensor subclasses the operators on their parts."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _are_subclasses(types):
            return NotImplemented
        return self.corrected(func, args, kwargs or {})

    def corrected(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What an operator is to give."""
        raise NotImplementedError


class SignedZeros(_Corrected):
    """−z of complex numbers has the other sign wherever z has a zero, as eager's for elements that fill no vector."""

    def corrected(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if func not in (torch.ops.aten.neg.default, torch.ops.aten.neg_.default) or not args[0].is_complex():
            return func(*args, **named)
        negated = torch.view_as_complex(-torch.view_as_real(args[0].resolve_conj().clone()))
        return func(*args).copy_(negated)


class PlainIntegers(_Corrected):
    """`_int_mm` reads its matrices from copies in rows."""

    def corrected(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if func is torch.ops.aten._int_mm.default:
            args = tuple(one.clone(memory_format=torch.contiguous_format) for one in args)
        return func(*args, **named)


@contextmanager
def saved_as_they_are() -> Iterator[None]:
    """In the `with` block eager saves, in the place of tensors, others that lie in the memory that they have now; also
    within `torch.func`, which otherwise refuses hooks.
    """
    autograd: Any = getattr(torch._C, "_autograd")  # noqa: B009
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda one: one.detach(), lambda one: one)
    with patch.object(autograd, "_saved_tensors_hooks_disable", lambda *_: None), hooks:
        yield


class AsSaid(_Corrected):
    """What an operator of one element gives, lies as PyTorch's metadata function says; of what did not, operators are
    noted.
    """

    def __init__(self, noted: list[Any]) -> None:
        super().__init__()
        self.noted = noted

    def corrected(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        result = func(*args, **named)
        if not isinstance(func, OpOverload) or torch.Tag.pointwise not in func.tags:  # a loop is none
            return result
        if func._schema.is_mutable or not isinstance(result, Tensor):
            return result
        said = _said(func, args, named)
        if said is None or said.stride() == result.stride() or said.shape != result.shape:
            return result
        self.noted.append(func)
        return torch.empty_strided(said.shape, said.stride(), dtype=result.dtype, device=result.device).copy_(result)


@contextmanager
def bits_resolved() -> Iterator[None]:
    """In the `with` block loops and branches have a kernel for tensors with the negative or the conjugate bit, of which
    eager has none: they are given what such tensors mean. (No mode is asked before a bit is.)
    """
    operators: list[Any] = list(torch._ops._higher_order_ops.values())
    keys = (torch._C.DispatchKey.Negative, torch._C.DispatchKey.Conjugate)
    pairs = [(one, key) for one in operators for key in keys if key not in one.py_kernels]
    kept = [one.non_fallthrough_keys for one, _ in pairs]
    for operator, key in pairs:

        def resolved(*args: Any, _operator: Any = operator, **kwargs: Any) -> Any:
            given = tree_map_only(Tensor, lambda one: one.resolve_neg().resolve_conj(), (args, kwargs))
            return _operator(*given[0], **given[1])

        operator.py_impl(key)(resolved)
    try:
        yield
    finally:
        for (operator, key), keys_before in zip(reversed(pairs), reversed(kept), strict=True):
            del operator.py_kernels[key]
            operator.non_fallthrough_keys = keys_before
            operator._dispatch_cache.clear()


def lies_row_major(value: Any) -> bool:
    """Whether a tensor is contiguous; what is none is so, too."""
    return not isinstance(value, Tensor) or value.is_contiguous()
