"""Measurements, side by side with eager and TorchInductor: run as `python -m benchmarks.<name>`."""
