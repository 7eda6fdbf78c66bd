"""Random words as torch draws them itself, one at a time."""

from __future__ import annotations

import torch


def random_words(count: int, bits: int) -> torch.Tensor:
    """`count` words of torch's default generator, of 32 bits each as i32; or of 64 as i64, the first word of two in the
    lower half.

    torch has no draw of a single word that keeps all of it. Of two it has: integers of 64 bits, the first word above.
    """
    words = count * (bits // 32)
    pairs = torch.empty(words // 2, dtype=torch.int64).random_(-(1 << 63), None)
    if words % 2:  # the last word is the first of two that a copy of the generator draws
        copy = torch.Generator()
        copy.set_state(torch.default_generator.get_state())
        pairs = torch.cat([pairs, torch.empty(1, dtype=torch.int64).random_(-(1 << 63), None, generator=copy)])
        torch.rand(1)
    drawn = pairs.view(torch.int32).view(-1, 2).flip(1).reshape(-1)[:words]
    return drawn if bits == 32 else drawn.view(torch.int64)
