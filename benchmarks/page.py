"""The page of `cuesta explain` of a model of twelve layers: its size, how long a browser takes to open it and to follow
a value, and of how many launches and calls it knows the model's lines. Of ResNets too, which have as many as they have.

Times are wall clock, seen from outside of the browser: to open, from the navigation until the page has drawn its first
part; to follow, from the pointer's move until a line of the kernel is marked, and is drawn, with every level shown. The
browser is the one that `make browser` fetches.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

import cuesta
from cuesta.explain.model import Explanation, Graph
from cuesta.explain.page import write_page
from examples import models
from tests.support.browser import start, why_not
from tests.support.chromium import Browser

LAYERS = 12
ROUNDS = 5
"""Tabs that open the page, and values that are followed. Source: a bound against the time that measuring takes."""
MOST_BYTES = 5_000_000
MOST_SECONDS = 1.0
"""Source: issue 13."""
RESNETS: dict[str, dict[str, Any]] = {
    "resnet18": {"depths": [2, 2, 2, 2], "layer_type": "basic", "hidden_sizes": [64, 128, 256, 512]},
    "resnet50": {},
}
"""What tells them from transformers' own defaults."""


def resnet(name: str) -> models.ModelCase:
    """A ResNet as the paper has it, on two small images."""

    def build(_: float) -> tuple[torch.nn.Module, models.Inputs]:
        from transformers import ResNetConfig, ResNetForImageClassification

        model = ResNetForImageClassification(ResNetConfig(**models.CLASSES, **RESNETS[name]))
        return model, {"pixel_values": torch.randn(2, 3, 64, 64), "labels": torch.randint(0, 10, (2,))}

    return models.ModelCase(name, build)


def explained(name: str, training: bool, measured: bool) -> Explanation:
    """What became of a model of the demo, with twelve layers."""
    for sizes in (models.BLOCKS, models.TEXT):
        sizes["num_hidden_layers"] = LAYERS
    models.LAYERS = LAYERS
    case = resnet(name) if name in RESNETS else models.MODELS[name]
    model, inputs = case.training() if training else case.inference()
    # What the function is given by name may be called as an argument of explain's.
    step = functools.partial(model, **inputs)
    return cuesta.explain(step, training=training, time=measured, name=f"{name}.py")


def mapped(explanation: Explanation) -> str:
    """Of how many launches and library calls lines of the model are known, graph by graph."""
    found: list[str] = []
    for graph in explanation.graphs:
        steps = [step for step in graph.steps if step.kind in ("launch", "call")]
        found.append(f"{graph.kind} {sum(bool(step.sources) for step in steps)} of {len(steps)}")
    return ", ".join(found)


def opening(browser: Browser, page: Path) -> float:
    """Seconds until a new tab has drawn the page."""
    tab = browser.tab(width=1600, height=1000)
    begin = perf_counter()
    tab.open(page)
    tab.wait("document.documentElement.dataset.ready")
    taken = perf_counter() - begin
    assert not tab.errors, tab.errors
    tab.close()
    return taken


def following(browser: Browser, page: Path, graph: Graph) -> list[float]:
    """Seconds until values are marked in all levels, each in the middle of another part of the program."""
    text = next(level.text for level in graph.levels if level.name == "aten").splitlines()
    launched = {graph.nodes[node].name for step in graph.steps if step.kind == "launch" for node in step.nodes}
    kernels = [number for number, line in enumerate(text, 1) if line.split(" = ")[0].strip().lstrip("%") in launched]
    tab = browser.tab(width=1600, height=1000)
    tab.open(page, f"#levels/{graph.number}")
    tab.wait("document.documentElement.dataset.ready")
    for level in graph.levels:
        shown = f"document.querySelector('[data-chip={level.name}]')?.getAttribute('aria-pressed')"
        if tab.run(shown) == "false":
            tab.click(f"[data-chip={level.name}]")
    taken: list[float] = []
    for part in range(ROUNDS):
        line = kernels[(2 * part + 1) * len(kernels) // (2 * ROUNDS)]
        tab.run(f"document.querySelector('[data-level=aten] .view').scrollTop = {18 * max(0, line - 20)}")
        tab.wait(f"document.querySelector(\"[data-level=aten] .line[data-n='{line}']\")")
        tab.key("Escape")
        begin = perf_counter()
        tab.click(f"[data-level=aten] .line[data-n='{line}'] [data-name]")
        tab.wait("document.querySelector('[data-level=kernel] .line.strong, [data-level=host] .line.strong')")
        tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        taken.append(perf_counter() - begin)
        tab.run("document.querySelector('[data-level=aten] .view').focus()")
    assert not tab.errors, tab.errors
    return taken


def main() -> None:
    """Measures, and says what falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt2", choices=[*models.MODELS, *RESNETS])
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--no-time", action="store_true", help="do not measure the model's own times")
    chosen = parser.parse_args()
    if (missing := why_not()) is not None:
        raise SystemExit(missing)
    explanation = explained(chosen.model, chosen.training, not chosen.no_time)
    print(f"{chosen.model}: launches and library calls with lines of the model: {mapped(explanation)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        page = write_page(explanation, Path(folder) / "page.html")
        size = page.stat().st_size
        with start() as browser:
            opening(browser, page)  # the first tab of a browser waits for the browser
            opened = [opening(browser, page) for _ in range(ROUNDS)]
            followed = [seconds for graph in explanation.graphs for seconds in following(browser, page, graph)]
            layers = "" if "resnet" in chosen.model else f", {LAYERS} layers"
            step = "training" if chosen.training else "inference"
            print(f"{chosen.model}{layers}, {step}; {browser.version}")
    for name, value, most, unit in (
        ("size", size / 1e6, MOST_BYTES / 1e6, "MB"),
        ("opens, median", statistics.median(opened), MOST_SECONDS, "s"),
        ("opens, worst", max(opened), MOST_SECONDS, "s"),
        ("follows, median", statistics.median(followed), MOST_SECONDS, "s"),
        ("follows, worst", max(followed), MOST_SECONDS, "s"),
    ):
        print(f"{name:16} {value:8.3f} {unit:2}  at most {most:g}{'' if value <= most else '  FALLS SHORT'}")


if __name__ == "__main__":
    main()
