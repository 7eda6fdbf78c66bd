"""Draws of a key, which the levels above `loops` name as they name an operator's.

    %key = aten.call "cuesta::random_key.default"(device = torch.device("cuda:0")) : () -> tensor<1xi64>
    %mask = aten.call "cuesta::bernoulli.default"(%key, [4, 1000], 0.9, 1) : (tensor<1xi64>) -> tensor<4x1000xi1>

The key is random: one i64 of torch's default generator of the device. All that is drawn of it is a function of it, of the
number of the draw and of an element's place; two graphs that are given one key draw the same.

    number k · pieces + q of draw d  ←  word k of philox(key, counter = d · 2^40 + q),  q in [0, pieces)

with pieces a quarter of the elements, rounded up to a multiple of 64 (of one element, 1). What they mean:
`targets/reference/keyed_draws.py`; how they are lowered: `lowering/aten/random_numbers.py`.
"""

from __future__ import annotations

from typing import Final

RANDOM_KEY: Final = "cuesta::random_key.default"
BERNOULLI: Final = "cuesta::bernoulli.default"

DRAW: Final = 1 << 40
"""How far the counters of draws are apart."""
TOGETHER: Final = 64
"""What the number of pieces is a multiple of: each quarter begins at a vector's boundary."""
