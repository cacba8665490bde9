"""The composite action for GitHub: its last step is run as it stands, by a shell, where `primbench` is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from .made import write_days

ACTION = Path(__file__).parents[3] / ".github/actions/history/action.yml"


def test_its_step_makes_a_page_and_a_summary_and_fails_where_it_is_asked_to(tmp_path: Path) -> None:
    text = ACTION.read_text()
    *_, step = re.findall(r"^      run: \|\n((?:        .*\n)+)", text, re.MULTILINE)
    given = dict(re.findall(r"^        ([A-Z]+): \$\{\{ inputs\.(\w+) \}\}$", text, re.MULTILINE))
    assert {"RESULTS": "results", "PAGE": "page", "OPTIONS": "options"} == given
    assert all(re.search(rf"^  {name}:$", text, re.MULTILINE) for name in given.values())
    (tmp_path / "primbench").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m primbench "$@"\n')
    (tmp_path / "primbench").chmod(0o755)
    values = {
        "RESULTS": str(write_days(tmp_path / "runs")),
        "PAGE": str(tmp_path / "page.html"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    (tmp_path / "summary.md").write_text("before\n")
    for options, status in (("", 0), ("--fail-on-change --since 2026-09-01", 1)):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", textwrap.dedent(step)], check=False,
                              env={**os.environ, **values, "OPTIONS": options})  # fmt: skip
        assert status == done.returncode
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("before\n")
    assert 2 == summary.count("slower since 2026-09-15")
