"""The forms of a contraction beside cuBLAS on a CUDA device: what is chosen of a tile by default (*); a program for
each tile (`.`), tensor descriptors (D), programs that do several tiles (P), both, sums in parts (K), and those with
descriptors with the rows of the last wave in parts (DKS, PDKS: stream-K). `python -m benchmarks.product_forms`, or with
`--only waves` the shapes whose last wave is nearly empty.

Every row is one shape, plain and with a bias and GELU after it (beside it: the library's product and eager's kernels).
All forms of the few tiles that the estimate puts first are compiled, checked against float64, and called in turns,
between writes that empty the device's cache.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import torch
import torch.nn.functional as F
from xdsl.dialects.builtin import ModuleOp

from benchmarks.attention import error_of
from benchmarks.product_cases import Shape
from benchmarks.products import CLOSE, timed, tuner
from cuesta.context import make_context
from cuesta.dialects.core.entry import entry_block
from cuesta.dialects.core.locations import CuestaParser
from cuesta.dialects.core.machine import Machine, state_machine
from cuesta.machine import detect
from cuesta.pipeline import default_stages, run_pipeline
from cuesta.transforms.products.forms import STREAM_K, forms_of, streamed
from cuesta.transforms.products.product_nests import fused_nest, replace
from cuesta.transforms.products.product_plans import around
from cuesta.transforms.products.products import products_of
from cuesta.transforms.products.tiles import tiles_for

SHAPES = (
    *(Shape("square", n, n, n) for n in (1024, 2048, 4096, 8192)),
    Shape("layer", 4096, 4096, 1024),
    Shape("layer", 8192, 2048, 4096, 0, False, True),
    Shape("layer", 16384, 1024, 512),
    Shape("tall", 65536, 256, 512),
    Shape("tall", 131072, 64, 1024, 0, False, True),
    Shape("thin", 64, 8192, 8192, 0, False, True),
    Shape("thin", 128, 4096, 14336, 0, False, True),
    Shape("odd", 4095, 4097, 4096),
    Shape("odd", 4000, 4104, 1000),
    Shape("odd", 3000, 3000, 3000, 0, False, True),
    Shape("odd", 777, 2001, 3333),
    Shape("few", 1024, 1024, 16384),
    Shape("few", 512, 2048, 8192, 0, False, True),
    Shape("waves", 128 * 7, 256 * 19, 4096),  # 133 tiles of 128 by 256
    Shape("waves", 128 * 10, 256 * 15, 4096),  # 150
    Shape("waves", 128 * 20, 256 * 10, 2048, 0, False, True),  # 200
    Shape("waves", 128 * 12, 128 * 23, 4096),  # 276 of 128 by 128
    Shape("waves", 3000, 3000, 3000),  # 288 of 128 by 256
    Shape("waves", 3072, 3072, 4096),  # 288, whose rows begin where lines of the cache do
    Shape("waves", 4096, 768, 3072),  # 96: no whole wave
    Shape("waves", 8192, 1152, 4096),  # 320 of 128 by 256, 288 of 256 by 128
    Shape("waves", 2304, 4096, 4096, 0, False, True),  # 288
    Shape("waves", 4224, 4224, 8192),  # 561
    Shape("batched", 512, 512, 512, 32),
    Shape("batched", 1024, 1024, 64, 96, False, True),
    Shape("batched", 200, 264, 1000, 24),
    Shape("turned", 4096, 4096, 4096, 0, True, True),
)
WITH_EPILOGUE = (0, 1, 2, 4, 5, 6, 7, 11, 12, 13, 15, 17, 18, 19, 21, 22, 24, 27)
"""The shapes that are measured with an epilogue, too."""
TILES = 2
"""Tiles of which all forms are timed; all others have one."""


def text_of(shape: Shape, after: bool) -> str:
    """The library's call, perhaps with a bias and GELU (its approximation by tanh) after it, at the level `loops`."""
    text = shape.text()
    if not after:
        return text
    batch = f"{shape.batch}x" if shape.batch else ""
    out = f'tensor<{batch}{shape.rows}x{shape.columns}xbf16, #aten.layout<device = "cuda:0">>'
    bias = f'tensor<{shape.columns}xbf16, #aten.layout<device = "cuda:0">>'
    axes, point = ("%q : " + str(shape.batch) + ", ", "%q, %i, %j") if shape.batch else ("", "%i, %j")
    body = f"""
  %z = loops.nest ({axes}%i : {shape.rows}, %j : {shape.columns}) outs(%o : {out}) {{
    %0 = loops.load %y[{point}] : {out}
    %1 = elem.convert %0 : bf16 to f32
    %2 = loops.load %c[%j] : {bias}
    %3 = elem.convert %2 : bf16 to f32
    %x = elem.add %1, %3 : f32
    %h = elem.constant 0.5 : f32
    %s = elem.constant 0.7978845608028654 : f32
    %t = elem.constant 0.044715 : f32
    %u = elem.constant 1.0 : f32
    %4 = elem.mul %x, %x : f32
    %5 = elem.mul %4, %t : f32
    %6 = elem.add %5, %u : f32
    %7 = elem.mul %6, %x : f32
    %8 = elem.mul %7, %s : f32
    %9 = elem.tanh %8 : f32 precision bf16
    %10 = elem.add %9, %u : f32
    %11 = elem.mul %x, %h : f32
    %12 = elem.mul %10, %11 : f32
    %13 = elem.convert %12 : f32 to bf16
    loops.store %13, %o[{point}] : {out}
  }}
  func.return %z : {out}
}}"""
    head, _, _ = text.partition("  func.return")
    return head.replace(") -> ", f", %c : {bias}) -> ", 1).rstrip() + body


def programs_of(shape: Shape, after: bool, machine: Machine) -> list[tuple[dict[str, int], ModuleOp]]:
    """Every form of every tile: its choices, and the program at the level `loops`, ready to schedule."""
    module = CuestaParser(make_context(), text_of(shape, after), str(shape)).parse_module()
    module.verify()
    state_machine(module, machine)
    stages = default_stages()
    labels = [stage.label for stage in stages]
    run_pipeline(make_context(), module, stages[labels.index("eliminate-views") : labels.index("fuse-nests")])
    (product,) = products_of(entry_block(module), precision="")
    task = product.sizes, product.batch, product.bits
    done = around(product, False)
    tiles = tiles_for(*task, machine, done)
    whole = [tile for tile in tiles if "part" not in tile][:TILES]
    parts = [tile for tile in tiles if "part" in tile][:1]
    forms = [form for tile in whole for form in (tile, *forms_of(*task, machine, tile, done))]
    every = [*whole, *({"descriptors": 0, **form} for form in forms)]
    streams = (streamed(*task, machine, form, done) for form in forms if "descriptors" in form)
    every += [one[1] for one in streams if one is not None]
    every += [{**tile, "descriptors": described} for tile in parts for described in (0, 1)]
    found: list[tuple[dict[str, int], ModuleOp]] = []
    for choices in every:
        copy = module.clone()
        (product,) = products_of(entry_block(copy), precision="")
        replace(product, fused_nest(product), choices)
        found.append((choices, copy))
    return found


def name_of(choices: dict[str, int]) -> str:
    """`128x256x64/8/3`, and the form: `.` for a program a tile, D for descriptors, P for programs of several tiles; *
    where nothing is said of it.
    """
    tile = "x".join(str(choices[name]) for name in ("rows", "columns", "depth"))
    form = "".join(letter for name, letter in FORMS.items() if choices.get(name)) or "."
    if choices.keys().isdisjoint(FORMS):
        form = "*"
    return f"{tile}/{choices['warps']}/{choices['stages']}{form}"


FORMS = {"programs": "P", "descriptors": "D", "part": "K", STREAM_K: "S"}
"""The letters of forms, by what their choices say."""


def measured(
    shape: Shape, after: bool, built: Sequence[tuple[dict[str, int], Callable[..., Any] | None]], rounds: int
) -> dict[str, float]:
    """Prints a row; gives the best ratio to the library of each form."""
    factors = shape.inputs("cuda")
    bias = [torch.randn(shape.columns, device="cuda", dtype=torch.bfloat16)] if after else []
    inputs = [*factors, *bias]

    def done(*given: Any) -> Any:
        product = (torch.bmm if shape.batch else torch.mm)(*given[:2])
        return F.gelu(product + given[2], approximate="tanh") if after else product

    def library() -> Any:
        return done(*inputs)

    truth, failed = done(*(one.double() for one in inputs)).float(), list[str]()
    off = error_of(library(), truth)
    sides: dict[str, Callable[[], Any]] = {"cublas": library}
    for choices, function in built:
        name = name_of(choices)
        if function is None:
            failed.append(f"{name}: not compiled")
            continue
        try:
            error = error_of(function(list(inputs))[0], truth)
            torch.cuda.synchronize()
        except RuntimeError as problem:
            failed.append(f"{name}: {problem}"[:120])
            continue
        if not error <= CLOSE * off + 1e-7:
            failed.append(f"{name}: off by {error:.1e}, cuBLAS by {off:.1e}")
        sides[name] = lambda function=function: function(list(inputs))
    times = timed(sides, rounds)
    median = {name: statistics.median(one) for name, one in times.items()}
    best: dict[str, tuple[float, str]] = {}
    for name, time in median.items():
        form = name.lstrip("0123456789x/") if name != "cublas" else ""
        ratio = median["cublas"] / time
        if form and ratio > best.get(form, (0.0, ""))[0]:
            best[form] = ratio, name
    rate = shape.operations / median["cublas"] / 1e6
    rest = "  ".join(
        f"{form} {ratio:.2f} ({shape.operations / median[name] / 1e6:.0f} T/s {name.removesuffix(form)})"
        for form, (ratio, name) in sorted(best.items())
    )
    print(
        f"{shape!s:38}{' +gelu' if after else '      '} cuBLAS {median['cublas']:7.1f} µs {rate:4.0f} T/s  {rest}",
        flush=True,
    )
    for one in failed:
        print(f"    {one}", flush=True)
    return {form: ratio for form, (ratio, _) in best.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=150.0, help="no row begins later")
    parser.add_argument("--only", default="", help="kinds of shapes, separated by commas")
    given = parser.parse_args(arguments)
    start = perf_counter()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    machine = detect(["cuda:0"])
    kinds = [one for one in given.only.split(",") if one]
    rows = [(shape, False) for shape in SHAPES] + [(SHAPES[k], True) for k in WITH_EPILOGUE]
    rows = [row for row in rows if not kinds or row[0].kind in kinds]
    every = [programs_of(*row, machine) for row in rows]
    compiler = tuner()
    print(f"{sum(map(len, every))} programs after {perf_counter() - start:.0f} s", flush=True)
    lowered = compiler.lowered([[module for _, module in one] for one in every])
    print(f"compiled after {perf_counter() - start:.0f} s", flush=True)
    found: dict[str, list[float]] = {}
    for (shape, after), programs, modules in zip(rows, every, lowered, strict=True):
        if perf_counter() - start > given.seconds:
            print("the seconds are over")
            break
        built = [
            (choices, None if module is None else compiler.build(module))
            for (choices, _), module in zip(programs, modules, strict=True)
        ]
        best = measured(shape, after, built, given.rounds)
        best["best"], best["present"] = max(best.values(), default=0.0), best.get("*", 0.0)
        for form, ratio in best.items():
            found.setdefault(f"{form}{' +gelu' if after else ''}", []).append(ratio)
    for form, ratios in found.items():
        good = [ratio for ratio in ratios if ratio]
        print(f"{form:14} geometric mean {statistics.geometric_mean(good):.3f} of {len(good)}, worst {min(good):.2f}")
    print(f"{perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
