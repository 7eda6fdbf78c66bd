"""An operator of `torch.library`: eager has its Python function, Cuesta makes it part of the kernels around it."""

import torch

from cuesta.extend import Extension, Scalar, pointwise, tanh


@torch.library.custom_op("examples::softcap", mutates_args=())
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.tanh(x / cap) * cap


softcap.register_fake(lambda x, cap: torch.empty_like(x))


def formula(x: Scalar, cap: float) -> Scalar:
    return tanh(x / cap) * cap


extension = Extension("softcap", lowerings={"examples::softcap.default": pointwise(formula)})

if __name__ == "__main__":
    import cuesta

    options: dict = {"extensions": [extension]}
    x = torch.randn(4, 8)
    compiled = torch.compile(lambda x: softcap(x * 3, 2.0).softmax(-1), backend="cuesta", options=options)
    torch.testing.assert_close(compiled(x), softcap(x * 3, 2.0).softmax(-1))
    print(cuesta.records[-1].kernels, "kernel, fallbacks:", dict(cuesta.records[-1].fallbacks))
