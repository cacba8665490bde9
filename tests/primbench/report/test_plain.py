"""What words may hold, and what is left of it where they are shown."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from primbench.report.document import Document
from primbench.report.formats import csv as csv_format
from primbench.report.plain import json_of, lines, markdown, paragraph, printable


def csv_of(rows: list[dict[str, object]]) -> str:
    return csv_format.write(Document("", None, list, rows=lambda: rows))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a\x1b[2Jb\n ü", "a\\x1b[2Jb\\x0a ü"),
        ("\x9b31m", "\\x9b31m"),
        ("\x1b]8;;http://x\x07", "\\x1b]8;;http://x\\x07"),
        ("a\u202eb\u2028", "a\\u202eb\\u2028"),
        ("\U000e0001", "\\U000e0001"),
        ("\udc80", "\\udc80"),
        ("GPU 0 µs 漢字", "GPU 0 µs 漢字"),  # noqa: RUF001
    ],
)
def test_nothing_steers_a_terminal(words: str, expected: str) -> None:
    assert expected == printable(words)
    assert expected.replace("\\x0a", "\n") == lines(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a|b", r"a\|b"),
        ("<img src=x>", r"\<img src=x\>"),
        ("[x](javascript:y)", r"\[x\](javascript:y)"),
        ("`x` *y* __z__ bwd_data", r"\`x\` \*y\* \_\_z\_\_ bwd_data"),
        ("one\ntwo", r"one\\x0atwo"),
        ("- 1.5 -", "- 1.5 -"),
    ],
)
def test_nothing_is_markup(words: str, expected: str) -> None:
    assert expected == markdown(words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("# x", r"\# x"), ("- x", r"\- x"), ("  === x", r"  \=== x"), ("12. x", r"12\. x"), ("* x", r"\* x"), ("x", "x")],
)
def test_a_note_begins_no_heading_or_list(words: str, expected: str) -> None:
    assert expected == paragraph(words)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|x", "'+cmd|x"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        (" \n=1", "' \n=1"),
        ("\t=1", "\\x09=1"),
        ("\r=1", "\\x0d=1"),
        ("\uff1d1", "'\uff1d1"),
        ("-1.5", "-1.5"),
        ("+1e-3", "+1e-3"),
        (-1.5, "-1.5"),
        (None, ""),
        (True, "True"),
        ('a "b", c\n\x1b[2J', 'a "b", c\n\\x1b[2J'),
    ],
)
def test_a_spreadsheet_runs_nothing_and_numbers_stay(value: Any, expected: str) -> None:
    (row,) = csv.DictReader(io.StringIO(csv_of([{"=name": value, "other": 1}])))
    assert {"'=name": expected, "other": "1"} == row


def test_csv_has_all_columns_of_all_rows() -> None:
    assert "a,b\n1,\n,2\n" == csv_of([{"a": 1}, {"b": 2}])


def test_json_is_read_as_it_was_and_shows_no_control_character() -> None:
    document = {"\x9b": "a\x1b\x7f\u202e\U000e0001 ü\n"}
    written = json_of(document)
    assert document == json.loads(written)
    assert written.replace("\n", "").isprintable()
