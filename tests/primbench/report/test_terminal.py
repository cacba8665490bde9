from __future__ import annotations

import fcntl
import functools
import os
import pty
import struct
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from primbench.doctor import place
from primbench.environment import fingerprint
from primbench.numa import scan
from primbench.report import layout
from primbench.report.layout import grid, room, width

if TYPE_CHECKING:
    from click.testing import Result


def test_columns_line_up_and_are_as_narrow_as_their_cells() -> None:
    assert ["a    b  c", "dd   e", "  f  g  h"] == list(grid([("a", "b", "c"), ("dd", "e"), ("  f", "g", "h")], 80))


def test_widest_columns_give_way_and_their_cells_go_on_below() -> None:
    rows = [("name", "one two three four", "x"), ("b", "", "two words, and two")]
    expected = ["name  one two     x", "      three four", "b                 two words,", "                  and two"]
    assert expected == list(grid(rows, 29))


def test_cell_with_nothing_to_its_right_has_the_rest_of_the_line() -> None:
    rows = [("a", "one two", "some words"), ("a", "one two three four five", "")]
    assert ["a  one two     some words", "a  one two three four", "   five"] == list(grid(rows, 25))


def test_no_word_is_broken() -> None:
    assert ["x  /aaaa/bbbb", "   cc-cc,dd"] == list(grid([("x", "/aaaa/bbbb cc-cc,dd")], 14))
    assert ["a", "b" * 30] == list(grid([("a", "b" * 30)], 20))


def test_what_is_right_of_a_word_too_long_for_its_column_begins_below() -> None:
    rows = [("one", "b" * 20, "two words"), ("two", "b", "c" * 24), ("three", "b", "c")]
    expected = [
        "one    " + "b" * 20,
        "                   two words",
        "two    b",
        "      " + "c" * 24,
        "three  b           c",
    ]
    assert expected == list(grid(rows, 30))
    assert ["one    " + "b" * 20 + "  two words"] == list(grid(rows, None))[:1]


def test_indentation_is_kept_in_the_lines_below() -> None:
    assert ["  one two", "  three"] == list(grid([("  one two three",)], 10))


def test_no_rows_are_no_lines() -> None:
    assert [] == list(grid([], 80))


@pytest.mark.parametrize(("columns", "expected"), [("80", 80), ("300", 120), ("5", 40)])
def test_width_is_that_of_the_terminal_within_bounds(
    monkeypatch: pytest.MonkeyPatch, columns: str, expected: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert expected == width()


def test_room_is_that_of_the_terminal_asked_wherever_stdout_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    controller, other = pty.openpty()
    with open(other, "w") as stream:
        assert 80 == room(stream), "a new one does not tell how wide it is"
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 57, 0, 0))
        assert 57 == room(stream)
        monkeypatch.setenv("COLUMNS", "70")
        assert 70 == room(stream)
    os.close(controller)


@pytest.mark.parametrize("command", ["doctor", "env", "topo"])
def test_a_place_fits_80_columns_with_all_its_words(
    command: str, invoke: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((place, "look"), (fingerprint, "collect"), (scan, "collect")):
        monkeypatch.setattr(module, name, functools.cache(getattr(module, name)))  # which is otherwise at each look
    shown = []
    for columns in (80, 1000):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(layout, "room", lambda stream=None, columns=columns: columns)
        shown.append(invoke(command).stdout)
    assert [] == [line for line in shown[0].splitlines() if len(line) > 80 and len(line.split()[-1]) < 60], (
        "no long path"
    )
    narrow, wide = (set(text.split()) for text in shown)
    assert narrow == wide
