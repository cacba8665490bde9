"""The processes of one arm or file: which cases they ran, and what became of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.compare.numbers import CaseNumbers
from primbench.errors import InvalidRequest
from primbench.results.record import thread_lacks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.results.cpu_speed import Speed
    from primbench.results.file import Results
    from primbench.results.record import Record, Worker
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case

Turn = tuple[int, int]
"""Ranks and process."""


@dataclass(frozen=True)
class Side:
    """What is compared: all records of one arm of a study, or of one results file."""

    name: str
    """Name of the arm or the file."""
    records: Sequence[Record]
    workers: dict[int, Worker]
    arm: Arm | None = None
    """The arm as it was asked for; None where the file says nothing of it."""
    file: str | None = None
    """Where a place was recorded by itself, the path of its last run."""

    @cached_property
    def cases(self) -> dict[bytes, list[Record]]:
        """Identity -> the records of all processes."""
        found: dict[bytes, list[Record]] = {}
        for record in self.records:
            found.setdefault(identity(record.case), []).append(record)
        return found

    def numbers_of(self, key: bytes) -> CaseNumbers:
        """Of a case by its identity; kept until another is asked for, as those of many cases are large."""
        found = self._last.get(key)
        if found is None:
            self._last.clear()
            found = self._last[key] = CaseNumbers(self.cases.get(key, ()))
        return found

    @cached_property
    def _last(self) -> dict[bytes, CaseNumbers]:
        return {}

    def speed_of(self, key: bytes) -> Speed | None:
        """How fast the CPU was beside a case; None where that is not known."""
        if key not in self._speeds:
            self._speeds[key] = self.numbers_of(key).speed
        return self._speeds[key]

    @cached_property
    def _speeds(self) -> dict[bytes, Speed | None]:
        return {}

    @property
    def slowed_fraction(self) -> float | None:
        """Share of all timed loops, of every case, that the CPU ran slowly; None where none was timed."""
        found = [speed for key in self.cases if (speed := self.speed_of(key)) is not None]
        slowed = sum(speed.slowed_fraction * speed.loops for speed in found)
        return slowed / sum(speed.loops for speed in found) if found else None

    def failures(self, key: bytes) -> tuple[int, float]:
        """Processes in which the case failed, and their share of all."""
        records = self.cases.get(key, [])
        failed = sum(each.status == "failed" for each in records)
        return failed, failed / len(records) if records else 0.0

    def unmeasured(self, key: bytes) -> str | None:
        """What became of the case in processes that did not measure it, the commonest first."""
        records = self.cases.get(key, [])
        reasons = Counter(f"{each.status}: {each.reason}" for each in records if each.status != "ok")
        return "; ".join(
            f"{self.name} {reason} ({count} of {len(records)})" for reason, count in reasons.most_common()
        ) or (None if records else f"{self.name} did not run it")

    @cached_property
    def used(self) -> list[Worker]:
        """The workers that ran its cases, in their order."""
        numbers = dict.fromkeys(record.worker for record in self.records if record.worker is not None)
        return [self.workers[number] for number in numbers if number in self.workers]

    @cached_property
    def lacks(self) -> list[str]:
        """What workers asked of their place and did not get, each once."""
        return list(dict.fromkeys(lack for worker in self.used for lack in worker.placement.lacks))

    @cached_property
    def thread_lacks(self) -> list[str]:
        """Of how many threads workers asked and how many they had, where these differ, each once."""
        return thread_lacks(self.records, self.used)

    def workers_of(self, backend: str, device: str) -> list[tuple[Turn, Worker]]:
        """Those that served the backend on the device, each once; of several in one turn all but the last had to go."""
        turns = {
            record.worker: (record.case.ranks, record.case.process)
            for record in self.records
            if (record.case.backend, record.case.device) == (backend, device)
        }
        return [(turn, self.workers[number]) for number, turn in turns.items() if number in self.workers]

    def worker_of(self, backend: str, device: str) -> Worker | None:
        """The first worker that served this backend and device; None if there was none."""
        return next((worker for _, worker in self.workers_of(backend, device)), None)


def sides_of(results: Results) -> dict[str, Side]:
    """The arms of a study's file by name, in the study's order; those of a run outside of studies are one, named ""."""
    records = results.latest()
    workers = {worker.worker: worker for worker in results.workers}
    asked = {arm.name: arm for arm in results.header.study.arms} if results.header.study else {}
    arms = {each.arm.name: each.arm for each in reversed(workers.values()) if each.arm} | asked
    names = dict.fromkeys([*asked, *(record.case.arm for record in records)])
    return {
        name: Side(
            name=name,
            records=[record for record in records if record.case.arm == name],
            workers=workers,
            arm=arms.get(name),
        )
        for name in names
    }


def identity(case: Case) -> bytes:
    """A key that is equal for two cases of the same problem, backend, device and method, wherever they ran.

    What an arm has otherwise by itself is what is compared.
    """
    case = case.as_asked()
    of_problem = (
        case.primitive, case.parameters, case.implementation, case.device, case.method, case.labels
    )  # fmt: skip
    encoded = msgspec.json.encode(of_problem, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()  # of 100,000 cases the fields take 70 MB


def check_same_cases(one: Side, other: Side) -> list[str]:
    """What to note of cases that only one side has.

    Raises InvalidRequest where the sides measured the same problem in unequal ways, or have nothing in common.
    """
    here, there = _alone(one, other), _alone(other, one)
    _check_comparable(one, here, other, there)
    return [
        f"in {side.name} alone: {len(found)} case{'s' * (len(found) > 1)} of {', '.join(primitives)}"
        for side, found in ((one, here), (other, there))
        if (primitives := dict.fromkeys(case.primitive for case in found))
    ]


def _alone(one: Side, other: Side) -> list[Case]:
    """The cases that the other side did not run."""
    return [records[0].case for key, records in one.cases.items() if key not in other.cases]


def _check_comparable(one: Side, here: Sequence[Case], other: Side, there: Sequence[Case]) -> None:
    """Raises InvalidRequest where ``here`` and ``there``, of one side alone, are one problem measured unequally."""
    for case in here:
        same = [each for each in there if _problem(each) == _problem(case)]
        if same:
            raise InvalidRequest(f"{_unequal(one, case, other, same)}: measure both in the same way")
    if here and there and not one.cases.keys() & other.cases.keys():
        raise InvalidRequest(f"no case is in both: {_apart(one, here, other, there)}")


def _apart(one: Side, here: Sequence[Case], other: Side, there: Sequence[Case]) -> str:
    """Which primitives each has, where they share none; else how a case differs from all of the other side's."""
    ours, theirs = (dict.fromkeys(case.primitive for case in cases) for cases in (here, there))
    if ours.keys() & theirs.keys():
        return _unequal(one, here[0], other, there)
    return f"{', '.join(ours)} in {one.name}, {', '.join(theirs)} in {other.name}"


def _problem(case: Case) -> tuple[str, bytes]:
    return case.primitive, msgspec.json.encode(case.parameters, order="sorted")


def _unequal(one: Side, case: Case, other: Side, candidates: Sequence[Case]) -> str:
    """How a case differs from the one that is most like it."""
    ours = dict(_fields("", msgspec.to_builtins(case)))
    differing = []
    for candidate in candidates:
        theirs = dict(_fields("", msgspec.to_builtins(candidate)))
        names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
        differing.append((names, theirs))
    names, theirs = min(differing, key=lambda found: len(found[0]))
    words = ", ".join(
        f"{name} is {_word(ours.get(name))} in {one.name} and {_word(theirs.get(name))} in {other.name}"
        for name in names
    )
    return f"{case.primitive} is not the same case: {words}"


def _fields(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Those of a case that identity() has, by their names, the inner ones as "outer.inner"."""
    if name in ("arm", "process", "placement"):
        return
    if isinstance(value, dict):
        for inner, each in value.items():
            yield from _fields(f"{name}.{inner}" if name else inner, each)
    else:
        yield name, value


def _word(value: Any) -> str:
    return "absent" if value is None else json.dumps(value)
