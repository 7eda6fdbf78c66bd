"""`loops` to `kernel` to `host`: a scheduled nest as a kernel, and values as buffers."""
