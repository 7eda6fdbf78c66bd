"""An algebraic rule: e^x · e^y = e^(x + y), one exponential less; an equation, from which the rewrite comes."""

from functools import partial

import torch

from cuesta.extend import Extension, algebra

x, y = algebra.variables("x", "y")
exp = partial(algebra.apply, "exp")

extension = Extension(
    "exponents",
    rules=[
        algebra.Law(
            "product-of-exponentials",
            exp(x) * exp(y),
            exp(x + y),
            kinds="f",
            exact=False,
            note="e^x or e^y may overflow, or be 0, where their product does not: then this is the better answer",
        )
    ],
)

if __name__ == "__main__":
    options: dict = {"extensions": [extension]}
    a, b = torch.tensor([1.0, 100.0]), torch.tensor([2.0, -99.0])
    print(torch.compile(lambda a, b: a.exp() * b.exp(), backend="cuesta", options=options)(a, b), a.exp() * b.exp())
