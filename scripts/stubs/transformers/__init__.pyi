"""For pyright: whatever transformers has is Any. Its own types are thousands of files, and a quarter of the time."""

from typing import Any

def __getattr__(name: str) -> Any: ...
