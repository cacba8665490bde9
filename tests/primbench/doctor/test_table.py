"""The table of causes: ids that are there once, and name one another."""

from __future__ import annotations

from typing import get_args

import pytest

from primbench.doctor import table
from primbench.doctor.cause import Cause
from primbench.problem import Work
from primbench.registry import primitives


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((Cause("a"), Cause("b"), Cause("a")), r"there twice: \['a'\]; named, and not there: \[\]"),
        ((Cause("a", explains_away=("b", "a")),), r"there twice: \[\]; named, and not there: \['b'\]"),
        ((Cause("a", under="c"),), r"named, and not there: \['c'\]"),
    ],
)
def test_a_row_that_is_there_twice_or_names_none_is_told(
    monkeypatch: pytest.MonkeyPatch, rows: tuple[Cause, ...], told: str
) -> None:
    monkeypatch.setattr(table, "_rows", lambda: iter(rows))
    with pytest.raises(ValueError, match=told):
        table.causes.__wrapped__()


def test_each_cause_can_be_told_and_leads_by_itself_or_by_one_that_does() -> None:
    for cause in table.causes().values():
        assert any((cause.effect, cause.here, cause.between, cause.in_job)), cause.id
        assert table.leading(cause).under is None, cause.id


def test_causes_name_no_primitive() -> None:
    named = {word for cause in table.causes().values() for word in (*cause.slows, *cause.calls)}
    named |= {work for cause in table.causes().values() for works in (cause.works or {}).values() for work in works}
    assert named & {*primitives()} <= {*get_args(Work)}  # some are called as the kind of their work


def test_a_cause_comes_and_goes_by_settings_of_arms() -> None:
    assert {"shm"} <= {*table.settings_of(table.causes()["shared-memory"])}
    assert "seccomp" in table.settings_of(table.causes()["filters"])
    assert ["cpus", "cpuset", "affinity"] == table.settings_of(table.causes()["cpus"])
