"""Lays out what the generator of the site reads: the pages of docs/, as they stand, and those that are generated.

The pages are also read on their own, so they have nothing in them that only the generator understands. Here marks of
blocks are taken out, links that lead out of docs/ are made links to what the site has, and the list of pages in
docs/index.md becomes the site's contents.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from manual.blocks import PageError, without_marks
from manual.flow_page import stages
from manual.level_pages import TITLES, level_page
from manual.reference_page import reference_page
from manual.table_pages import aten_table_page, elem_table_page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUTSIDE = {"README.md": "readme.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that lie beside docs/, and what they are called on the site."""

GENERATED: Mapping[str, Callable[[], str]] = {
    **{f"level-{level}.md": lambda level=level: level_page(level) for level in TITLES},
    "level-elem-table.md": elem_table_page,
    "level-aten-table.md": aten_table_page,
    "decisions.md": lambda: decisions_page(),
}
"""Pages that are made of the definitions alone. Where a page names one in backticks, the site has a link."""
INSERTED: Mapping[str, Callable[[], str]] = {"flow.md": stages}
"""What takes the place of `<!-- generated -->` on a page."""

_LINK = re.compile(r"(?<!\!)\[([^\]\n]*(?:\[[^\]]*\][^\]\n]*)*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^(?P<fence> *```+)[^\n]*\n.*?^(?P=fence)[ ]*$", re.DOTALL | re.MULTILINE)
_GENERATED = re.compile(rf"`({'|'.join(map(re.escape, GENERATED))})`")
_LISTED = re.compile(r"\]\(([^)\s]+)\)|`([\w-]+\.md)`")
_PLACE = "<!-- generated -->"


def stage(folder: Path) -> list[str]:
    """Writes all pages into an empty folder, and gives their names.

    Errors: PageError for a page that docs/index.md does not list, or lists but is not there.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pages = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    pages |= {name: (ROOT / source).read_text(encoding="utf-8") for source, name in OUTSIDE.items()}
    pages |= {name: make() for name, make in GENERATED.items()}
    for name, make in INSERTED.items():
        if _PLACE not in pages[name]:
            raise PageError(f"docs/{name}  has no line `{_PLACE}`")
        pages[name] = pages[name].replace(_PLACE, make())
    pages["names.md"] = reference_page(pages["names.md"])
    contents = contents_of(pages["index.md"], pages)
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        said = outside_of_code(without_marks(text), lambda part, name=name: relinked(part, name, pages))
        path.write_text(said + (contents if name == "index.md" else ""), encoding="utf-8")
    return sorted(pages)


def decisions_page() -> str:
    """A list of the decisions."""
    pages = sorted((DOCS / "decisions").glob("*.md"))
    titles = [page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for page in pages]
    lines = [f"* [{title}](decisions/{page.name})" for page, title in zip(pages, titles, strict=True)]
    names = [f"decisions/{page.name}" for page in pages]
    return "\n".join(
        [
            "# Decisions",
            "",
            "Why it is built this way, in the order in which it was decided.",
            "",
            *lines,
            "",
            _tree("", names),
        ]
    )


def relinked(text: str, page: str, pages: Mapping[str, str]) -> str:
    """A page's text with links to what the site has; what it does not have is only named."""
    where = (DOCS / page).parent if page not in OUTSIDE.values() else ROOT

    def link(found: re.Match[str]) -> str:
        said, target = found[1], found[2]
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return found[0]
        there = (where / path).resolve()
        if there.is_relative_to(DOCS) and (name := there.relative_to(DOCS).as_posix()) in pages:
            return f"[{said}]({_from(page, name)}{'#' + anchor if anchor else ''})"
        name = there.relative_to(ROOT).as_posix() if there.is_relative_to(ROOT) else path
        if name in OUTSIDE:
            return f"[{said}]({_from(page, OUTSIDE[name])})"
        if name == "docs/decisions":
            return f"[{said}]({_from(page, 'decisions.md')})"
        return (
            said
            if said.strip("`") in (name, path) and "`" in said
            else f"{said} (`{name}`)"
            if said != name
            else f"`{name}`"
        )

    def named(found: re.Match[str]) -> str:
        title = pages[found[1]].partition("\n")[0].removeprefix("# ")
        return f"[{title}]({_from(page, found[1])})"

    return _GENERATED.sub(named, _LINK.sub(link, text))


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """A page with everything changed but its blocks of code."""
    parts: list[str] = []
    at = 0
    for block in _FENCED.finditer(text):
        parts += [change(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, change(text[at:])])


def contents_of(index: str, pages: Mapping[str, str]) -> str:
    """The site's contents, as its generator takes them: what docs/index.md lists, a part for every heading.

    Errors: PageError for pages that are in no list, and for names of none.
    """
    captions: dict[str, list[str]] = {}
    caption = ""
    for line in index.splitlines():
        if line.startswith("## "):
            caption = line[3:].strip()
        for target in (found[1] or found[2] for found in _LISTED.finditer(line)):
            name = "decisions.md" if target == "decisions/" else OUTSIDE.get(target.removeprefix("../"), target)
            if name.endswith(".md"):
                captions.setdefault(caption, []).append(name)
    listed = {name for names in captions.values() for name in names}
    listed |= {name for name in pages if name.startswith("decisions/")}
    if unlisted := sorted(set(pages) - listed - {"index.md"}):
        raise PageError(f"docs/index.md  does not list {', '.join(unlisted)}")
    if unknown := sorted(listed - set(pages)):
        raise PageError(f"docs/index.md  lists what is not there: {', '.join(unknown)}")
    trees = [_tree(caption, names) for caption, names in captions.items()]
    return "\n" + "\n".join(trees)


def _tree(caption: str, names: list[str]) -> str:
    lines = "\n".join(dict.fromkeys(name.removesuffix(".md") for name in names))
    return f"```{{toctree}}\n:hidden:\n{f':caption: {caption}' if caption else ''}\n\n{lines}\n```\n"


def _from(page: str, name: str) -> str:
    return "../" * page.count("/") + name
