"""Steps of whole models in tf_cnn_benchmarks' lines, against its formulas by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from primbench.errors import InvalidRequest
from primbench.measurement import Measurement, Samples
from primbench.report import steps
from primbench.results.record import Record
from primbench.spec.case import Case

from .exports import text_of

text = text_of(steps.document)
TIMES_S = [0.010, 0.012, 0.011, 0.013, 0.010, 0.050, 0.011, 0.012, 0.010, 0.011, 0.012, 0.010, 0.014]
PARAMETERS: dict[str, int | float | str] = {
    "network": "mnist_cnn",
    "mode": "train",
    "data": "device",
    "dtype": "float32",
    "batch_size": 64,
}


def record(times_s: list[float], *, calls: int = 1, **changes: str) -> Record:
    wall = Samples(samples_s=times_s, calls_per_sample=calls, taken_by="host clock", stopped="count")
    return Record(
        case=Case(primitive="model", parameters={**PARAMETERS, **changes}, backend="torch", device="cuda:0"),
        status="ok", measurement=Measurement(wall_s=wall), started_utc="2026-01-01T00:00:00Z", duration_s=1.0,
    )  # fmt: skip


def test_numbers_are_those_of_its_formulas() -> None:
    lines = text([record(TIMES_S)]).splitlines()
    assert ["Model:       mnist_cnn", "Batch size:  64", "Device:      torch cuda:0"] == [*lines[:1], *lines[4:6]]
    first, tenth, line, total, _ = lines[-5:]
    assert f"1       images/sec: {64 / 0.01:.1f} +/- 0.0 (jitter = 0.0)" == first
    speeds = 64 / np.array(TIMES_S[:10])
    mean, error = 64 / np.mean(TIMES_S[:10]), speeds.std() / 10**0.5
    jitter = 1.4826 * np.median(np.abs(speeds - np.median(speeds)))
    assert f"10      images/sec: {mean:.1f} +/- {error:.1f} (jitter = {jitter:.1f})" == tenth
    assert (f"total images/sec: {13 * 64 / sum(TIMES_S):.2f}", {"-"}) == (total, set(line))


def test_a_hundred_steps_are_shown_and_no_more() -> None:
    shown = [line.split()[0] for line in text([record([0.01] * 250)]).splitlines() if "+/-" in line]
    assert ["1", *(str(each) for each in range(10, 101, 10))] == shown


@pytest.mark.parametrize(
    "other", [record(TIMES_S, batch_size="64"), record(TIMES_S, calls=2), record([0.0, 0.01])], ids=str
)
def test_what_has_no_steps_one_by_one_is_left_out(other: Record) -> None:
    assert text([record(TIMES_S)]) == text([other, record(TIMES_S), other])
    with pytest.raises(InvalidRequest, match="no step of a whole model is in it"):
        text([other])


def test_no_word_of_a_file_makes_a_line() -> None:
    shown = text([record(TIMES_S, network="x\n1  images/sec: 9e9\x1b[2J")])
    assert shown.replace("\n", "").isprintable()
    assert 2 == sum("images/sec: " in line and line[:1].isdigit() for line in shown.splitlines())
