"""A model whose page is tested: repeated layers, a library call, a fallback, and names that would like to be markup."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

import cuesta
from cuesta.explain.model import Explanation

HOSTILE = "</script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"
NAME = "</script> & <b>model</b>"
SOURCE = f"""
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        y = torch.nn.functional.gelu(self.linear(self.norm(x)))  # {HOSTILE}
        return x + y

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleDict({{"first": Layer(), "</script><b>": Layer(), "third": Layer()}})

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return torch.cumprod(torch.softmax(x, -1), 0).sum()
"""


def explained(folder: Path) -> Explanation:
    """What became of the model and its backward pass; its file lies in `folder`."""
    file = folder / "a & <b>.py"
    file.write_text(SOURCE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("explained_model", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model, x = module.Model(), torch.randn(8, 16)
    return cuesta.explain(model, x, training=True, name=NAME)
