"""The stages of the compiler as Markdown: why each stands where it does, what it gets and gives, and an example."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from cuesta.passes import available_passes
from cuesta.pipeline import STAGES, Stage
from manual.stage_examples import NO_EXAMPLE, ROOT, example_of

DECISIONS = ROOT / "docs" / "decisions"


def stages() -> str:
    """A table of all stages, and a section for each."""
    lines = ["| | stage | level before | level after | why here |", "|---|---|---|---|---|"]
    levels = list(levels_of_stages())
    for number, (stage, (before, after)) in enumerate(zip(STAGES, levels, strict=True), 1):
        lines.append(f"| {number} | [{stage.label}](#{anchor(stage)}) | {before} | {after} | {stage.why} |")
    lines.append("")
    shown: dict[str, str] = {}
    for number, (stage, (before, after)) in enumerate(zip(STAGES, levels, strict=True), 1):
        lines += section(number, stage, before, after, shown)
    return "\n".join(lines)


def levels_of_stages() -> Iterator[tuple[str, str]]:
    """The level before each stage, and after it."""
    level = "aten"
    for stage in STAGES:
        before = level
        if stage.begins is not None:
            # "loops, ready to schedule" is still `loops`.
            level = stage.begins.level.partition(",")[0]
        elif stage.name == "kernel-to-host":
            level = "host"
        yield before, level


def anchor(stage: Stage) -> str:
    """What a link to its section says."""
    return f"stage-{stage.label}"


def section(number: int, stage: Stage, before: str, after: str, shown: dict[str, str]) -> list[str]:
    """What is said of one stage. `shown` has the passes that stood further above."""
    name = stage.name.partition("{")[0]
    pass_type = available_passes()[name]()
    source = Path(inspect.getsourcefile(pass_type) or "").resolve()
    path = source.relative_to(ROOT).as_posix() if source.is_relative_to(ROOT) else source.name
    lines = [f"({anchor(stage)})=", f"### {number} · {stage.label}", "", f"{_sentence(stage.why)}", ""]
    lines += [f"`{before}` → `{after}` · `{path}`{decisions(name, path)}", ""]
    if name in shown:
        return [*lines, f"The pass is that of [{shown[name]}](#stage-{shown[name]}).", ""]
    shown[name] = stage.label
    lines += [*docstring(inspect.getdoc(pass_type) or ""), ""]
    if stage.begins is not None:
        lines += [f"Here begins *{stage.begins.level}*: its contract is checked, always.", ""]
    example = example_of(name)
    if example is None:
        return [*lines, NO_EXAMPLE[name], ""]
    lines += [f"`{example.file}`:", "```mlir", example.before.rstrip(), "```"]
    return [*lines, f"`cuesta-opt {example.command}` makes of it", "```mlir", example.after.rstrip(), "```", ""]


def decisions(name: str, path: str) -> str:
    """Links to the decisions that name a pass or its file."""
    found = [
        page
        for page in sorted(DECISIONS.glob("*.md"))
        if any(
            f"`{said}`" in (text := page.read_text(encoding="utf-8")) or f"`{said}{{" in text for said in (name, path)
        )
    ]
    links = [f"[{page.stem[:3]}](decisions/{page.name})" for page in found]
    return f" · decisions {', '.join(links)}" if links else ""


def docstring(text: str) -> list[str]:
    """A docstring as Markdown: what is indented in it is code."""
    lines: list[str] = []
    code = False
    for line in text.splitlines():
        indented = line.startswith("    ")
        starts = indented and (not lines or not lines[-1].strip())
        if not code and starts:
            lines.append("```text")
            code = True
        elif code and line.strip() and not indented:
            while lines and not lines[-1].strip():
                lines.pop()
            lines += ["```", ""]
            code = False
        lines.append(line[4:] if code else line)
    return [*lines, "```"] if code else lines


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
