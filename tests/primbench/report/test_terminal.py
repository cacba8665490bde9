from __future__ import annotations

import pytest

from primbench.report.terminal import grid, width


def test_columns_line_up_and_are_as_narrow_as_their_cells() -> None:
    assert ["a    b  c", "dd   e", "  f  g  h"] == list(grid([("a", "b", "c"), ("dd", "e"), ("  f", "g", "h")], 80))


def test_widest_columns_give_way_and_their_cells_go_on_below() -> None:
    rows = [("name", "one two three four", "x"), ("b", "", "two words, and two")]
    expected = ["name  one two     x", "      three four", "b                 two words,", "                  and two"]
    assert expected == list(grid(rows, 29))


def test_cell_with_nothing_to_its_right_has_the_rest_of_the_line() -> None:
    rows = [("a", "one two", "some words"), ("a", "one two three four five", "")]
    assert ["a  one two     some words", "a  one two three four", "   five"] == list(grid(rows, 25))


def test_paths_and_lists_are_broken_behind_their_slashes_and_commas() -> None:
    assert ["x  /aaaa/bbbb/", "   cccc dd,ee,", "   ffffff"] == list(grid([("x", "/aaaa/bbbb/cccc dd,ee,ffffff")], 14))


def test_words_too_long_for_their_column_are_cut() -> None:
    assert ["a  " + "b" * 17, "   bbb"] == list(grid([("a", "b" * 20)], 20))


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
