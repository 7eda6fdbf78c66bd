"""An algebraic rule: e^x · e^y = e^(x + y), one exponential less; an equation, from which the rewrite comes."""

import torch

from cuesta.extend import Extension, Law, apply, variables

x, y = variables("x", "y")

extension = Extension(
    "exponents",
    rules=[
        Law(
            "product-of-exponentials",
            apply("exp", x) * apply("exp", y),
            apply("exp", x + y),
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
