"""Layers that stand on each other, of made-up times: what each adds, and which adds most for certain."""

from __future__ import annotations

from typing import Any

from primbench.measurement import Measurement, Samples
from primbench.report.document import Note, Table
from primbench.report.ladder import ladders
from primbench.results.record import Record
from primbench.spec.case import Case


def layer(name: str, times_s: list[float], above: str = "", first_s: float = 0.0) -> Record:
    labels = {"label": name} | ({"above": above} if above else {})
    samples = [Samples(samples_s=[each], calls_per_sample=1, taken_by="clock", stopped="count") for each in [first_s]]
    found = Samples(samples_s=times_s, calls_per_sample=1, taken_by="clock", stopped="count") if times_s else None
    return Record(
        case=Case(primitive="launch", parameters={"call": name}, backend="torch", device="cpu", labels=labels),
        status="ok" if found else "skipped", reason=None if found else "not installed",
        measurement=Measurement(batch_s=found, others={"first_s": samples[0]}) if found else None,
        started_utc="", duration_s=1.0,
    )  # fmt: skip


def around(seconds: float, by: float) -> list[float]:
    """Six, of which all are the 95 % interval of the median."""
    return [seconds - by, seconds - by / 2, seconds, seconds, seconds + by / 2, seconds + by]


def told(*records: Record) -> tuple[str, dict[str, dict[str, str]]]:
    """The answer, and the rows by their layers."""
    found: Any = ladders(records)
    note, table = found
    assert isinstance(note, Note)
    assert isinstance(table, Table)
    cells = {column.heading: column.cells() for column in table.columns}
    rows = zip(*cells.values(), strict=True)
    return note.words, {row[0]: dict(zip(cells, row, strict=True)) for row in rows}


def test_each_layer_is_set_off_against_the_one_that_it_stands_on() -> None:
    answer, rows = told(
        layer("module", around(3e-6, 0.04e-6), "op", first_s=0.5),
        layer("op", around(2e-6, 0.03e-6), "C"),
        layer("C", around(1e-7, 1e-9)),
        layer("kernel", [], "C"),
    )
    assert ["C", "op", "module", "kernel"] == [*rows]
    assert ("1.00 us", "50.0 ns", "op", "500 ms") == tuple(
        rows["module"][each] for each in ("adds", "+/- of that", "to", "first call")
    )
    assert ("-", "-", "not installed") == tuple(rows["kernel"][each] for each in ("call", "adds", "why not"))
    assert "op adds most to the layer below it: 1.90 us a call, to the 100 ns of C" in answer


def test_what_lies_within_the_intervals_is_not_told_to_add() -> None:
    answer, _ = told(layer("a", around(1e-6, 1e-7)), layer("b", around(1.1e-6, 1e-7), "a"))
    assert answer.startswith("No layer is known to add")
    answer, _ = told(layer("a", []), layer("b", around(1.1e-6, 1e-7), "a"))
    assert answer.startswith("No two layers were measured")


def test_a_layer_that_may_add_more_is_named_beside_the_one_that_does_for_certain() -> None:
    base = layer("C", around(1e-7, 1e-9))
    answer, _ = told(base, layer("a", around(2e-6, 1e-8), "C"), layer("b", around(1.5e-6, 1e-6), "C"))
    assert "a adds most to the layer below it, unless b adds more: 1.90 us a call" in answer
    answer, _ = told(base, layer("a", around(2e-6, 1e-8), "C"), layer("b", [1.5e-6], "C"))
    assert "a adds most to the layer below it, unless b adds more: 1.90 us a call" in answer


def test_entries_that_stand_on_none_and_times_that_were_not_taken_make_no_ladder() -> None:
    assert [] == ladders([layer("a", [1e-6]), layer("b", [1e-6])])
    assert [] == ladders([layer("a", []), layer("b", [], "a")])


def test_of_several_processes_the_interval_is_over_their_medians() -> None:
    """Each knows its own median well, and they differ by more: t of 2 degrees of freedom is 4.30."""
    processes = [layer("op", around(seconds, 1e-9), "C") for seconds in (1.9e-6, 2e-6, 2.1e-6)]
    _, rows = told(*processes, *[layer("C", around(1e-6, 1e-12))] * 3)
    assert ("2.00 us", "248 ns", "1.00 us") == tuple(rows["op"][each] for each in ("call", "+/-", "adds"))
