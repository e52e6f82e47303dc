"""The page in a real browser: quiet, self-contained, and as wide as the screen."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from report_cases import NASTY

Pages = Callable[[str], Path]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--no-first-run",
]

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tool:
        opened = tool.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


OVERFLOWING = """() => {
    const wide = document.documentElement.clientWidth;
    return [...document.querySelectorAll('body *')]
        .filter(each => !each.closest('svg') && !each.closest('thead, .hidden'))
        .filter(each => each.getBoundingClientRect().right > wide + 0.5)
        .map(each => `${each.tagName}.${each.className}: ${each.textContent.slice(0, 40)}`);
}"""


@pytest.mark.parametrize("width", [380, 1400])
@pytest.mark.parametrize("name", ["numbers", "classes", "no rules", "nasty"])
def test_no_errors_no_requests_no_overflow(browser: Any, page_of: Pages, name: str, width: int) -> None:
    path = page_of(name)
    page = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert said == []
    assert [url for url in asked if url != path.as_uri() and not url.startswith("data:")] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    assert page.evaluate("document.scripts.length") == 0
    page.close()


def test_light_and_dark_are_the_readers_choice(browser: Any, page_of: Pages) -> None:
    path = page_of("numbers")
    seen = {}
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(path.as_uri())
        seen[scheme] = page.evaluate(
            """() => [getComputedStyle(document.body).backgroundColor,
                      getComputedStyle(document.querySelector('#rules-legend_1 text, svg text')).fill]"""
        )
        page.close()
    light, dark = (sum(map(int, seen[scheme][0][4:-1].split(","))) for scheme in ("light", "dark"))
    assert light > 700 > 150 > dark
    assert seen["light"][1] != seen["dark"][1]


def test_a_script_in_a_name_is_shown_as_text(browser: Any, page_of: Pages) -> None:
    path = page_of("nasty")
    page = browser.new_page()
    page.goto(path.as_uri())
    assert f"rule {NASTY}" in page.inner_text("h3")
    labels = page.eval_on_selector_all("svg text", "all => all.map(each => each.textContent)")
    assert any(NASTY in label for label in labels)
    page.close()


def test_it_prints_on_paper(browser: Any, page_of: Pages) -> None:
    path = page_of("numbers")
    page = browser.new_page(color_scheme="dark")
    page.goto(path.as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert len(page.pdf()) > 20_000
    page.close()
