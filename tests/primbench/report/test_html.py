from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from primbench.results.file import encode, read

from .pages import check

STUDIES = Path(__file__).parents[3] / "suites/reference/studies"


def report(invoke: Callable[..., Result], *files: Path) -> str:
    result = invoke("report", *files, "-o", "-")
    assert (0, "") == (result.exit_code, result.stderr)
    return result.stdout


def test_study_is_answered_drawn_and_told_again(invoke: Callable[..., Result]) -> None:
    html = report(invoke, STUDIES / "h200-host-docker-podman-cupy.jsonl.xz")
    page = check(html)
    assert "Nothing is slower in any of 18 cases." == page.all("h1")[0].text
    titles = [heading.text for heading in page.all("h3")]
    assert {"docker-profile against host", "podman-profile against host"} <= set(titles)
    assert "primbench study gpu-study.toml" in page.all("pre")[-1].text
    assert len(html) < 600_000


def test_every_measuring_command_writes_one(invoke: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = invoke("gemm", "-m", 8, "-n", 8, "-k", 8, "--backend", "numpy", "--max-time", "5ms", "--report", path)
    assert 0 == result.exit_code
    page = check(path.read_text(encoding="utf-8"))
    assert page.all("h1")[0].text.startswith("1 of 1 cases were measured on ")


def test_file_without_records_says_so(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(encode(read(measured[0]).header))
    page = check(report(invoke, path))
    assert "Nothing was measured: the file holds no records." == page.all("h1")[0].text
    assert [] == page.all("figure")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--baseline", "host"], "--baseline host: FILE holds no two arms"),
        (["FILE", "FILE"], "3 files: one, or two that are set side by side"),
    ],
)
def test_what_cannot_be_is_refused(
    refusal: Callable[..., str], measured: tuple[Path, Result], tmp_path: Path, arguments: list[str], said: str
) -> None:
    name = str(measured[0])
    words = [name if word == "FILE" else word for word in arguments]
    assert said.replace("FILE", name) in refusal("report", name, *words, "-o", tmp_path / "page.html")
