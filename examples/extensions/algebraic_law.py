"""A law of algebra, from which a rewrite and its proof come: of two numbers scaled alike the greater is scaled."""

import torch

from cuesta.extend import Extension, algebra, prove

x, y = algebra.variables("x", "y")
(c,) = algebra.constants("c")

# Rounding keeps the order, so that this is exact; a factor below zero would turn it round, infinity makes NaN of 0.
scale_once = algebra.Law(
    "scale-the-greater",
    algebra.maximum(x * c, y * c),
    algebra.maximum(x, y) * c,
    "f",
    where=(c > 0.0) & (c < float("inf")),
    either_zero=True,
)
extension = Extension("scale-once", rules=[scale_once])

if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    proof = prove(scale_once, effort=0.01)
    print(f"{scale_once} holds for {sum(proof.tried.values())} operands of {len(proof.tried)} types")

    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.maximum(a * 3, b * 3)

    with tempfile.TemporaryDirectory() as folder:
        a, b = torch.randn(2, 64)
        options: dict = {"extensions": [extension], "dump": folder}
        compiled = torch.compile(model, backend="cuesta", options=options)
        assert torch.equal(compiled(a, b), model(a, b))
        text = next(Path(folder).glob("*/*_canonicalize.mlir")).read_text()
        print(f"{text.count('elem.mul')} product is left")
