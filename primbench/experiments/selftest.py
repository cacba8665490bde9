"""What a machine tells of itself: how often of no difference, and how small a one in how long.

The host against itself, by `primbench selftest`. Kept in the user's cache folder, so that of an undecided verdict of a
study on the same machine it can be told how long it would take.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import random
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from primbench.compare.matching import Matching, paired
from primbench.compare.sides import identity, sides_of
from primbench.compare.verdicts import verdicts
from primbench.errors import InvalidRequest, OutputError
from primbench.spec.study import AGAIN
from primbench.stats import LogRatio
from primbench.system import inputs, outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from primbench.compare.comparison import CaseComparison, Comparison
    from primbench.compare.sides import Side
    from primbench.environment.fingerprint import Environment
    from primbench.results.file import Results

LEAST_PAIRS = 3
MOST_RELABELLINGS = 64
MOST_PAIRS = 400
MINUTES = (1, 5)


class KindOfCase(msgspec.Struct, frozen=True, kw_only=True):
    """The cases of one primitive."""

    primitive: str
    """Name of the primitive."""
    metric: str
    """Metric of its median case, the one that judges it."""
    deviation: float
    """Standard deviation of the logarithm of the ratio in a pair, the median over its cases."""
    pair_s: float
    """Seconds that a pair takes of these cases alone, starts included."""
    told: dict[int, float | None]
    """Minutes -> the least difference that is found in four of five studies that last as long, as a share; None where
    fewer than two pairs fit.
    """

    def needs_s(self, share: float) -> float | None:
        """Seconds in which a difference by this share is found in four of five studies; None of hours."""
        for pairs in range(LEAST_PAIRS, MOST_PAIRS):
            found = least(self.deviation, pairs)
            if found is not None and found <= share:
                return pairs * self.pair_s
        return None


class SelfTest(msgspec.Struct, frozen=True, kw_only=True):
    """The host against itself."""

    machine: dict[str, str | int | None]
    """Facts that tell the machine from others."""
    started_utc: str
    """When it was measured."""
    pairs: int
    """Pairs of fresh processes."""
    false_alarms: float
    """Of so many ways to call one process of each pair the host and the other one the host again, the share by which
    some case is slower or faster.
    """
    relabellings: int
    """How many ways there are to swap the processes of pairs."""
    kinds: list[KindOfCase]


def self_test(found: Results, comparison: Comparison) -> SelfTest:
    """Raises InvalidRequest of too few pairs."""
    pairs = sorted({record.case.process for record in found.records if record.status == "ok"})
    judged = _judged(comparison)
    if len(pairs) < LEAST_PAIRS or not judged:
        raise InvalidRequest(
            f"{len(pairs)} pairs of processes were measured whole, and {LEAST_PAIRS} tell of scatter: let it run to "
            f"its end, with --pairs {LEAST_PAIRS} or more"
        )
    sides = sides_of(found)
    baseline = next(iter(sides.values()))
    alarms = list(_alarms(baseline, sides[baseline.name + AGAIN], pairs))
    start_s = _start_s(found, len(pairs))
    kinds: dict[str, list[CaseComparison]] = {}
    for case in judged:
        kinds.setdefault(case.case.primitive, []).append(case)
    return SelfTest(
        machine=machine_of(found.header.environment),
        started_utc=found.header.started_utc,
        pairs=len(pairs),
        false_alarms=sum(alarms) / len(alarms),
        relabellings=len(alarms),
        kinds=[_kind(name, cases, start_s, _case_s(found, len(pairs))) for name, cases in kinds.items()],
    )


def _judged(comparison: Comparison) -> list[CaseComparison]:
    """The cases of the host against itself that tell of scatter."""
    cases = comparison.again.cases if comparison.again else []
    return [case for case in cases if case.primary and case.primary.deviation is not None]


def _kind(
    name: str,
    cases: Sequence[CaseComparison],
    start_s: float,
    case_s: Mapping[bytes, float],
) -> KindOfCase:
    found = sorted((each.primary.deviation or 0.0, each.primary.metric) for each in cases if each.primary)
    deviation, metric = found[(len(found) - 1) // 2]
    pair_s = start_s + math.fsum(case_s[identity(each.case)] for each in cases)
    told = {minutes: least(deviation, int(60 * minutes / pair_s)) for minutes in MINUTES}
    return KindOfCase(primitive=name, metric=metric, deviation=deviation, pair_s=pair_s, told=told)


def least(deviation: float, pairs: int) -> float | None:
    """The least difference that so many pairs find in four of five tries, as a share; None of fewer than two."""
    if pairs < 2:
        return None
    found = LogRatio(0.0, deviation / math.sqrt(pairs), pairs - 1).minimum_detectable()
    return None if found is None else found - 1


def _case_s(found: Results, pairs: int) -> dict[bytes, float]:
    """Identity -> seconds that a case takes in both processes of a pair."""
    took: dict[bytes, float] = {}
    for record in found.records:
        key = identity(record.case)
        took[key] = took.get(key, 0.0) + record.duration_s / pairs
    return took


def _start_s(found: Results, pairs: int) -> float:
    """Seconds of a pair in which no case is measured: processes start and end."""
    ends = [_at(record.started_utc) + record.duration_s for record in found.records]
    lasted_s = max(ends) - _at(found.header.started_utc)
    return max(0.0, lasted_s - math.fsum(record.duration_s for record in found.records)) / pairs


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _alarms(baseline: Side, again: Side, pairs: Sequence[int]) -> Iterator[bool]:
    """Of each way to call the processes of a pair the one or the other, whether a case is told to differ."""
    for swapped in _ways(pairs):
        one, other = (
            dataclasses.replace(
                mine,
                records=[
                    record
                    for side, is_theirs in ((mine, False), (theirs, True))
                    for record in side.records
                    if (record.case.process in swapped) == is_theirs
                ],
            )
            for mine, theirs in ((baseline, again), (again, baseline))
        )
        cases = verdicts(one, [other], None, Matching(paired)).arms[0].cases
        yield any(case.verdict in ("slower", "faster") for case in cases)


def _ways(pairs: Sequence[int]) -> Iterator[frozenset[int]]:
    """The pairs that are swapped, of all ways, or of as many drawn by a seed; never the first: all or none is one."""
    rest = pairs[1:]
    if 2 ** len(rest) <= MOST_RELABELLINGS:
        for count in range(len(rest) + 1):
            yield from map(frozenset, itertools.combinations(rest, count))
        return
    dice = random.Random(14)
    for _ in range(MOST_RELABELLINGS):
        yield frozenset(each for each in rest if dice.random() < 0.5)


# --- what is kept


def machine_of(environment: Environment) -> dict[str, str | int | None]:
    machine = environment.machine
    return {
        "cpu_model": machine.cpu_model,
        "cpus_total": machine.cpus_total,
        "memory_bytes": machine.memory_bytes,
    }


def place() -> Path:
    """The file that the last self-test of this user is in: XDG Base Directory Specification 0.8."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "primbench/selftest.json"


def keep(found: SelfTest) -> Path:
    """Raises OutputError."""
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; the self-test is not kept") from None
    outputs.write(path, msgspec.json.encode(found))
    return path


def kept(environment: Environment) -> SelfTest | None:
    """The last one, if it was of this machine; None, too, where the file is of no use."""
    try:
        found = msgspec.json.decode(inputs.content(place()), type=SelfTest)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.machine == machine_of(environment) else None


def notes(comparison: Comparison, environment: Environment) -> list[str]:
    """For what is undecided, how long its margin takes here by what is kept; [] where nothing is."""
    margins = {
        case.case.primitive: found.margin for _, case, found in comparison.decided if case.verdict == "inconclusive"
    }
    known = kept(environment) if margins else None
    found = []
    for kind in known.kinds if known else []:
        if (margin := margins.get(kind.primitive)) is not None:
            found.append((kind.primitive, margin, kind.needs_s(margin)))
    return [_words(*each) for each in found]


def _words(primitive: str, margin: float, seconds: float | None) -> str:
    from primbench.units import format_percent

    takes = "hours" if seconds is None else in_minutes(seconds)
    return f"here {format_percent(margin)} of {primitive} takes {takes}, by the last `primbench selftest`"


def in_minutes(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(10, round(seconds, -1)):.0f} s"
    return f"about {seconds / 60:.0f} minutes"
