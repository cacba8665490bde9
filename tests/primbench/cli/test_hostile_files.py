"""Files of strangers: whatever words one holds, showing it steers no terminal, and a spreadsheet runs none of them."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from primbench.results.record import Line

if TYPE_CHECKING:
    from click.testing import Result

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\x9b1m|<b>\n# fake row"
CASE = ("primitive", "backend", "device", "parameters")  # with other ones there is nothing to show
DECODE = msgspec.json.Decoder(Line).decode


def with_hostile_words(line: Any) -> Any:
    """The line with every word in it hostile that may be so without the line being none any more."""
    for place, key in list(_words(line)):
        kept = place[key]
        place[key] = f"={kept}{HOSTILE}" if key in ("reason", "where") else f"{kept}{HOSTILE}"
        try:
            DECODE(msgspec.json.encode(line))
        except Exception:  # an enumeration, a dtype, a list of CPUs
            place[key] = kept
    return line


def _words(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, inner in entries:
        if key in CASE:
            continue
        if isinstance(inner, str):
            yield value, key
        elif isinstance(inner, dict | list):
            yield from _words(inner)


@pytest.fixture(scope="module")
def hostile(measured: tuple[Path, Result], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.jsonl"
    lines = [msgspec.json.decode(line) for line in measured[0].read_bytes().splitlines()]
    for line in lines:
        if line["kind"] == "record":
            line["case"]["labels"]["=cmd|' /C calc'!A0"] = "=1+1"
            line["reason"] = line["reason"] or "="
    path.write_bytes(b"".join(msgspec.json.encode(with_hostile_words(line)) + b"\n" for line in lines))
    assert path.read_bytes().count(b"u001b[2J") > 100
    return path


def twin(hostile: Path) -> Path:
    copied = hostile.with_name(f"{HOSTILE.replace('/', '')}.jsonl")
    copied.write_bytes(hostile.read_bytes())
    return copied


COMMANDS: dict[str, Callable[[Path, Path], tuple[object, ...]]] = {
    "show": lambda hostile, other: ("show", hostile),
    "show --against": lambda hostile, other: ("show", other, "--against", hostile),
    "show --markdown": lambda hostile, other: ("show", hostile, "--markdown", "-"),
    "show --csv": lambda hostile, other: ("show", hostile, "--csv", "-"),
    "show --json": lambda hostile, other: ("show", hostile, "--json", "-"),
    "compare": lambda hostile, other: ("compare", hostile, twin(hostile)),
    "compare --markdown": lambda hostile, other: ("compare", hostile, twin(hostile), "--markdown", "-"),
    "compare --csv": lambda hostile, other: ("compare", hostile, twin(hostile), "--csv", "-"),
    "compare --junit": lambda hostile, other: ("compare", hostile, twin(hostile), "--junit", "-"),
    "compare --github": lambda hostile, other: ("compare", hostile, twin(hostile), "--github", "-"),
    "compare --json": lambda hostile, other: ("compare", hostile, twin(hostile), "--json", "-"),
    "env diff": lambda hostile, other: ("env", "diff", hostile, other),
    "env diff --json": lambda hostile, other: ("env", "diff", hostile, other, "--json", "-"),
    "doctor --against": lambda hostile, other: ("doctor", "--against", hostile),
    "doctor --json": lambda hostile, other: ("doctor", "--against", hostile, "--json", "-"),
    "resume": lambda hostile, other: ("study", "--resume", hostile),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_word_of_a_file_steers_a_terminal(
    invoke: Callable[..., Result], measured: tuple[Path, Result], hostile: Path, command: str
) -> None:
    result = invoke(*COMMANDS[command](hostile, measured[0]))
    shown = result.stdout + result.stderr
    assert result.exit_code == 2 if command == "resume" else result.stdout, shown
    assert shown.replace("\n", "").isprintable(), [each for each in shown if not each.isprintable() and each != "\n"]
    if not command.endswith(("csv", "json")):
        assert not any(line.startswith("# fake row") for line in shown.splitlines()), shown
    if command.endswith("markdown"):
        assert "<b>" not in result.stdout.replace(r"\<b\>", "")
    if command.endswith("csv"):
        cells = [cell for row in csv.reader(io.StringIO(result.stdout)) for cell in row]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


def test_no_word_of_a_refusal_steers_a_terminal(refusal: Callable[..., str], tmp_path: Path) -> None:
    suite = tmp_path / "suite.toml"
    suite.write_text('[[gemm]]\nm = 1\nn = 1\nk = 1\n"\\u001b[2J\\u009b\\u202e" = 1\n')
    for arguments in (
        ("run", suite),
        ("show", tmp_path / f"gone{HOSTILE}"),
        ("study", "--arm", f"host:{HOSTILE}=1"),
        ("gemm", "--backend", f"x{HOSTILE}"),
    ):
        assert refusal(*arguments).isprintable()


PIPED: dict[str, tuple[str, ...]] = {
    "show": ("show", "{pipe}"),
    "show --against": ("show", "{other}", "--against", "{pipe}"),
    "compare": ("compare", "{other}", "{pipe}"),
    "compare a baseline": ("compare", "saved", "{other}"),
    "report": ("report", "{pipe}", "-o", "-"),
    "env diff": ("env", "diff", "{other}", "{pipe}"),
    "doctor --against": ("doctor", "--against", "{pipe}"),
    "run": ("run", "{folder}/suite.toml"),
    "study": ("study", "{folder}/suite.toml"),
    "explain": ("explain", "{folder}/suite.toml"),
    "--resume": ("study", "--resume", "{pipe}"),
}


@pytest.mark.parametrize("command", PIPED)
def test_a_pipe_that_nobody_writes_to_is_said_to_be_one_and_not_waited_for(
    refusal: Callable[..., str],
    measured: tuple[Path, Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    baseline = tmp_path / ".primbench/baselines/saved"
    baseline.mkdir(parents=True)
    for pipe in (tmp_path / "pipe.jsonl", tmp_path / "suite.toml", baseline / "run.jsonl"):
        os.mkfifo(pipe)
    places = {"pipe": tmp_path / "pipe.jsonl", "folder": tmp_path, "other": measured[0]}
    said = refusal(*(word.format_map(places) for word in PIPED[command]))
    assert "a pipe" in said
    assert ".jsonl" in said or "suite.toml" in said


def test_a_pipe_is_read_whenever_somebody_writes_to_it(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for late_s in (0.0, 0.3):
        writes = threading.Timer(late_s, lambda: pipe.write_bytes(measured[0].read_bytes()))
        writes.start()
        shown = invoke("show", pipe)
        writes.join()
        assert invoke("show", measured[0]).stdout == shown.stdout, shown.stderr
    with open(pipe, "r+b", buffering=0) as slow:  # open, and nothing written for longer than a writer is waited for

        def write() -> None:
            slow.write(b"{}\n")
            slow.close()

        writes = threading.Timer(1.5, write)
        writes.start()
        assert "its first line is no header" in invoke("show", pipe).stderr
        writes.join()


# What one node's file may hold that no node finds: where, and what.
STRANGE: dict[str, tuple[str, Any]] = {
    "an unknown field that is missing": ("environment.devices.missing", {"flux": "no capacitor", "a.b[0]": "x"}),
    "a variable without a name": ("environment.software.variables", {"": "1", "A\nB": "2", "a.b[0]": "3"}),
    "a plugin without a name": ("environment.software.nccl_plugins", {"": "", "\n": "x"}),
    "a package of any name": ("environment.software.packages", {"": "", "[": "1", "\x1b": "\x1b"}),
    "file systems of any name": ("environment.confinement.filesystems", {"": "", "\n": "on"}),
    "caches of any name": ("environment.software.caches", {"": "", "\n": "x"}),
    "threads of any name": ("environment.software.threads", {"": 1, "\n": 2}),
    "unknown fields everywhere": ("environment.machine.missing", {"": "", "\n": "x", "cpu_model": "\x1b"}),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_what_one_file_holds_ends_no_summary_of_others(
    invoke: Callable[..., Result], measured: tuple[Path, Result], tmp_path: Path, strange: str
) -> None:
    lines = [msgspec.json.decode(line) for line in measured[0].read_bytes().splitlines()]
    for name in ("n0-0", "n1-1", "n2-2"):
        (tmp_path / f"{name}.jsonl").write_bytes(measured[0].read_bytes())
    where, what = STRANGE[strange]
    *folders, last = where.split(".")
    for line in lines:
        if line["kind"] in ("header", "worker"):
            group = line
            for folder in folders:
                group = group[folder]
            group[last] = what
    path = tmp_path / "n3-3.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    os.mkfifo(tmp_path / "n4-4.jsonl")
    (tmp_path / "n5-5.jsonl").mkdir()
    summed = invoke("fleet", tmp_path)
    assert summed.stdout.startswith("4 nodes: not to be read: n4-4.jsonl, n5-5.jsonl."), summed.stderr
    for name, kind in (("n4-4", "a pipe"), ("n5-5", "a folder")):
        assert f"! {name}.jsonl: {tmp_path / name}.jsonl: {kind}, and no results file" in summed.stdout
    other = measured[0]
    commands = [("show", path), ("compare", path, other), ("env", "diff", path, other), ("doctor", "--against", path)]
    for command in [*commands, ("report", path, "-o", "-"), ("compare", other, path, "--report", "-")]:
        found = invoke(*command)
        assert found.stdout or found.stderr.startswith("Error: "), command
        assert (found.stdout + found.stderr).replace("\n", "").isprintable() or command[0] == "report"


def test_a_watch_file_in_which_no_time_went_by_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    kept = tmp_path / "watched.jsonl"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as job:
        words = [sys.executable, "-P", "-m", "primbench", "watch", str(job.pid), "--for", "1s", "-o", str(kept)]
        subprocess.run(words, check=True, capture_output=True)
        job.kill()
    lines = [msgspec.json.decode(line) for line in kept.read_bytes().splitlines()]
    for line in lines:
        for stretch in (line, line.get("whole") or {}):
            if "duration_s" in stretch:
                stretch["duration_s"] = 0
    kept.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    assert f"{kept}:2: not a line of `primbench watch`: " in refusal("show", kept)
