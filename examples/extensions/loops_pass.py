"""A pass on `loops` that stores 0 for what is small; on a command line it is `prune-small{below=0.1}`."""

from dataclasses import dataclass

import torch

from cuesta.extend import After, Context, Extension, InsertPoint, ModuleOp, ModulePass, Rewriter, all_ops, elem, loops


@dataclass(frozen=True)
class PruneSmallPass(ModulePass):
    """store v -> store (|v| < below ? 0 : v), for every float that is stored."""

    name = "prune-small"
    below: float = 1e-3

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for store in all_ops(op):
            if not isinstance(store, loops.StoreOp) or elem.kind_of(store.value.type) != "f":
                continue
            value, kind = store.value, store.value.type
            limit, zero = elem.constant(self.below, kind), elem.constant(0.0, kind)
            size = elem.make("abs", value)
            is_small = elem.make("lt", size.result, limit.result)
            pruned = elem.SelectOp.build(is_small.result, zero.result, value)
            Rewriter.insert_op([limit, zero, size, is_small, pruned], InsertPoint.before(store))
            store.operands[0] = pruned.result


extension = Extension(
    "prune",
    passes=[After("fuse-nests", PruneSmallPass(below=0.2), why="only what is stored: the rest keeps its digits")],
)

if __name__ == "__main__":
    options: dict = {"extensions": [extension]}
    compiled = torch.compile(lambda x: (x * 0.5).sin(), backend="cuesta", options=options)
    print(compiled(torch.linspace(-1, 1, 9)))
