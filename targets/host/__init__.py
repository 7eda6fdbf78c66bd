"""The host target: `host.func` → a readable Python wrapper."""
