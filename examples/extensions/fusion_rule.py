"""A rule of fusion: an exponential is computed again by everyone who reads it, and never kept in memory."""

import torch

from cuesta.extend import Extension, Pair, all_ops, elem, loops


def recompute_exponentials(pair: Pair) -> loops.NestOp | str | None:
    """Ours store what is dear and read more than once; where memory is slow and exp is cheap, that is wrong."""
    dear = [op.row.name for op in all_ops(pair.producer) if isinstance(op, elem.TableOp) and op.row.ulp > 0]
    if dear != ["exp"]:
        return None  # nothing to say: ours decide
    return pair.inline()


extension = Extension("recompute", fusions=[recompute_exponentials])


def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights = x.exp()
    return weights.sum(0), weights.amax(1)


if __name__ == "__main__":
    import cuesta

    options: dict = {"extensions": [extension]}
    x = torch.randn(300, 400)
    for chosen in ({}, options):
        torch.testing.assert_close(torch.compile(model, backend="cuesta", options=chosen)(x), model(x))
        print("with" if chosen else "without", cuesta.records[-1].kernels, "kernels")
