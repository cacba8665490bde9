"""Steps of several ranks: threads of each, and collectives that cannot be made here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.doses.bounding import here_of
from tests.primbench.doses import test_telling as simulation

if TYPE_CHECKING:
    import pytest

    from primbench.measurement import Measurement


def test_collectives_that_cannot_be_made_take_no_time_of_other_doses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all that is left goes to them, of whom no dose tells anything."""
    whole = simulation.measured

    def without(*args: Any) -> Measurement:
        found = whole(*args)
        return replace(
            found, others={name: each for name, each in found.others.items() if not name.startswith("collectives")}
        )

    monkeypatch.setattr(simulation, "measured", without)
    told = {each.factor: each for each in simulation.bounds(monkeypatch, ranks=2).slopes}
    collectives = told["collectives"]
    assert ("not told", 0, None) == (collectives.verdict, collectives.pairs, collectives.share)
    assert collectives.reason == "it makes none of them here"
    assert told["calls"].pairs < told["busy"].pairs


def test_ranks_share_the_cpus_where_no_threads_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libraries of ranks have it that are started without."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {*range(6)})
    for ranks, asked, threads in ((1, None, 6), (2, None, 3), (2, 4, 4), (4, None, 1)):
        step = simulation.question(budget_s=1.0, ranks=ranks).step
        assert threads == here_of(step, asked).threads
