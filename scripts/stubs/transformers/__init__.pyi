"""For pyright: what transformers has is Any. Its own types are five thousand files, and a quarter of the time to check."""

from typing import Any

def __getattr__(name: str) -> Any: ...
