"""The call that draws eager's random words on the CPU, which the levels name as they name an operator's.

    %words = loops.extern "cuesta::random_words.default"(1000, 32) : () -> tensor<1000xi32>

It gives so many i32 of torch's default generator of the CPU, or i64, of which each is two words, the first in the lower
half; eager draws on where it ends. What it means: `targets/reference/random_words.py`; what runs:
`targets/host/random_words.py`.
"""

from __future__ import annotations

from typing import Final

RANDOM_WORDS: Final = "cuesta::random_words.default"
