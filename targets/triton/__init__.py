"""Kernels on the GPU: `kernel.func` → Triton source → machine code, and its launch."""
