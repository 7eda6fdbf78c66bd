"""The page of `cuesta explain`, in a real browser: what a person clicks, points at, and sees. Pictures are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuesta.explain.model import Explanation, Unseen
from cuesta.explain.page import write_page
from tests.support.browser import SCREENSHOTS, start, why_not
from tests.support.chromium import Browser, Tab
from tests.support.explained import NAME, explained

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=why_not() or "")
]  # fmt: skip
TABS = ("summary", "program", "levels", "kernels", "decisions", "memory", "time")


@pytest.fixture(scope="module")
def explanation(tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    return explained(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def page(explanation: Explanation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(explanation, tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with start() as found:
        yield found


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """A tab, which must have had no errors in the end, and asked nobody for anything."""
    found = browser.tab(width=1440, height=900)
    yield found
    errors, requested = found.errors, found.requested
    found.close()
    assert errors == []
    assert requested == []


def opened(tab: Tab, page: Path, part: str = "") -> None:
    tab.open(page, part and f"#{part}")
    tab.wait("document.documentElement.dataset.ready")


def settled(tab: Tab) -> None:
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def lines(tab: Tab, level: str, kind: str = "strong") -> list[str]:
    """The texts of marked lines that are on the screen."""
    script = f"[...document.querySelectorAll('[data-level={level}] .line.{kind}')].map(one => one.textContent)"
    return tab.run(script)


def test_every_part_draws(tab: Tab, page: Path) -> None:
    opened(tab, page)
    for name in TABS:
        tab.click(f"[data-tab={name}]")
        settled(tab)
        tab.screenshot(SCREENSHOTS / f"{name}.png")
        assert tab.run("document.getElementById('main').dataset.tab") == name
        assert tab.run("location.hash") == f"#{name}"
        assert tab.run("document.getElementById('main').textContent.length") > 100


def test_what_the_program_says_stays_text(tab: Tab, page: Path) -> None:
    opened(tab, page)
    assert tab.run("document.title").startswith(NAME)
    for name in TABS:
        tab.click(f"[data-tab={name}]")
        settled(tab)
    tab.click("[data-tab=levels]")
    settled(tab)
    assert "onerror" in tab.run("document.querySelector('[data-level=model]').textContent")
    assert tab.run("typeof window.broken") == "undefined"
    assert tab.run("document.querySelectorAll('img, b b, #main script').length") == 0


def test_a_page_is_ready_when_its_texts_are_drawn(tab: Tab, page: Path) -> None:
    """It was ready a frame before, and what came in that frame found no line to point at."""
    count = "window.drawn = document.querySelectorAll('[data-level=aten] .line').length"
    tab.call(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"""new MutationObserver(() => {{ if (document.documentElement?.dataset.ready) {count}; }})
            .observe(document, {{ attributes: true, subtree: true, attributeFilter: ["data-ready"] }});""",
    )
    opened(tab, page, "levels")
    assert tab.run("window.drawn") > 0


def test_a_value_is_followed_down_the_levels(tab: Tab, page: Path, explanation: Explanation) -> None:
    """The GELU of the second layer, and neither the first's nor the third's, from ATen to the host's launch."""
    opened(tab, page, "levels")
    text = next(level.text for level in explanation.graphs[0].levels if level.name == "aten").splitlines()
    gelus = [number for number, line in enumerate(text, 1) if "aten.gelu" in line]
    assert len(gelus) == 3
    tab.hover(f"[data-level=aten] .line[data-n='{gelus[1]}'] [data-name]")
    tab.wait("document.querySelectorAll('[data-level=kernel] .line.strong').length")
    assert "gelu_1" in tab.run("document.querySelector('.following').textContent")
    assert any("gelu" in line for line in lines(tab, "model"))
    assert lines(tab, "aten")[0].split(" = ")[0].strip() == text[gelus[1] - 1].split(" = ")[0].strip()
    assert any("elem.erf" in line for line in lines(tab, "fused"))
    assert any("elem.erf" in line for line in lines(tab, "kernel"))
    launches = [line for line in lines(tab, "host") if "host.launch" in line]
    assert len(launches) == 1
    graph = explanation.graphs[0]
    node = next(place for place, one in enumerate(graph.nodes) if one.name == "gelu_1")
    step = next(one for one in graph.steps if one.kind == "launch" and node in one.nodes)
    assert f"@{step.name}(" in launches[0]
    tab.screenshot(SCREENSHOTS / "followed.png")


def test_a_click_holds_a_value_and_escape_lets_go(tab: Tab, page: Path) -> None:
    opened(tab, page, "levels")
    tab.click("[data-level=aten] .line[data-n='3'] [data-name]")
    tab.wait("document.querySelector('.following').textContent.startsWith('Held')")
    held = tab.run("document.querySelector('.following').textContent")
    tab.hover("[data-level=aten] .line[data-n='5'] [data-name]")
    tab.browser.pump(0.15)
    assert tab.run("document.querySelector('.following').textContent") == held
    tab.key("Escape")
    assert tab.run("document.querySelectorAll('.line.strong').length") == 0


def test_levels_are_chosen(tab: Tab, page: Path) -> None:
    opened(tab, page, "levels")
    before = tab.run("document.querySelectorAll('.pane').length")
    tab.click("[data-chip=llvm]")
    tab.click("[data-chip=wrapper]")
    assert tab.run("document.querySelectorAll('.pane').length") == before + 2
    tab.click("[data-level=llvm] .line[data-n='1']")
    tab.click("[data-chip=llvm]")
    assert tab.run("document.querySelectorAll('.pane').length") == before + 1


def test_the_picture_zooms_moves_and_tells(tab: Tab, page: Path, explanation: Explanation) -> None:
    opened(tab, page, "program")
    settled(tab)
    graph = explanation.graphs[0]
    drawn = tab.run("document.querySelectorAll('.box').length")
    assert drawn == sum(step.kind in ("launch", "call", "other") for step in graph.steps)
    where = "document.querySelector('.sheet svg > g').getAttribute('transform')"
    seen = [tab.run(where)]
    tab.wheel(".sheet svg", -240)
    tab.wait(f"{where} !== {json.dumps(seen[-1])}")
    seen.append(tab.run(where))
    tab.drag(".sheet svg", (60, -30))
    seen.append(tab.run(where))
    tab.click("[aria-label='zoom in']")
    seen.append(tab.run(where))
    assert len(set(seen)) == 4
    tab.click("[aria-label='show everything']")
    assert tab.run(where) == seen[0]
    step = graph.kernels[0].steps[0]
    tab.click(f"[data-step='{step}']")
    assert tab.run("document.querySelector('.detail h2').textContent") == graph.kernels[0].name
    assert not tab.run("document.getElementById('tip').hidden")
    tab.screenshot(SCREENSHOTS / "chosen.png")
    tab.click(".detail .chip")
    tab.wait("document.querySelectorAll('[data-level=kernel] .line.strong').length")


def test_the_picture_is_reached_with_keys_alone(tab: Tab, page: Path) -> None:
    opened(tab, page)
    tab.run("document.querySelector('[data-tab=summary]').focus()")
    tab.key("ArrowRight")
    assert tab.run("document.activeElement.dataset.tab") == "program"
    settled(tab)
    tab.key("Tab")
    first = tab.run("document.activeElement.dataset.step")
    assert first is not None
    tab.key("ArrowRight")
    assert tab.run("document.activeElement.dataset.step") != first
    assert tab.run("document.querySelectorAll('.box.chosen').length") == 1


def test_a_point_of_the_roofline_says_which_kernel_it_is(tab: Tab, page: Path, explanation: Explanation) -> None:
    opened(tab, page, "kernels")
    name = tab.run("[...document.querySelectorAll('.point.kernel')].pop().dataset.point")
    assert name in {one.name for one in explanation.graphs[0].kernels}
    tab.hover(f".point[data-point='{name}']")
    tab.wait("!document.getElementById('tip').hidden")
    said = tab.run("document.getElementById('tip').textContent")
    assert "of the roofline" in said
    assert any(one.name in said for one in explanation.graphs[0].kernels)
    tab.screenshot(SCREENSHOTS / "roofline.png")


def test_tables_sort_and_search(tab: Tab, page: Path) -> None:
    opened(tab, page, "time")
    cell = "document.querySelector('table tbody tr td:nth-child(2)').textContent"
    assert tab.run(cell) == "import"
    tab.click("table th:nth-child(3) button")
    assert tab.run("document.querySelector('table th:nth-child(3)').getAttribute('aria-sort')") == "descending"
    tab.run("(() => { const box = document.querySelector('input[type=search]'); box.value = 'aten-to-loops';"
            " box.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert tab.run(cell) == "aten-to-loops"


def test_the_backward_pass_is_another_graph(tab: Tab, page: Path, explanation: Explanation) -> None:
    opened(tab, page, "kernels/1")
    assert explanation.graphs[1].kind == "backward"
    assert tab.run("document.getElementById('graph').value") == "1"
    assert explanation.graphs[1].kernels[0].name in tab.run("document.getElementById('main').textContent")


def test_it_is_dark_where_the_system_is(tab: Tab, page: Path) -> None:
    opened(tab, page)
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    light = tab.run(paper)
    tab.dark(True)
    assert tab.run(paper) != light
    for name in ("program", "levels", "kernels"):
        tab.click(f"[data-tab={name}]")
        settled(tab)
        tab.screenshot(SCREENSHOTS / f"dark-{name}.png")


def test_an_explanation_of_nothing_says_why(tab: Tab, tmp_path: Path) -> None:
    nothing = Explanation("model.py", "0", "2", False, (), unseen=(Unseen("the model", "it <b>raised</b>"),))
    opened(tab, write_page(nothing, tmp_path / "page.html"))
    for name in TABS:
        tab.click(f"[data-tab={name}]")
        assert "it <b>raised</b>" in tab.run("document.getElementById('main').textContent")


def test_what_was_kept_says_since_when(tab: Tab, page: Path, explanation: Explanation, tmp_path: Path) -> None:
    there = "document.getElementById('since')?.textContent ?? ''"
    opened(tab, page)
    assert tab.run(there) == "" and "of 2026" not in tab.run("document.getElementById('about').textContent")
    kept = replace(explanation, kept_since="2026-11-25 09:59")
    opened(tab, write_page(kept, tmp_path / "page.html"))
    assert tab.run(there).startswith("Found out on 2026-11-25 09:59, times too") and "not run" not in tab.run(there)
    opened(tab, write_page(replace(kept, not_run=True), tmp_path / "page.html"))
    assert "The file was not run again: nothing that it read then has changed" in tab.run(there)
    assert "of 2026-11-25 09:59" in tab.run("document.getElementById('about').textContent")
