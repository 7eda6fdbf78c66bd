"""From the kernels of a module to what the wrapper launches."""

from __future__ import annotations

from collections.abc import Mapping

from cuesta.targets.program import DeviceKernel, KernelText
from cuesta.targets.triton.compilation import compile_kernel, require_triton
from cuesta.targets.triton.driver import architecture_of


def compile_launches(
    kernels: Mapping[str, KernelText], launches: Mapping[str, tuple[str, int]]
) -> tuple[DeviceKernel, ...]:
    """Compiles the kernels that are launched; `launches` gives for every name in the wrapper the kernel and the device.

    Errors: TritonMissingError.
    """
    require_triton()
    return tuple(
        DeviceKernel(name, device, kernels[kernel], compile_kernel(kernels[kernel], architecture_of(device)))
        for name, (kernel, device) in launches.items()
    )
