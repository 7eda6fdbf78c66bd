"""Draws of a key, which the levels above `loops` name as they name an operator's.

    %key = aten.call "cuesta::random_key.default"(device = torch.device("cuda:0")) : () -> tensor<1xi64>
    %mask = aten.call "cuesta::bernoulli.default"(%key, [4, 1001], 0.9, 1) : (tensor<1xi64>) -> tensor<4x1001xi1>

The key is random: one i64 of torch's default generator of the device. All that is drawn of it is a function of it, of
the number of the draw and of an element's place; two graphs that are given one key draw the same.

    element j of row r of draw d  ←  word j mod 4 of philox(key, counter = d · 2^40 + r · ⌈columns / 4⌉ + j div 4)

So four neighbours of a row have one call of Philox, wherever a tile begins at a multiple of four. What they mean:
`targets/reference/keyed_draws.py`; how they are lowered: `lowering/aten/random_numbers.py`.
"""

from __future__ import annotations

from typing import Final

RANDOM_KEY: Final = "cuesta::random_key.default"
BERNOULLI: Final = "cuesta::bernoulli.default"

DRAW: Final = 1 << 40
"""How far the counters of draws are apart."""
IN_A_CALL: Final = 4
"""How many numbers a call of Philox gives. Source: its definition."""
