"""Reports as a browser has them: it asks for nothing, complains of nothing, and they fit the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.report.formats import report as html
from primbench.report.measured import page
from primbench.results.file import encode, read

from .browser import Browser, browser, program
from .pages import check
from .test_html import HOSTILE, STUDIES, failed, hostile

if TYPE_CHECKING:
    from click.testing import Result

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.skipif(program() is None, reason="chromium is not installed: apt-get install chromium"),
]
CLIPPED = "each => each.scrollWidth > each.clientWidth + 1"
SCREENS = [(400, "light"), (1000, "dark"), (1600, "light")]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A fresh study, a recorded one, a file without records, one of failures, and one of hostile words."""
    folder = tmp_path_factory.mktemp("pages")
    suite, fresh = folder / "tiny.toml", folder / "fresh.html"
    suite.write_text("gemm = [{ m = 4, n = 4, k = 8 }]\n")
    short = ("--min-time", "1ms", "--max-time", "5ms", "--pairs", 2, "--device", "cpu", "--backend", "numpy")
    arms = ("--arm", "host", "--arm", "host:threads=1,name=one thread")
    assert 0 == invoke("study", suite, *arms, *short, "--fail-on", "never", "--report", fresh).exit_code
    results = read(measured[0])
    empty = folder / "empty.jsonl"
    empty.write_bytes(encode(results.header))
    for name, path in (("recorded", STUDIES / "h200-host-docker-podman-cupy.jsonl.xz"), ("empty", empty)):
        assert 0 == invoke("report", path, "-o", folder / f"{name}.html").exit_code
    (folder / "failed.html").write_text(html.write(page(failed(results))))
    (folder / "hostile.html").write_text(html.write(page(hostile(results), title=HOSTILE)))
    return {path.stem: path for path in sorted(folder.glob("*.html"))}


@pytest.mark.parametrize("name", ["empty", "failed", "fresh", "hostile", "recorded"])
def test_a_page_asks_for_nothing_and_fits(name: str, pages: dict[str, Path], chromium: Browser) -> None:
    check(pages[name].read_text())
    for width, scheme in SCREENS:
        chromium.open(pages[name], width, scheme)
        assert 0 == chromium.value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert 0 == chromium.value(f"[...document.querySelectorAll('th, td')].filter({CLIPPED}).length")
        assert [] == chromium.said
        assert [pages[name].as_uri()] == chromium.asked
    colour = "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
    light = chromium.value(colour)
    chromium.open(pages[name], 1000, "dark")
    assert light != chromium.value(colour)


def test_a_click_sorts_numbers_by_their_value(pages: dict[str, Path], chromium: Browser) -> None:
    chromium.open(pages["recorded"], 1000, "light")
    heading = "[...document.querySelectorAll('table th')].find(each => each.textContent === 'host')"
    values = f"[...{heading}.closest('table').tBodies[0].rows].map(row => +row.cells[{heading}.cellIndex].dataset.v)"
    before = chromium.value(values)
    chromium.value(f"{heading}.firstChild.click()")
    assert before != sorted(before) == chromium.value(values)
    chromium.value(f"{heading}.firstChild.click()")
    assert sorted(before, reverse=True) == chromium.value(values)
    assert "descending" == chromium.value(f"{heading}.getAttribute('aria-sort')")
