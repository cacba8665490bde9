"""Every command that README and the pages of docs/ show is run word for word, or says behind it what it takes."""

from __future__ import annotations

import json
import lzma
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from primbench.backends import missing
from primbench.cli import certifying

Invoke = Callable[..., Result]
ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))}
MARKS = set(re.findall(r"`((?:needs|sized|takes) [^`]+)`", PAGES["use.md"]))
OTHERS = [". .venv/bin/activate"]  # of README, beside the command that tests all: CI reads it there
JUDGES = {"certify", "compare", "doctor", "fleet", "why"}  # whose exit status is 1 by what they find
WRITES = {"-o", "--csv", "--json", "--markdown", "--svg"}
OWN = """
[defaults]
backend = "{backend}"
device = "cpu"
threads = 1
min-time = "1ms"
max-time = "2ms"
[gemm]
sizes = "small"
[memcpy]
sizes = "small"
[run]
primitive = {only}
[numa]
bytes = "1MiB"
rounds = 1
[selftest]
pairs = 3
time-budget = "1h"
json = "selftest.json"
"""
"""A user's own defaults, which leave the commands as they are written."""
STUDY = ROOT / "suites/reference/studies/h200-host-docker-podman-cupy.jsonl.xz"


def first_program(text: str) -> str:
    return str(re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0])


@dataclass(frozen=True)
class Command:
    """words: of primbench, whatever starts it. marks: what stands behind it of what it takes."""

    words: list[str]
    marks: frozenset[str]

    @property
    def files(self) -> list[str]:
        """Which it writes."""
        return [file for option, file in zip(self.words, self.words[1:], strict=False) if option in WRITES]


def lines_of(page: str) -> list[str]:
    """Of its blocks for a shell, and those for a shell in one for CI."""
    blocks = re.findall(r"^```(sh|yaml)\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)
    lines = [(language, line.strip()) for language, text in blocks for line in text.splitlines()]
    return [line.removeprefix("- run: ") for language, line in lines if language == "sh" or "- run: " in line]


def commands_of(page: str) -> list[Command]:
    found = []
    for line in lines_of(page):
        words, marks = shlex.split(line, comments=True), re.search(r"(?:# |; )((?:needs|sized|takes) .*)$", line)
        names = [Path(word).name for word in words]
        if "primbench" in names:
            own = words[1 + names.index("primbench") :]
            found.append(Command(own, frozenset(marks[1].split(", ") if marks else ())))
    return found


RUN = sorted(page for page in PAGES if any(not each.marks for each in commands_of(page)))


@pytest.fixture
def given(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``given(page, backend, only)`` is in a folder with what the page's commands that are not run would have left."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIMBENCH_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def fleet(*nodes: str, again: tuple[str, ...]) -> None:
        for node in nodes:  # one by one and by hand
            monkeypatch.setenv("SLURMD_NODENAME", node)
            assert 0 == invoke("run", "quick", "--fleet", "fleet").exit_code
        for folder in again:
            shutil.copytree("fleet", folder)

    def make(page: str, backend: str, only: list[str]) -> None:
        Path("config.toml").write_text(OWN.format(backend=backend, only=only))
        if page in ("own-model.md", "studies.md", "measured.md"):
            Path("study.jsonl").write_bytes(lzma.decompress(STUDY.read_bytes()))
            Path("study.jsonl").rename("operators.jsonl" if page == "own-model.md" else "study.jsonl")
            Path("train.py").write_text(first_program(PAGES["own-model.md"]))
        if page == "faster.md":
            Path("mine.py").write_text(first_program(PAGES[page]))
        if page == "fleet.md":
            fleet("n1", "n2", "n3", again=("earlier",))
        if page == "certify.md":
            entry = '{ call = "getppid", device = "cpu", set = '
            Path("short.toml").write_text(f'launch = [{entry}"host" }}, {entry}"cpu" }}]\n')
            monkeypatch.setattr(certifying, "SUITE", "short.toml")
            assert invoke("certify", "certificate/").exit_code <= 1
        if page == "which-node.md":
            fleet("n1", again=("again", "between"))

    return make


def run(page: str, invoke: Invoke, *marks: str) -> None:
    """What needs nothing else than the marks, one command after the other."""
    for command in commands_of(page):
        if command.marks <= {*marks}:
            done = invoke(*command.words)
            is_judged = bool({*command.words[:1]} & JUDGES) or "--versus" in command.words
            assert done.exit_code <= is_judged, (command.words, done.output)
            assert done.output, command.words
            assert [] == [file for file in command.files if not Path(file).stat().st_size]


def test_a_command_without_a_mark_is_run_and_marks_are_few() -> None:
    assert MARKS == {mark for page in PAGES for command in commands_of(page) for mark in command.marks}
    others = [line for page in PAGES for line in lines_of(page) if "primbench" not in line and "pytest" not in line]
    assert OTHERS == others
    shown = {page for page in PAGES if commands_of(page)}
    assert shown == {*RUN}, "pages of which nothing would be run"


@pytest.mark.parametrize("page", RUN)
def test_commands_are_run_word_for_word(page: str, given: Callable[..., None], invoke: Invoke) -> None:
    given(page, "numpy", ["launch"])
    run(page, invoke)
    if page == "README.md":
        check_selftest(json.loads(Path("selftest.json").read_text()))


def check_selftest(found: dict[str, Any]) -> None:
    """It says what this machine tells, by three pairs of real processes, however long these take."""
    kept = json.loads(Path("cache/primbench/selftest.json").read_text())
    assert kept.items() <= found.items()
    assert {"launch", "memcpy", "gemm", "files", "startup"} == {each["primitive"] for each in kept["kinds"]}
    assert 5 == len(kept["kinds"])
    assert (3, 4) == (kept["pairs"], kept["relabellings"])


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_step_is_taken_apart_word_for_word(given: Callable[..., None], invoke: Invoke) -> None:
    given("own-model.md", "torch", [])
    run("own-model.md", invoke, "needs torch")


@pytest.mark.wheel
@pytest.mark.skipif(find_spec("sphinx") is None, reason="sphinx is not installed: pip install 'primbench[docs]'")
def test_the_man_page_has_a_synopsis_and_no_empty_links(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__", "reference"))
    program = [sys.executable, "-P", "-m", "sphinx", "-q", "-W", "-b", "man"]
    done = subprocess.run([*program, tmp_path / "docs", tmp_path], capture_output=True, text=True, timeout=600)
    assert (0, "") == (done.returncode, done.stderr)
    written = (tmp_path / "primbench.1").read_text()
    assert "<>" not in written
    assert ["NAME", "SYNOPSIS", "DESCRIPTION"] == re.findall(r"^\.SH (.+)", written, re.MULTILINE)[:3]
    assert "\nprimbench run [OPTIONS] NAME|FILE.toml\n" in written
