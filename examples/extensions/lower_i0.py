"""The lowering of an ATen overload, in the place of ours: `torch.special.i0`, the modified Bessel function I₀.

Shorter polynomials than ours, good to 2e-7.
"""

import torch

from cuesta.extend import Extension, Scalar, decline, exp, pointwise, rsqrt, where

# Abramowitz and Stegun, 9.8.1 and 9.8.2: |error| < 1.6e-7, and relative error < 1.9e-7.
SMALL = (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813)
LARGE = (0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706, 0.02635537, -0.01647633, 0.00392377)


def polynomial(x: Scalar, coefficients: tuple[float, ...]) -> Scalar:
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def i0(x: Scalar) -> Scalar:
    if str(x.type) != "f32":
        decline("the polynomials are good for f32, f16 and bf16")
    size = abs(x)
    near = polynomial((size / 3.75) * (size / 3.75), SMALL)
    far = exp(size) * rsqrt(size) * polynomial(3.75 / size, LARGE)
    return where(size < 3.75, near, far)


extension = Extension("lower-i0", lowerings={"aten.i0.default": pointwise(i0)})

if __name__ == "__main__":
    import cuesta

    options: dict = {"extensions": [extension]}
    x = torch.linspace(-9, 9, 7)
    print(
        torch.compile(lambda x: 1 + torch.special.i0(x), backend="cuesta", options=options)(x), 1 + torch.special.i0(x)
    )
    print(cuesta.records[-1].kernels, "kernel, fallbacks:", dict(cuesta.records[-1].fallbacks))
