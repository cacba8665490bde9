"""Runs a step without and with doses, trial after trial, and in places that were foretold."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.doses.factors import OF_A_QUOTA, UNDOSED, trials, undosed
from primbench.errors import PrimbenchError
from primbench.experiments.study import plan
from primbench.results.record import Record
from primbench.spec.arm import settings_of
from primbench.workers.run import keep_all
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from primbench.doses.factors import DosingPlace, Probe, Trial
    from primbench.experiments.study import Block
    from primbench.measurement import Measurement, Samples
    from primbench.measurement.readings import HostReading
    from primbench.results.file import Results
    from primbench.results.record import Worker
    from primbench.results.writer import Writer
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case

ALONE = "a step is dosed by whole processes"
"""Why processes take no turns, for their records."""
PAIRS = 3
"""In which a place's primitives are measured, and in which the step is."""


@dataclass
class Dosing:
    """Measures, and keeps what became of it."""

    step: Case
    here: DosingPlace
    found: Results
    """Results, which grow by what is measured."""
    writer: Writer | None
    timeout_s: float
    seed: int = 0
    verbose: bool = False
    foretells_neighbours: bool = False
    """Whether neighbours are measured by their probes, too, which takes most of a pair."""
    tell: Callable[[str], None] = lambda sentence: None
    numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By trial, or by what a place is asked, the numbers of its pairs."""
    took_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """How long each of them took."""
    is_cut_off: bool = False
    """Whether it was interrupted."""
    _cases: int = 0
    _timed_s: float = 0.0
    """How long these took once all processes were there."""
    _starts_s: list[float] = field(default_factory=list)
    """How long the processes of each block took to start, or would have without a quota."""

    @property
    def trials(self) -> list[Trial]:
        return trials(self.step, self.here, are_probed=self.foretells_neighbours)

    def give(self, trial: Trial) -> None:
        self._pair(trial.id, trial.arms, trial.cases)
        self.learn_use()

    def is_in_time(self, trial: Trial, ends_s: float) -> bool:
        """Whether it would end before that, in time.monotonic()'s seconds; the first one is given in any case."""
        return not self._cases or time.monotonic() + self.expected_s(trial) < ends_s

    def why_not(self, arm: Arm) -> str | None:
        """Why the step cannot be set up in a place, None where it can, by one process that measures nothing."""
        if arm.runtime == "host" and not settings_of(arm):
            return None
        self.tell(f"is {arm.name} there?")
        method = replace(self.step.method, dry_run=True)
        case = replace(self.step, arm=arm.name, placement=arm.placement, method=method)
        with self._session([arm]) as session:
            ended = [line for line in session.run([case]) if isinstance(line, Record)]
        return next((each.reason or each.status for each in ended if each.status != "ok"), None)

    def probe(self, arm: Arm, probes: Sequence[Probe]) -> list[int]:
        """Numbers of the pairs in which a place's primitives were measured, and those here."""
        return self._place(probe_in(arm.name), arm, [each.case(self.here) for each in probes])

    def run_there(self, arm: Arm) -> list[int]:
        """The same of the step itself."""
        return self._place(step_in(arm.name), arm, [replace(self.step, method=OF_A_QUOTA)])

    def _place(self, words: str, arm: Arm, cases: Sequence[Case]) -> list[int]:
        for _ in range(PAIRS):
            self._pair(words, [undosed(self.here), arm], cases)
        return self.numbers[words]

    def expected_s(self, trial: Trial) -> float:
        """As it took before; else as long as others took to start, which a quota makes longer, and to time each case; 0
        where nothing is known yet.
        """
        if not self._cases:
            return 0.0
        if self.took_s[trial.id]:
            return max(self.took_s[trial.id])
        timed_s = self._timed_s / self._cases * len(trial.arms) * len(trial.cases)
        return max(self._starts_s) / _cpu_share(trial.arms) + timed_s

    def _pair(self, name: str, arms: Sequence[Arm], cases: Sequence[Case]) -> None:
        number = 1 + max((each.case.process for each in self.found.records), default=-1)
        self.tell(f"{name}, {len(self.numbers[name]) + 1}: {', '.join(arm.name for arm in arms)}")
        self.numbers[name].append(number)
        begun_s = time.monotonic()
        session = self._session(arms)
        lines = self._one_by_one(session, plan(arms, cases, [number], self.seed), _cpu_share(arms))
        keep_all(session, lines, self.writer, self.found)
        self.took_s[name].append(time.monotonic() - begun_s)
        self._cases += len(arms) * len(cases)

    def _session(self, arms: Iterable[Arm]) -> Session:
        """In which a place that cannot be had is a skipped case."""
        return Session(
            timeout_s=self.timeout_s,
            verbose=self.verbose,
            skip_unavailable=True,
            skip_misplaced=True,
            first_worker=1 + max((each.worker for each in self.found.workers), default=-1),
            arms={arm.name: arm for arm in arms},
        )

    def _one_by_one(self, session: Session, blocks: Iterable[Block], share: float) -> Iterator[Worker | Record]:
        """Processes of all arms start at the same time, which takes most of a pair, and wait for theirs.

        None is timed before all are there; one that waits does nothing, nor does its neighbour, which ends with it.
        share: of a CPU that the slowest to start has.
        """
        for block in blocks:
            begun_s, firsts = time.monotonic(), [cases[0] for cases in block.by_arm]
            session.start(firsts)
            for case in firsts:
                with suppress(PrimbenchError):  # run() tries again, and tells
                    yield from session.open(case)
            there_s = time.monotonic()
            self._starts_s.append((there_s - begun_s) * share)
            for number, cases in enumerate(block.by_arm, 1):
                yield from session.run(cases, ALONE, [each.arm for each in firsts[number:]])
            self._timed_s += time.monotonic() - there_s

    def learn_use(self) -> None:
        """How many CPUs the undosed step keeps busy, by the process of a trial that was disturbed least, and as if all
        ranks were as busy as the first.
        """
        of_trials = {number for trial in self.trials for number in self.numbers[trial.id]}
        several = [each.measurement for each in self.records(UNDOSED) if each.case.process in of_trials]
        hosts = [each.host for each in several if each is not None and each.host is not None]
        most, ranks = self.here.usable_cpus / self.here.ranks, self.here.ranks
        used = [ranks * busy_cpus(each, most) for each in hosts if each.duration_s]
        self.here = self.here._replace(used_cpus=max(used, default=self.here.used_cpus))

    def waited_share(self) -> float | None:
        """Share of its time in which a thread of the undosed step waited for a CPU, the median of processes; None where
        the kernel does not tell.
        """
        hosts = [each.measurement.host for each in self.records(UNDOSED) if each.measurement]
        shares = [share for host in hosts if host is not None and (share := host.share(host.waited_s)) is not None]
        return median(shares) if shares else None

    def records(self, arm: str, primitive: str | None = None) -> list[Record]:
        """Those of the step, or of another primitive, that were measured in an arm."""
        wanted = primitive or self.step.primitive
        return [
            each for each in self.found.records
            if each.case.arm == arm and each.case.primitive == wanted and each.measurement is not None
        ]  # fmt: skip

    def measured(self, number: int, arm: str, primitive: str | None = None) -> Measurement | None:
        """What a process of a pair measured; None where it failed, or did not run."""
        found = (each.measurement for each in self.records(arm, primitive) if each.case.process == number)
        return next(found, None)

    def step_s(self, number: int, arm: str) -> float | None:
        """What the step took in a process, on average."""
        measurement = self.measured(number, arm)
        return None if measurement is None else mean_s(samples_of(measurement))

    def probe_s(self, number: int, arm: str, probe: Probe) -> float | None:
        """What a probe took in a process, by its median or its mean."""
        if (measurement := self.measured(number, arm, probe.work.primitive)) is None:
            return None
        samples = samples_of(measurement)
        return mean_s(samples) if samples is None or probe.is_mean else samples.median_s

    def reasons(self, numbers: Iterable[int]) -> list[str]:
        """Why something of these pairs was not measured, each once."""
        wanted = {*numbers}
        found = [each for each in self.found.records if each.case.process in wanted and each.measurement is None]
        return [*dict.fromkeys(f"{each.case.arm}: {each.reason}" for each in found if each.reason)]


def probe_in(arm: str) -> str:
    """The name of the pairs in which a place's primitives are measured."""
    return f"primitives in {arm}"


def step_in(arm: str) -> str:
    """The name of those in which the step is."""
    return f"the step in {arm}"


def _cpu_share(arms: Iterable[Arm]) -> float:
    """Of one CPU, on which a process starts: what the one that starts last has by its quota."""
    return min([1.0, *(each.cpus or 1.0 for each in arms)])


def busy_cpus(host: HostReading, most: float) -> float:
    """CPUs that a case kept busy while it did not wait for one: what it would use by itself, on average.

    most: what its own threads can keep busy. Times in which several of them waited may overlap, so that no more than
    that is made of them.
    """
    ran_s = host.duration_s - (host.waited_s or 0.0)
    alone = min(host.cpu_time_s / ran_s, most) if ran_s > 0 else most
    return max(alone, host.cpu_time_s / host.duration_s)


def samples_of(measurement: Measurement) -> Samples | None:
    """Of calls in a row: on a CPU, else as a loop in Python makes them on a GPU."""
    return measurement.batch_s or measurement.stream_s or measurement.wall_s


def mean_s(samples: Samples | None) -> float | None:
    """Of all samples, those in which a quota stopped it included."""
    return None if samples is None else fmean(samples.samples_s)
