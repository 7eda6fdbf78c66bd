"""From what PyTorch hands over to `aten`: decompositions, operators kept whole, FX graphs, sizes."""
