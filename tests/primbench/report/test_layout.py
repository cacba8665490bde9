"""Tables in the width of a terminal: nothing wider, no word broken, nothing lost."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from primbench.compare.pairs import compare
from primbench.report import comparison, layout, table, text
from primbench.report.document import Document, Note, Section, Table, typed
from primbench.report.formats import known
from primbench.results import file as results_file

ROOT = Path(__file__).parents[3]
RECORDED = sorted((ROOT / "suites/reference/studies").glob("*.xz"))
WIDTH = 80
CELL = st.text("ab ", max_size=30).map(lambda text: " ".join(text.split()))


def words(text: str) -> list[str]:
    return text.split()


def check(lines: list[str], most: int) -> None:
    assert [] == [line for line in lines if len(line) > most and len(words(line)) > 1]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem.partition(".")[0])
def test_recorded_studies_fit_a_terminal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_file.read(path)
    found = compare(results)
    made = table.tables(results.latest(), results.workers)
    wide = [text.write(comparison.document(found)), *map(text.of_table, made)]
    monkeypatch.setattr(layout, "room", lambda: WIDTH)
    narrow = [text.write(comparison.document(found)), *map(text.of_table, made)]
    for one, fitted in zip(wide, narrow, strict=True):
        check(fitted.splitlines(), WIDTH)
        before, after = ({word.rstrip(",") for word in words(each)} for each in (one, fitted))
        assert before <= after
        assert {"all", "rows:", "row", "\\"} >= {word for word in after - before if not word.isdecimal()}


def test_rows_that_notes_cite_have_numbers() -> None:
    made = table.tables(results_file.read(RECORDED[-1]).latest())
    for each in made:
        assert any(re.search(r"\brows? [0-9]", note.text) for note in each.notes) == (each.headings[0] == "row")


@given(st.lists(st.lists(CELL, min_size=4, max_size=4), min_size=2, max_size=6), st.integers(45, 90))
def test_any_table_fits_and_keeps_its_words(rows: list[list[str]], most: int) -> None:
    lines = list(layout.fitted(layout.cells_of(rows), most))
    check(lines, most)
    left = words(" ".join(lines))
    for word in {word for row in rows for cell in row for word in words(cell)}:
        assert any(word == found.rstrip(",") for found in left)


def test_a_command_that_goes_on_in_the_next_line_can_be_pasted() -> None:
    command = ["primbench", "study", "--arm", "host", "--arm", "docker", "--primitive", "launch"]
    first, second = layout.wrapped("next:", 40, command).split("\n")
    assert "next: primbench study --arm host \\" == first
    assert "  --arm docker --primitive launch" == second


def test_what_all_rows_share_stands_above_them() -> None:
    rows = [
        ["m", "dtype", "device", "check"],
        ["1760", "bfloat16", "5.34 us", "ok"],
        ["35", "bfloat16", "6.8 us", "ok"],
    ]
    assert ["all rows: dtype bfloat16", "   m   device  check", "1760  5.34 us  ok", "  35   6.8 us  ok"] == list(
        layout.fitted(layout.cells_of(rows), 25)
    )


@given(st.lists(st.text("a b'\"\\$", min_size=1, max_size=9), min_size=1), st.integers(20, 60))
def test_no_word_of_a_command_is_in_two_lines(command: list[str], most: int) -> None:
    pasted = layout.wrapped("fix:", most, typed(command)).replace(" \\\n  ", " ")
    assert ["fix:", *command] == shlex.split(pasted)


def test_a_list_is_written_without_headings_that_say_nothing() -> None:
    place = Table.listed("limits", [("cpus", "0-3", "cpuset"), ("  note", "a|b")], ("", "", ""), [Note("so it is")])
    code = Note("# *all* of it\nulimit -l", "code")
    document = Document("place", None, lambda: [Section("", [place]), Section("", [code])])
    assert "limits\n  cpus    0-3  cpuset\n    note  a|b\nso it is\n\n# *all* of it\nulimit -l\n" == text.write(
        document
    )
    written = str(known()["markdown"].write(document))
    assert "|:-----|:-----|:-------|\n| cpus | 0-3  | cpuset |\n| note | a\\|b |        |" in written
    assert written.endswith("\n    # *all* of it\n    ulimit -l\n\n")
    page = str(known()["report"].write(document))
    assert ("<pre># *all* of it\nulimit -l</pre>" in page, "<thead>" in page) == (True, False)


def test_a_list_of_nothing_is_its_title() -> None:
    document = Document("", None, lambda: [Section("", [Table.listed("same stack: yes", [])])])
    assert "same stack: yes\n" == text.write(document)
    assert "**same stack: yes**\n" == known()["markdown"].write(document)
