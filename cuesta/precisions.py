"""What torch's settings allow products and convolutions of f32 to be rounded to on CUDA devices.

Torch has two ways to say it, an older and a newer one, and the older ones cannot be asked once both were used: so the
newer ones are, which the older ones set, too.
"""

from __future__ import annotations

from typing import Any


def tf32_of_products() -> bool:
    """Whether factors of products of matrices may be rounded to TF32."""
    import torch

    return torch.backends.cuda.matmul.fp32_precision == "tf32"


def tf32_of_convolutions() -> bool:
    """Whether what convolutions multiply may be; by default it may.

    That says what the library may do, which rounds to nearest. Our contractions cut off (`kernel.contract`), which is
    twice as far off, and always to the same side: so they ask that products may be, too, which somebody has to say.
    """
    import torch

    library: Any = torch.backends.cudnn
    return library.conv.fp32_precision == "tf32"


__all__ = ["tf32_of_convolutions", "tf32_of_products"]
