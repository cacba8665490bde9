"""Results files of made times, as `primbench run` leaves them, of days in a row."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from primbench.environment.fingerprint import Environment
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import encode
from primbench.results.record import SCHEMA_VERSION, Header, Record, Worker
from primbench.spec.case import Case

from ..conftest import HERE, PLACED

FIRST_DAY = datetime(2026, 9, 1, 12, tzinfo=UTC)
GEMM = Case(primitive="gemm", parameters=build("gemm", {"m": 64, "n": 64, "k": 64}).parameters(), backend="numpy",
            device="cpu")  # fmt: skip


def at_driver(version: str, environment: Environment = HERE) -> Environment:
    return replace(environment, devices=replace(environment.devices, driver_version=version))


def on_cpu(model: str, environment: Environment = HERE) -> Environment:
    return replace(environment, machine=replace(environment.machine, cpu_model=model))


def write(
    path: Path,
    time: datetime,
    time_s: float,
    case: Case = GEMM,
    environment: Environment = HERE,
    labels: Mapping[str, str] | None = None,
) -> Path:
    """One run of one case, its samples around a time."""
    around = replace(environment, machine=replace(environment.machine, boot_id=f"{time:%j-%H}"))
    header = Header(schema_version=SCHEMA_VERSION, command=["primbench"], started_utc=time.isoformat(),
                    labels={**(labels or {})}, environment=around)  # fmt: skip
    worker = Worker(worker=0, pid=1, backend="numpy", device="cpu", environment=around, placement=PLACED, versions={})
    samples = Samples(samples_s=[time_s * (1 + 0.001 * each) for each in range(-5, 6)], calls_per_sample=1,
                      taken_by="host clock", stopped="count")  # fmt: skip
    record = Record(case=case, status="ok", worker=0, started_utc=time.isoformat(), duration_s=1.0,
                    measurement=Measurement(batch_s=samples))  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([encode(header), encode(worker), encode(record)]))
    return path


def write_days(
    folder: Path,
    *,
    days: int = 24,
    step: float = 1.05,
    at: int = 14,
    environment: Callable[[int], Environment] = lambda day: HERE,
    labels: Callable[[int], Mapping[str, str]] = lambda day: {},
    when: Callable[[int], datetime] = lambda day: FIRST_DAY + timedelta(days=day),
    case: Callable[[int], Case] = lambda day: GEMM,
    seed: int = 7,
) -> Path:
    """A run a day, which scatters by 1 %, ``step`` times as long from day ``at`` on."""
    dice = random.Random(seed)
    for day in range(days):
        time_s = 1e-3 * math.exp(dice.gauss(0, 0.01)) * (step if day >= at else 1)
        write(folder / f"{day:03}.jsonl", when(day), time_s, case(day), environment(day), labels(day))
    return folder
