"""Files of strangers: whatever words one holds, showing it steers no terminal, and a spreadsheet runs none of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from primbench.results.record import Line

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
