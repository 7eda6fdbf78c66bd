"""Random calls of compiled functions with gradients of every layout, and what their gradients are in eager.

    python -m tests.fuzz.gradient_layouts 0 150

draws the calls of so many seeds, and says which are wrong.
"""

from __future__ import annotations

import random
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch import config
from torch.nn import functional as F

from cuesta import gradient_layouts
from tests.support.differential import compiled_of

Program = Callable[[Tensor, Tensor], Any]


def updated(x: Tensor, w: Tensor) -> Tensor:
    z = x * 1
    z.mul_(w)
    x.mul_(2)
    return z


PROGRAMS: dict[str, Program] = {
    "a product": lambda x, w: x * w + 1,
    "a copy": lambda x, w: x.clone(),
    "a root": lambda x, w: (x * x + w * w + 1).sqrt(),
    "a softmax": lambda x, w: (x * w).softmax(1),
    "a norm": lambda x, w: F.layer_norm(x * w, x.shape[-1:]),
    "sums": lambda x, w: (x * w).sum(1),
    "running sums": lambda x, w: (x * w).cumsum(-1),
    "a permutation": lambda x, w: (x * w).permute(*range(1, x.dim()), 0),
    "a view": lambda x, w: (x * w).flatten(0, 1),
    "a matrix product": lambda x, w: x.sin() @ w.cos().mT,
    "a part": lambda x, w: (x * w).narrow(1, 0, 2),
    "parts": lambda x, w: torch.cat([x * w, w.sin()], 1),
    "chosen": lambda x, w: (x * w)[:, torch.tensor([1, 0, 1])],
    "two results": lambda x, w: (x * w, w.sin().mT),
    "an update": updated,
    "maxima": lambda x, w: (x * w).amax(-1),
    "one more axis": lambda x, w: (x * w)[:, None],
}
SHAPES = ((2, 3, 4, 5), (4, 3), (2, 3, 1, 4), (1, 3, 4), (2, 2, 3, 2, 3))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)


def drawn(chance: random.Random, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A gradient that lies in some way."""
    rank = len(shape)
    match chance.choice(["rows", "order", "one", "expanded", "part", "every second", "behind", "ones", "bits"]):
        case "rows":
            return torch.randn(*shape, dtype=dtype)
        case "order":
            order = chance.sample(range(rank), rank)
            made = torch.randn([shape[axis] for axis in order], dtype=dtype)
            return made.permute([order.index(axis) for axis in range(rank)])
        case "one":
            return torch.randn((), dtype=dtype).expand(shape)
        case "expanded":
            kept = [size if chance.random() < 0.5 else 1 for size in shape]
            return drawn_order(chance, kept, dtype).expand(shape)
        case "part":
            axis = chance.randrange(rank)
            made = torch.randn([size * 2 if k == axis else size for k, size in enumerate(shape)], dtype=dtype)
            return made.narrow(axis, shape[axis], shape[axis])
        case "every second":
            return torch.randn([size * 2 for size in shape], dtype=dtype)[tuple([slice(None, None, 2)] * rank)]
        case "behind":
            count = torch.Size(shape).numel()
            return torch.randn(count + 3, dtype=dtype)[3:].view(shape)
        case "ones":
            made = torch.randn(*shape, dtype=dtype)
            strides = [7 if size == 1 else stride for size, stride in zip(shape, made.stride(), strict=True)]
            return made.as_strided(made.shape, strides)
        case _:
            if dtype.is_complex:
                return torch.randn(*shape, dtype=dtype).conj()
            if dtype is torch.bfloat16:
                return torch.randn(*shape, dtype=dtype)
            return torch.randn(*shape, dtype=torch.promote_types(dtype, torch.complex64)).conj().imag


def drawn_order(chance: random.Random, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    order = chance.sample(range(len(shape)), len(shape))
    made = torch.randn([shape[axis] for axis in order], dtype=dtype)
    return made.permute([order.index(axis) for axis in range(len(shape))])


def laid(chance: random.Random, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return drawn_order(chance, shape, dtype).requires_grad_()


def gradients(function: Program, x: Tensor, w: Tensor, given: Sequence[Tensor | None], **settings: Any) -> list[Any]:
    x, w = (one.detach().clone().requires_grad_() for one in (x, w))
    results = function(x * 1, w)  # an input that may be updated
    results = results if isinstance(results, tuple) else (results,)
    pairs = [(one, gradient) for one, gradient in zip(results, given, strict=True) if gradient is not None]
    ones, found = zip(*pairs, strict=True)
    return list(torch.autograd.grad(ones, (x, w), found, allow_unused=True, **settings))


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    if actual is None or expected is None:
        assert actual is None or not actual.any()
        assert expected is None or not expected.any()
        return
    digits = {torch.bfloat16: 4e-2, torch.float64: 1e-10}.get(expected.dtype, 2e-5)
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=digits, atol=digits * (1 + float(expected.abs().max())))


@config.patch(donated_buffer=False)  # PyTorch refuses `create_graph` with it
def look(seed: int, change: Callable[[Any, str, Any], None], most: int = 4) -> None:
    """One program, called with gradients of several layouts.

    Errors: AssertionError where they are not as in eager.
    """
    change(gradient_layouts, "LEAST_BYTES", 1)
    change(gradient_layouts, "MOST", most)
    torch.manual_seed(seed)
    torch._dynamo.reset()
    chance = random.Random(seed)
    name = chance.choice([*PROGRAMS])
    program, dtype, dynamic = PROGRAMS[name], chance.choice(DTYPES), chance.choice([None, True])
    shape = chance.choice(SHAPES)
    if dtype.is_complex and name in ("a norm", "a softmax", "maxima", "a root"):
        dtype = torch.float32
    compiled = compiled_of(lambda x, w: program(x, w), dynamic=dynamic)
    x, w = laid(chance, shape, dtype), laid(chance, shape, dtype)
    sizes = [shape] if dynamic is None else [shape, [size + (size > 1) for size in shape]]
    for _ in range(8):
        wanted = chance.choice(sizes)
        if list(wanted) != list(x.shape):
            x, w = laid(chance, wanted, dtype), laid(chance, wanted, dtype)
        with torch.no_grad():
            results = program(x.clone(), w)
        results = results if isinstance(results, tuple) else (results,)
        given: list[Tensor | None] = [drawn(chance, one.shape, dtype) for one in results]
        if len(given) > 1 and chance.random() < 0.4:
            given[chance.randrange(len(given))] = None
        expected = gradients(program, x, w, given)
        actual = gradients(compiled, x, w, given, create_graph=chance.random() < 0.1)
        for one, other in zip(actual, expected, strict=True):
            close(None if one is None else one.detach(), other)


def main() -> None:
    warnings.simplefilter("ignore")
    first, last = map(int, sys.argv[1:3])
    wrong = 0
    for seed in range(first, last):
        try:
            look(seed, setattr)
        except Exception:  # noqa: BLE001 - whatever is wrong with one is told, and the others go on
            wrong += 1
            print(f"seed {seed}\n{traceback.format_exc()[-2000:]}", flush=True)
    print(f"{last - first} seeds, {wrong} wrong")


if __name__ == "__main__":
    main()
