"""Every `_foreach_*` overload that torch has: taken apart into the operators of one tensor, which are generated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from cuesta.lowering.capture.fx_foreach import of_each


def overloads() -> Iterator[Any]:
    """Those that AOTAutograd hands over: that write to nothing."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):  # pyright: ignore[reportPrivateUsage]
        if name.startswith("aten::_foreach_"):
            packet, _, overload = name.removeprefix("aten::").partition(".")
            found = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if not found._schema.is_mutable:
                yield found


OVERLOADS = list(overloads())
UNKNOWN_TO_TRACING = {"aten._foreach_addcdiv.Tensor", "aten._foreach_addcmul.Tensor"}
"""They read the elements of a tensor on the host, which no tensor of a trace has: PyTorch refuses to trace them."""
LIBRARY = {"aten._foreach_mm.default": "aten.mm.default"}


def arguments_of(schema: Any) -> list[Any]:
    """Something for every argument that has to be given, and for those that have a default."""
    generator = torch.Generator().manual_seed(0)

    def matrices() -> list[torch.Tensor]:
        return [torch.rand(size, size, generator=generator) + 0.25 for size in (3, 1, 2)]

    makers: dict[str, Any] = {
        "List[Tensor]": matrices,
        "List[number]": lambda: [0.75, 2, 0.25],
        "Tensor": lambda: torch.tensor(0.625),
        "number": lambda: 3,
    }
    return [makers[kind]() for argument in schema.arguments if (kind := str(argument.type)) in makers]


def test_there_is_one_of_each() -> None:
    """What is left to eager has its name here: none that can arrive."""
    assert len(OVERLOADS) > 70
    assert {str(one) for one in OVERLOADS if of_each(one) is None} == UNKNOWN_TO_TRACING
    assert of_each(torch.ops.aten._foreach_add_.Scalar) is None
    assert of_each(torch.ops.aten.add.Scalar) is None


@pytest.mark.parametrize("overload", [one for one in OVERLOADS if of_each(one) is not None], ids=str)
def test_each_is_taken_apart_and_generated(lower: Any, overload: Any) -> None:
    arguments = arguments_of(overload._schema)
    keywords = {
        argument.name: arguments.pop() for argument in overload._schema.arguments if str(argument.name) == "alpha"
    }
    tensors = [one for one in tree_leaves(arguments) if isinstance(one, torch.Tensor)]

    def function(*inputs: torch.Tensor) -> Any:
        remaining = iter(inputs)
        given = tree_map_only(torch.Tensor, lambda _: next(remaining), arguments)
        return overload(*given, **keywords)

    library = LIBRARY.get(str(overload))
    lower(function, *tensors, externs=(library,) * 3 if library else ())


def test_tensors_that_torch_cannot_trace() -> None:
    x = torch.ones(2)
    for name in UNKNOWN_TO_TRACING:
        _, packet, overload = name.split(".")
        function = getattr(getattr(torch.ops.aten, packet), overload)
        with pytest.raises(RuntimeError, match="to be on CPU, got meta"):
            function([x.to("meta")], [x.to("meta")], [x.to("meta")], torch.ones(1, device="meta"))
