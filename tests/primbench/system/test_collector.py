from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from primbench.results import file as results_file
from primbench.system import collector

if TYPE_CHECKING:
    from click.testing import Result


@pytest.mark.parametrize("objects", [None, 50_000])
def test_how_it_was_found_is_told_while_it_rests(objects: int | None) -> None:
    usual, thresholds = collector.in_words(), gc.get_threshold()
    collector.rest(objects)
    collector.rest()
    try:
        assert (usual, False) == (collector.in_words(), gc.isenabled())
    finally:
        collector.collect_again()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    assert (usual, True) == (collector.in_words(), gc.isenabled())


def test_who_asks_and_who_measures_tell_the_same(measured: tuple[Path, Result]) -> None:
    results = results_file.read(measured[0])
    told = [each.software.interpreter for each in (results.header.environment, results.workers[0].environment)]
    assert 1 == len({each["garbage collection"] for each in told if each})
