"""Draws of a key (`dialects/core/keyed_draws.py`): what they mean, and as operators of torch's, which a captured graph
holds, and which run where a graph runs in eager.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from cuesta.dialects.core.keyed_draws import BERNOULLI, DRAW, IN_A_CALL, RANDOM_KEY
from cuesta.dialects.elem.ops import WORD_ROUNDS
from cuesta.targets.reference.random_numbers import philox


def random_key(*, device: torch.device | None = None) -> Tensor:
    """One i64 of torch's default generator of a device."""
    return torch.randint(-(1 << 63), (1 << 63) - 1, (1,), dtype=torch.int64, device=device)


def bernoulli(key: Tensor, size: Sequence[int], p: float, draw: int) -> Tensor:
    """Bools of these sizes, each true with the probability `p`."""
    *outer, columns = size or (1,)
    rows, calls = math.prod(outer), -(-columns // IN_A_CALL)
    counters = torch.arange(rows * calls, dtype=torch.int64, device=key.device) + draw * DRAW
    words = torch.stack(philox(key, counters, WORD_ROUNDS), -1).view(rows, calls * IN_A_CALL)[:, :columns]
    return (words < math.ceil(p * 2**32)).reshape(list(size))


KEYED_DRAWS: Final[Mapping[str, Callable[..., Tensor]]] = {RANDOM_KEY: random_key, BERNOULLI: bernoulli}
"""By overload."""


@functools.cache
def define_operators() -> Any:
    """Lets torch know the operators `torch.ops.cuesta.random_key` and `torch.ops.cuesta.bernoulli`; gives what holds
    their definitions.
    """
    library: Any = torch.library.Library("cuesta", "FRAGMENT")
    library.define("random_key(*, Device? device=None) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
    library.define("bernoulli(Tensor key, SymInt[] size, float p, int draw) -> Tensor")
    library.impl("random_key", random_key, "CompositeExplicitAutograd")
    library.impl("bernoulli", bernoulli, "CompositeExplicitAutograd")
    return library


__all__ = ["KEYED_DRAWS", "bernoulli", "define_operators", "random_key"]
