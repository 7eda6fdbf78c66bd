"""How much of PyTorch's core operators is generated: `make core-set` prints the fractions, and names the rest.

    make core-set                          all of them: some minutes
    make core-set ARGS="index_put gather"  of these operators only
    make core-set ARGS=--kinds             which operator is of which kind, and nothing else

The core set is every overload of ATen with the tag `torch.Tag.core`. Calls of each are gathered from PyTorch's own
operator database, as eager makes them, gradients included, in every dtype of `DTYPES`; what the database never calls
stands in `calls_by_hand`. Each call is captured alone and lowered to `loops`, for the CPU and, moved there, for a CUDA
device, which need not be there: on either it is generated when nothing of it is left to a library or to eager. An
overload is generated when every one of its calls is: one of which only some are counts as not generated.

Every overload is of one kind (`kind_of`). There are two fractions: of the kinds that nests are for (`OURS`), and of all
overloads, where products, convolutions, sorting and transforms, which belong to libraries, and numbers that Python
reads count as not generated. What asks for the layout of a tensor (`sym_size`) is in neither: it is never a call in
a graph. Complex numbers are counted apart: an overload that is generated of real numbers only counts, and a line of
its own says how many calls of complex numbers are. Other names for the memory of a complex tensor are no calls.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import torch
from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]  # documented there
from torch._functorch.aot_autograd import aot_function
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from xdsl.dialects.builtin import ModuleOp

from benchmarks.on_cuda import on_cuda
from cuesta.backend import Compilers, capturing, drop_aliases
from cuesta.dialects import host, loops
from cuesta.lowering.capture.as_eager import as_eager
from cuesta.lowering.capture.fx_to_program import import_program
from cuesta.lowering.capture.plan import complete_metadata
from cuesta.options import Options
from cuesta.pipeline import default_stages
from cuesta.record import CompileRecord
from cuesta.staging import run_stages
from tests.conformance.harness import NEEDS_DYNAMO

DTYPES: Final = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
TARGETS: Final = ("cpu", "cuda")
SAMPLES: Final = 8
"""Of an operator of the database, in one dtype."""
CALLS: Final = 5
"""Of an overload in one dtype, spread over all that differ."""

KINDS: Final[Mapping[str, str]] = {
    "product": "addmm bmm mm",
    "convolution": "convolution convolution_backward",
    "sort": "sort topk",
    "layout": "sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride",
    "view": "alias as_strided cat diagonal expand flip permute repeat resize_ select slice "
    "split_with_sizes squeeze unsqueeze view",
    "reduction": "_cdist_forward _pdist_forward var",
    "scan": "cumsum",
    "indexing": "_embedding_bag col2im embedding embedding_dense_backward gather grid_sampler_2d index index_put "
    "index_select masked_scatter nonzero scatter scatter_add scatter_reduce select_scatter slice_scatter "
    "upsample_bilinear2d upsample_nearest2d",
    "pooling": "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d adaptive_avg_pool1d avg_pool1d "
    "avg_pool2d avg_pool2d_backward avg_pool3d constant_pad_nd max_pool2d_with_indices "
    "max_pool2d_with_indices_backward max_pool3d_with_indices reflection_pad1d reflection_pad2d reflection_pad3d "
    "replication_pad2d replication_pad3d",
    "norm": "_log_softmax _native_batch_norm_legit _native_batch_norm_legit_no_training _softmax native_group_norm "
    "native_group_norm_backward native_layer_norm native_layer_norm_backward",
    "factory": "_to_copy arange copy empty empty_strided fill full full_like native_dropout rand randn randperm "
    "scalar_tensor",
    "transform": "_fft_c2r _fft_r2c",
    "to the host": "_local_scalar_dense",
}
"""The kinds of those that have no tag for theirs, by operator."""
OURS: Final = ("pointwise", "view", "reduction", "scan", "indexing", "pooling", "norm", "factory")
"""The kinds that are to be generated."""
NO_CALLS: Final = "layout"
"""The kind that is measured in no fraction."""

OTHER_NAMES: Final = frozenset({"aten.view_as_real.default", "aten.view_as_complex.default"})
"""Calls that compute nothing: of a complex tensor's memory as pairs of reals, and of pairs as complex numbers."""

_EAGERS_NUMBERS: Final = "eager's own random numbers on the CPU, unless random=philox"
_OF_THE_DATA: Final = "what it gives, or how much of it, only the data says"
ON_PURPOSE: Final[Mapping[str, str]] = {
    "aten.rand.default": _EAGERS_NUMBERS,
    "aten.randn.default": _EAGERS_NUMBERS,
    "aten.native_dropout.default": _EAGERS_NUMBERS,
    "aten.randperm.default": _EAGERS_NUMBERS,
    "aten.nonzero.default": _OF_THE_DATA,
}
"""What is of a kind of ours and not generated, and meant so: why."""

_KIND_OF: Final = {f"aten.{name}": kind for kind, names in KINDS.items() for name in names.split()}


def kind_of(overload: OpOverload) -> str:
    """The kind of an operator of the core set.

    Errors: KeyError for one that is in no kind.
    """
    for tag, kind in ((torch.Tag.pointwise, "pointwise"), (torch.Tag.reduction, "reduction")):
        if tag in overload.tags:
            return kind
    return _KIND_OF[str(overload.overloadpacket)]


def core_overloads(only: Collection[str] = ()) -> list[OpOverload]:
    """Every overload of ATen that is tagged as core; of these operators, where any are named."""
    found: list[OpOverload] = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        op = (
            getattr(getattr(torch.ops.aten, packet, None), overload or "default", None) if namespace == "aten" else None
        )
        if op is not None and torch.Tag.core in op.tags and (not only or packet in only):
            found.append(op)
    return found


Call = tuple[tuple[Any, ...], dict[str, Any]]
Calls = dict[OpOverload, dict[torch.dtype | None, dict[str, Call]]]
"""By overload and the dtype of the database, those that differ by what they look like."""


class _Gather(TorchDispatchMode):
    """Keeps the calls of the core set, with tensors as they were."""

    def __init__(self, calls: Calls, dtype: torch.dtype) -> None:
        super().__init__()
        self.calls, self.dtype = calls, dtype

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.core in func.tags and func in self.calls:
            add_call(self.calls, func, self.dtype, args, kwargs)
        return func(*args, **kwargs)


def add_call(calls: Calls, overload: OpOverload, dtype: torch.dtype, args: Any, kwargs: Any) -> None:
    """Keeps a call, unless there is one that looks like it."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if any(tensor.layout is not torch.strided or tensor.numel() > 20_000 for tensor in tensors):
        return
    known = calls[overload].setdefault(dtype, {})
    looks = str(tree_map_only(torch.Tensor, lambda x: (x.dtype, x.shape, x.stride()), (args, kwargs)))
    if looks not in known:
        known[looks] = tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, kwargs))


def gather(only: Collection[str] = ()) -> Calls:
    """The calls of every overload of the core set, or of those of these operators."""
    from torch.testing._internal.common_methods_invocations import op_db

    calls: Calls = {overload: {} for overload in core_overloads(only)}
    for dtype in DTYPES:
        for op in op_db:
            if dtype in op.supported_dtypes("cpu") and "jiterator" not in op.name:
                torch.manual_seed(0)
                differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
                for sample in islice(op.sample_inputs("cpu", dtype, requires_grad=differentiable), SAMPLES):
                    with _Gather(calls, dtype):
                        result = op(sample.input, *sample.args, **sample.kwargs)
                        _differentiate(sample.output_process_fn_grad(result) if differentiable else ())
    for name, args, kwargs in calls_by_hand():
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        if op in calls:
            add_call(calls, op, torch.float32, args, kwargs)
    return calls


def _differentiate(result: Any) -> None:
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])


def calls_by_hand() -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Calls of what no operator of the database calls."""
    x, image, volume = torch.rand(4, 6), torch.rand(2, 3, 6, 6), torch.rand(2, 3, 4, 4, 4)
    channels = torch.rand(3)
    yield "_native_batch_norm_legit.no_stats", (image, channels, channels, True, 0.1, 1e-5), {}
    yield "_native_batch_norm_legit_no_training.default", (image, *[channels] * 4, 0.1, 1e-5), {}
    yield "adaptive_avg_pool1d.default", (image[0], [4]), {}
    yield "avg_pool1d.default", (image[0], [3], [2], [1]), {}
    yield "atan2.out", (x, x), {"out": torch.empty(4, 6)}
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        for dtype in (torch.int64, torch.uint8, torch.bool):
            yield f"{name}.Scalar", (x.to(dtype), True if dtype is torch.bool else 5), {}
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        numbers = (x * 9).to(dtype)
        yield "fmod.Scalar", (numbers, 3), {}
        for mode in ("trunc", "floor"):
            yield "div.Scalar_mode", (numbers, 3), {"rounding_mode": mode}
    yield "copy.default", (x, x[0].double()), {}
    yield "native_dropout.default", (x, 0.5, True), {}
    yield "randperm.default", (10,), {}
    yield "reflection_pad3d.default", (volume, [1, 1, 2, 0, 1, 2]), {}
    yield "replication_pad3d.default", (volume, [1, 1, 2, 0, 1, 2]), {}
    yield "upsample_bilinear2d.vec", (image, None, False, [2.0, 2.0]), {}
    yield "upsample_nearest2d.vec", (image, None, [2.0, 2.0]), {}
    yield "var.dim", (x, [1]), {}


def left_of(overload: OpOverload, call: Call, options: Options) -> dict[str, Counter[str]]:
    """What is left to libraries and eager of one call, by target and by overload: nothing when it is generated."""
    leaves, structure = tree_flatten(call)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    left = {target: Counter[str]() for target in TARGETS}

    def function(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        args, kwargs = tree_unflatten(filled, structure)
        return overload(*args, **kwargs)

    def lower(gm: torch.fx.GraphModule, _: object) -> Any:
        drop_aliases(gm)
        as_eager(gm, fills_memory=False)
        complete_metadata(gm)
        module = import_program(gm).module
        # What runs piece by piece does so on every device.
        moved = None if host.is_in_pieces(module) else on_cuda(module)
        left["cpu"].update(_left_in(module, options))
        left["cuda"].update(left["cpu"] if moved is None else _left_in(moved, options))
        return make_boxed_func(gm.forward)

    settings = {**Compilers(options).settings(), "fw_compiler": lower, "inference_compiler": lower}
    with torch.no_grad(), capturing():
        aot_function(function, **settings)(*[leaves[place].clone() for place in places])
    return left


def _left_in(module: ModuleOp, options: Options) -> Counter[str]:
    """What is left of a program, which is lowered in place."""
    stages = default_stages(random=options.random, pieces=host.is_in_pieces(module))
    until = [stage.label for stage in stages].index("aten-to-loops") + 1
    run_stages(module, options, CompileRecord("inference"), stages=stages[:until])
    left = Counter[str]()
    for op in module.walk():
        if isinstance(op, loops.ExternOp) and op.overload == "aten.randint.low" and not op.operands:
            continue  # the key of the graph's random numbers, one number of eager's: no call of the core set
        if isinstance(op, loops.ExternOp) and op.overload in OTHER_NAMES:
            continue
        if isinstance(op, loops.ExternOp) or (isinstance(op, host.EagerOp) and op.is_operator):
            left[op.overload] += 1
    return left


def _chosen(calls: Mapping[str, Call]) -> list[Call]:
    """Some of the calls, spread over all of them."""
    every = list(calls.values())
    return every[:: -(-len(every) // CALLS)] if every else []


class Found:
    """What became of the calls of one overload, of real numbers and of complex ones, by target."""

    def __init__(self) -> None:
        self.calls, self.complex_calls = 0, 0
        self.generated, self.complex_generated = Counter[str](), Counter[str]()
        self.left: dict[str, defaultdict[str, set[str]]] = {target: defaultdict(set) for target in TARGETS}
        """What was left of real calls: the overloads, and the dtypes of the database."""

    def is_generated(self, target: str) -> bool:
        """Whether all calls of real numbers are, and there are any."""
        return self.generated[target] == self.calls > 0


def measure(calls: Calls, options: Options) -> dict[OpOverload, Found]:
    """Lowers the chosen calls of every overload that is a call."""
    found: dict[OpOverload, Found] = {}
    for overload, by_dtype in calls.items():
        if kind_of(overload) == NO_CALLS:
            continue
        one = found[overload] = Found()
        for dtype, known in by_dtype.items():
            for call in _chosen(known):
                try:
                    left = left_of(overload, call, options)
                except NEEDS_DYNAMO as error:
                    left = {target: Counter({type(error).__name__: 1}) for target in TARGETS}
                _count(one, left, str(dtype).removeprefix("torch."), any(map(_is_complex, tree_leaves(call))))
    return found


def _count(one: Found, left: Mapping[str, Counter[str]], dtype: str, is_complex: bool) -> None:
    one.calls += not is_complex
    one.complex_calls += is_complex
    for target in TARGETS:
        (one.complex_generated if is_complex else one.generated)[target] += not left[target]
        for key in () if is_complex else left[target]:
            one.left[target][key].add(dtype)


def _is_complex(leaf: object) -> bool:
    """Whether an argument is complex, or says that the result is."""
    if isinstance(leaf, torch.Tensor | torch.dtype):
        return leaf.is_complex() if isinstance(leaf, torch.Tensor) else leaf.is_complex
    return isinstance(leaf, complex)


def not_generated(found: Mapping[OpOverload, Found], target: str) -> list[OpOverload]:
    """The overloads of which some call of real numbers is left, or none was found."""
    return [overload for overload, one in found.items() if not one.is_generated(target)]


def _described(overload: OpOverload, one: Found) -> str:
    """A line on what is left on some target."""
    parts: list[str] = []
    for target in TARGETS:
        left = ", ".join(f"{name} ({', '.join(sorted(kinds))})" for name, kinds in sorted(one.left[target].items()))
        parts.append(f"{target} {one.generated[target]} of {one.calls} calls{left and f', left: {left}'}")
    why = ON_PURPOSE.get(str(overload))
    return f"{kind_of(overload):10} {overload!s:42} {'; '.join(parts)}{(why and f'; {why}') or ''}"


def _fraction(overloads: Collection[OpOverload], missing: Collection[OpOverload]) -> str:
    done = len(overloads) - len(missing)
    return f"{done} of {len(overloads)}" + (f", {done / len(overloads):.1%}" if overloads else "")


def fractions(found: Mapping[OpOverload, Found], target: str) -> list[str]:
    """What is generated for a target, in lines: of the kinds of ours, of all, kind by kind, of complex numbers."""
    rest = not_generated(found, target)
    ours = [overload for overload in found if kind_of(overload) in OURS]
    every, missing = Counter(map(kind_of, found)), Counter(map(kind_of, rest))
    kinds = [kind for kind in (*OURS, *sorted(set(every) - set(OURS))) if kind in every]
    values = [found[overload] for overload in ours]
    calls, generated = sum(one.calls for one in values), sum(one.generated[target] for one in values)
    of_complex = sum(one.complex_generated[target] for one in values), sum(one.complex_calls for one in values)
    return [
        f"{target}: of the kinds of ours {_fraction(ours, [one for one in rest if kind_of(one) in OURS])}; "
        f"{generated} of {calls} calls; of complex numbers {of_complex[0]} of {of_complex[1]} calls",
        f"{target}: of all {_fraction(found, rest)}",
        f"{target}: {', '.join(f'{kind} {every[kind] - missing[kind]} of {every[kind]}' for kind in kinds)}",
    ]


def kinds() -> dict[str, list[OpOverload]]:
    """The overloads of the core set by kind, those of ours first."""
    found: dict[str, list[OpOverload]] = {kind: [] for kind in OURS}
    for overload in core_overloads():
        found.setdefault(kind_of(overload), []).append(overload)
    return found


def main() -> None:
    """Prints what is not generated, and the fractions."""
    parser = argparse.ArgumentParser(description="the fraction of PyTorch's core operators that is generated")
    parser.add_argument("operators", nargs="*", help="only these: index_put gather")
    parser.add_argument("--kinds", action="store_true", help="print which operator is of which kind")
    arguments = parser.parse_args()
    if arguments.kinds:
        for kind, members in kinds().items():
            said = "ours" if kind in OURS else "in no fraction" if kind == NO_CALLS else "not ours"
            print(f"{kind} ({said}, {len(members)}): {', '.join(str(one).removeprefix('aten.') for one in members)}")
        return
    found = measure(gather(arguments.operators), Options.parse())
    if unknown := set(arguments.operators) - {overload._opname for overload in found}:
        parser.error(f"not in the core set, or never a call: {', '.join(sorted(unknown))}")
    for overload, one in found.items():
        if not all(map(one.is_generated, TARGETS)):
            print(_described(overload, one))
    for target in TARGETS:
        print("\n".join(fractions(found, target)))


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # PyTorch logs a page for what it cannot trace
    warnings.simplefilter("ignore")
    main()
