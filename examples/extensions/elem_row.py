"""A new scalar op, `elem.fma`, in LLVM, Triton and the reference, and a lowering that uses it in the place of ours."""

import torch

from cuesta.extend import Extension, Row, Scalar, function, pointwise

FMA = Row(
    name="fma",
    arity=3,
    kinds="f",
    reference="a * b + c",
    triton="tl.fma({a}, {b}, {c})",
    llvm={"f": "{r} = call {t} @llvm.fma.{s}({t} {a}, {t} {b}, {t} {c})"},
    ulp=1.0,  # of the exact a · b + c; eager rounds twice
)


def addcmul(x: Scalar, a: Scalar, b: Scalar, value: float) -> Scalar:
    return function("fma", a if value == 1 else a * value, b, x)


extension = Extension("fma", elem=[FMA], lowerings={"aten.addcmul.default": pointwise(addcmul)})

if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        options: dict = {"extensions": [extension], "dump": folder}
        x, a, b = torch.randn(3, 64)
        compiled = torch.compile(torch.addcmul, backend="cuesta", options=options)
        torch.testing.assert_close(compiled(x, a, b), torch.addcmul(x, a, b))
        text = next(Path(folder).glob("*/kernels.ll")).read_text()
        print(next(line for line in text.splitlines() if "llvm.fma" in line))
