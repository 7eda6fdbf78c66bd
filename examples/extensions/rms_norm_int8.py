"""RMSNorm and its quantisation to int8 as one kernel: a row is read, normalised, measured and rounded."""

import torch

from cuesta.extend import (
    AtenCall,
    Extension,
    LoopBuilder,
    Scalar,
    f32,
    maximum,
    minimum,
    nearest,
    rsqrt,
    sizes_of_value,
)


@torch.library.custom_op("examples::rms_norm_int8", mutates_args=())
def rms_norm_int8(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight
    scale = y.abs().amax(-1).clamp(min=1e-8) / 127.0
    return (y / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale


@rms_norm_int8.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x, dtype=torch.int8), x.new_empty(x.shape[0])


def lower(op: AtenCall, builder: LoopBuilder):
    x, weight, eps = op.tensor("x"), op.tensor("weight"), op.floating("eps")
    rows, columns = sizes_of_value(x)
    with builder.nest([rows], [result.type for result in op.results]) as nest:
        (i,), (quantised, scales) = nest.indices, nest.handles

        def at(j) -> Scalar:
            return builder.load(x, [i, *j])

        squares = builder.reduce("sum", [columns], f32, lambda j: at(j) * at(j))
        norm = rsqrt(squares / builder.constant(columns, f32) + eps)
        largest = builder.reduce("maximum", [columns], f32, lambda j: abs(at(j) * norm * builder.load(weight, j)))
        scale = maximum(largest, 1e-8) / 127.0
        builder.store(scale, scales, [i])
        with builder.loop([columns]) as j:
            y = nearest(at(j) * norm * builder.load(weight, j) / scale)
            builder.store(minimum(maximum(y, -127.0), 127.0), quantised, [i, *j])
    return nest.results


extension = Extension("rms-norm-int8", lowerings={"examples::rms_norm_int8.default": lower})

if __name__ == "__main__":
    import cuesta

    options: dict = {"extensions": [extension]}
    x, weight = torch.randn(64, 512), torch.rand(512)
    compiled = torch.compile(lambda x: rms_norm_int8(x, weight, 1e-6), backend="cuesta", options=options)
    (q, scale), (expected, expected_scale) = compiled(x), rms_norm_int8(x, weight, 1e-6)
    torch.testing.assert_close(scale, expected_scale)
    print("off by one:", (q != expected).sum().item(), "of", q.numel(), "in", cuesta.records[-1].kernels, "kernel")
