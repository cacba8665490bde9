"""What the README and the pages of docs/ show is true: programs run, commands parse, suites are some."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest

import primbench
import primbench.suites as suites
from bench.published_studies import in_page, shown_of
from primbench.cli import commands as command_files
from primbench.cli import main
from primbench.cli.primitive import MeasurePrimitive
from primbench.cli.problem import entries_of, in_words
from primbench.compare.pairs import compare
from primbench.pytesting import AGAINST, FAIL_ABOVE, SAVE
from primbench.registry import primitives
from primbench.report.headline import headline
from primbench.results import file as results_file
from primbench.units import format_time

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
SHOWN = "\n".join([README, *PAGES.values()])
PROSE = re.sub(r"^```.*?^```$", "", SHOWN, flags=re.MULTILINE | re.DOTALL)
OF_OTHERS = {"--container-image", "--gpus-per-task"}  # options of other programs
MOST_LINES = 90
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Times")
"""Of a version in the change log."""


def blocks(*languages: str, text: str = SHOWN) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [text for language, text in found if language in languages]


def commands() -> list[list[str]]:
    """The arguments of every primbench command in a block for a shell or CI, and of those named whole in the prose."""
    shown = [
        re.sub(r"^\s*(\$ |- run: |srun -N [0-9]+ )?", "", line)
        for text in blocks("sh", "bash", "console", "yaml")
        for line in text.splitlines()
    ]
    named = [span for span in re.findall(r"`(primbench [^`]+)`", PROSE) if not re.search(r"\b[A-Z]{2,}\b", span)]
    parts = [part for line in (*shown, *named) for part in re.split(r"&&|\|", line)]
    split = [shlex.split(part, comments=True) for part in parts if "primbench " in part]
    found = [tuple(words[1:]) for words in split if words and words[0].rpartition("/")[2] == "primbench"]
    return [list(words) for words in dict.fromkeys(found) if words]


def parsed(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The command's name and its values, checked as when it runs, but not run."""
    with click.Context(main, info_name="primbench", **main.context_settings) as context:
        name, command, rest = main.resolve_command(context, arguments)
    assert name is not None
    assert command is not None
    with command.make_context(name, rest, parent=context) as made:
        return name, made.params


def test_the_table_of_profiles_is_that_of_the_kept_study() -> None:
    comparison = compare(results_file.read(ROOT / "suites/reference/studies/h200-host-docker-podman-cupy.jsonl.xz"))
    assert comparison.again is not None
    assert {"equivalent", "equivalent-in-these-runs"} == {case.verdict for arm in comparison.arms for case in arm.cases}
    assert headline(comparison).startswith("Nothing is slower in any of 18 cases")
    assert "\nNothing is slower in any case. Each takes as long, within 1 % for kernel times, " in PAGES["measured.md"]
    for number, case in enumerate(comparison.again.cases):
        primary = [arm.cases[number].primary for arm in (*comparison.arms, comparison.again)]
        shown = [
            f"{each.ratio:.3f} [{each.interval[0]:.3f}, {each.interval[1]:.3f}]"
            for each in primary
            if each and each.interval
        ]
        assert 3 == len(shown)
        first, *_ = primary
        assert first is not None
        assert f" | {format_time(first.baseline_s)} | {' | '.join(shown)} |\n" in PAGES["measured.md"], case.case


def test_the_table_of_published_studies_is_that_of_the_kept_ones() -> None:
    files, page = sorted((ROOT / "suites/reference/studies").glob("h*-*.jsonl.xz")), PAGES["measured.md"]
    assert page == in_page(files, page)
    shown = shown_of(files)
    assert {"fathom", "mnist_imdb", "network", "snn_lnn", "tf_cnn"} == {row[0] for row in shown.rows}
    assert {"reproduced", "not reproduced with equal stacks"} <= {row[-1] for row in shown.rows}


def test_what_leaving_out_slow_samples_did_is_that_of_a_study_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = results_file.read(ROOT / "tests/primbench/fixtures/launches-one-after-the-other.jsonl.xz")
    found = []
    for _ in range(2):
        again = compare(results).again
        assert again is not None
        (primary,) = [each.primary for each in again.cases if each.case.parameters["call"] == "dispatch"]
        assert primary is not None
        assert primary.interval is not None
        found.append("[{:.3f}, {:.3f}]".format(*primary.interval))
        monkeypatch.setattr("primbench.compare.chosen.slowed", lambda *sides: None)
    narrowed, whole = found
    assert f"against itself from {whole} to {narrowed}." in " ".join(PAGES["method.md"].split())


def test_readme_is_short_and_the_index_names_every_page() -> None:
    assert MOST_LINES >= len(README.splitlines())
    assert {"gemm", "run", "list", "study", "help"} <= {arguments[0] for arguments in commands()}
    linked = set(re.findall(r"\]\((\S+\.md)\)", PAGES["index.md"]))
    trees = re.findall(r"toctree\}\n(.*?)```", PAGES["index.md"], re.DOTALL)
    in_site = {f"{name}.md" for tree in trees for name in tree.split()}
    assert PAGES.keys() - {"index.md"} == linked == in_site & PAGES.keys()


def test_what_is_public_is_what_the_page_promises() -> None:
    (names,) = re.findall(r"The names of `primbench`: (.+?)\.\n\n", PAGES["stability.md"], re.DOTALL)
    assert primbench.__all__ == names.replace("\\", "").replace("\n", " ").split(", ")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{primbench.__version__}] - " in changes
    assert set(re.findall(r"^### (\w+)$", changes, re.MULTILINE)) <= {*SECTIONS}


@pytest.mark.parametrize("name", ["README.md", *PAGES])
def test_links_lead_somewhere(name: str) -> None:
    folder, text = (ROOT, README) if name == "README.md" else (ROOT / "docs", PAGES[name])
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not link.startswith("#")]
    paths = [(folder / link.partition("#")[0]).resolve() for link in links]
    assert [] == [path for path in paths if not path.is_file()]
    assert name == "README.md" or {folder} >= {path.parent for path in paths}, "a page's site has docs/ alone"


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_command_parses_and_means_something(arguments: list[str]) -> None:
    name, values = parsed(arguments)
    sizes = values.get("sizes") or values.get("suite") or ""
    if sizes.endswith(".toml"):
        return  # a file of the reader's own
    if name in primitives():
        problem, asked = in_words(arguments, MeasurePrimitive)
        assert entries_of(problem, asked.problem)
    elif name == "run":
        assert suites.read(values["suite"], only=values["primitives"], set=values["set_name"])


def test_options_named_in_the_prose_exist() -> None:
    with click.Context(main, **main.context_settings) as context:
        known = [main, *(main.get_command(context, name) for name in (*primitives(), *command_files.known()))]
    there = {flag for command in known if command for option in command.params for flag in option.opts} | {
        "--help",
        "--help-all",
        *(SAVE, AGAINST, FAIL_ABOVE),
    }
    assert set(re.findall(r"`(--?[a-z][a-z-]*)", PROSE)) <= there | OF_OTHERS


def test_programs_run_one_after_the_other(tmp_path: Path) -> None:
    for number, program in enumerate(blocks("python"), 1):
        if "import torch" in program and find_spec("torch") is None:
            continue  # the model of own-model.md, which runs with the tests of models
        found = subprocess.run(
            [sys.executable, "-P", "-W", "error", "-c", program],
            cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert (0, "") == (found.returncode, found.stderr), f"python block {number}"


def test_suites_shown_are_suites(tmp_path: Path) -> None:
    shown = [text for page in ("sizes.md", "start-up.md") for text in blocks("toml", text=PAGES[page])]
    assert shown
    for text in shown:
        (tmp_path / "mine.toml").write_text(text)
        assert suites.read(tmp_path / "mine.toml")
