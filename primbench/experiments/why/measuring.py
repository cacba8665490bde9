"""Measures places between a fast and a slow one, pair after pair of fresh processes, all of a pair alike."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench import stats
from primbench.compare.chosen import pair_by_pair
from primbench.compare.sides import Side, identity
from primbench.compare.step import compare_steps
from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.experiments.pairs import run
from primbench.experiments.study import plan
from primbench.experiments.why import steps
from primbench.experiments.why.frame import Framing
from primbench.experiments.why.looks import Asked, cases_of, differences
from primbench.experiments.why.rounds import Observation, RatioInterval
from primbench.runtimes.table import check
from primbench.workers.run import keep_all
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from primbench.compare.step import StepComparison
    from primbench.environment.fingerprint import Environment
    from primbench.experiments.study import Block
    from primbench.experiments.why.conclusion import Proof
    from primbench.experiments.why.ingredients import Mixtures
    from primbench.experiments.why.rounds import Round, Subset
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.results.writer import Writer
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case
    from primbench.spec.study import Pairing, Study

LOOK_PAIRS, FRAME_PAIRS = 2, 6
"""The first pairs of a file: in which all cases are run, outputs are checked, and it is seen whether processes can take
turns; and those of the places as they were asked about beside the same in one frame, where these are others.
"""
FIRST_PAIR = LOOK_PAIRS + FRAME_PAIRS
ALONE: Pairing = "one-after-the-other"


@dataclass
class Measuring:
    """Answers rounds, by what a file holds of them, else by processes."""

    study: Study
    """What is asked: its first two arms are the fast and the slow place, the other two, if any, the same as they were
    asked about; its cases are those that are looked at.
    """
    mixtures: Mixtures
    found: Results
    """Results, which grow by what is measured."""
    writer: Writer | None
    timeout_s: float
    ends_s: float
    """By when a pair has to end, as one arm of the last took, in time.monotonic()'s seconds; those of the first looks
    are made in any case.
    """
    measures: bool = True
    """Whether anything may be run, and not only read."""
    verbose: bool = False
    tell: Callable[[str], None] = lambda sentence: None
    refused: dict[Subset, str] = field(default_factory=dict)
    """Subsets that cannot be asked for, and why."""
    _arm_s: float = 0.0

    @cached_property
    def asked(self) -> Asked:
        """The case, and the metric of it, in which the two places differ most in the first pairs.

        Raises BackendUnavailable where no case ran in both.
        """
        arms, cases = self.study.arms[:2], cases_of(self.study)
        if not self._records(arms, range(LOOK_PAIRS)):
            blocks = plan(arms, cases, range(LOOK_PAIRS), self.study.seed)
            self._run(arms, cases, blocks, self.study.pairing)
        one, other = (self._side(arm, range(LOOK_PAIRS)) for arm in arms)
        looked_at = steps.wholes(cases) or cases
        seen = [each for case in looked_at for each in differences(case, one, other, took_turns=self._took_turns)]
        if not seen:
            records = self._records(arms, range(LOOK_PAIRS))
            reasons = dict.fromkeys(f"{each.case.arm}: {each.reason}" for each in records if each.reason)
            raise BackendUnavailable(f"no case ran in both places: {'; '.join(reasons) or 'none was begun in time'}")
        _, asked = max(seen, key=lambda each: each[0])
        return asked._replace(case=replace(asked.case, method=replace(asked.case.method, check=False)))

    @cached_property
    def pairing(self) -> Pairing:
        """How the processes of all pairs run: as those of the slow and the fast place have to, which have all settings
        that any other place has.
        """
        _ = self.asked
        return self.study.pairing if self._took_turns else ALONE

    @property
    def _took_turns(self) -> bool:
        """Whether the processes of the first pairs did."""
        records = self._records(self.study.arms[:2], range(LOOK_PAIRS))
        return all(each.measurement.turns is not None for each in records if each.measurement)

    def framed(self) -> Framing | None:
        """None where the places were asked about as they are, or one of these does not run."""
        if len(self.study.arms) == 2:
            return None
        processes = range(LOOK_PAIRS, FIRST_PAIR)
        if not any(map(self._recorded, processes)):
            self._run_case(self.study.arms, processes)
        base, whole, fast, slow = (self._side(arm, processes) for arm in self.study.arms)
        asked, entering, leaving = (self._ratio(*of) for of in ((slow, fast), (base, fast), (slow, whole)))
        if asked is None or entering is None or leaving is None:
            return None
        return Framing(asked=asked, entering=entering, leaving=leaving)

    def _ratio(self, arm: Side, baseline: Side) -> RatioInterval | None:
        """None where they have no pairs."""
        key = identity(self.asked.case)
        if key not in arm.cases or key not in baseline.cases:
            return None
        ratios = pair_by_pair(baseline, arm, key, self.asked.metric)
        if not ratios:
            return None
        found = stats.paired_ratio([*ratios.values()], [1.0] * len(ratios))
        return RatioInterval(ratio=found.ratio, low=found.low or 0.0, high=found.high)

    def steps(self, proofs: Sequence[Proof]) -> list[StepComparison | None]:
        """Of a captured step, by how much each part is longer in the fast place with each set that is proven.

        [] of another case; None where no time was left to measure it.
        """
        cases = [replace(each, method=replace(each.method, check=False)) for each in cases_of(self.study)]
        if not proofs or not steps.are_of_step(cases):
            return []
        arms = [self.mixtures.fast, *(self.mixtures.arm(proof.differences) for proof in proofs)]
        if not any(map(self._recorded, steps.PROCESSES)):
            blocks = plan(arms, cases, steps.PROCESSES, self.study.seed)
            self._run(arms, cases, self._in_time(blocks), self.pairing)
        fast, *others = (self._side(arm, steps.PROCESSES) for arm in arms)
        return compare_steps(fast, [(side, False) for side in others])

    def environments(self) -> list[Environment | None]:
        """What was found in the fast and the slow place, as they were asked about where these ran."""
        return [
            self._environment(asked) or self._environment(framed)
            for asked, framed in zip(self.study.arms[-2:], self.study.arms[:2], strict=True)
        ]

    def _environment(self, arm: Arm) -> Environment | None:
        workers = {each.worker for each in self.found.records if each.case.arm == arm.name}
        return next((each.environment for each in self.found.workers if each.worker in workers), None)

    def recorded(self) -> RatioInterval | None:
        """How many times as long the slow place took by what was recorded elsewhere, beside what is measured here of a
        place that was not; None where neither was recorded.
        """
        if not self.study.elsewhere:
            return None
        pairs = zip(self.study.arms[-2:], self.study.arms[:2], strict=True)
        fast_s, slow_s = (self._recorded_s(asked, framed) for asked, framed in pairs)
        if not fast_s or not slow_s:
            return None
        found = stats.unpaired(slow_s, fast_s)
        low, high = found.interval() or (0.0, None)
        return RatioInterval(ratio=found.ratio, low=low, high=high)

    def _recorded_s(self, asked: Arm, framed: Arm) -> list[float]:
        """Of each process, of those here but for the first ones, which check outputs."""
        case, metric = self.asked
        if asked.name in self.study.elsewhere:
            return self.study.elsewhere[asked.name].get(metric, [])
        last = max((each.case.process for each in self.found.records), default=-1)
        side = self._side(framed, range(FIRST_PAIR, last + 1))
        return [*side.numbers_of(identity(case)).of_all.get(metric, {}).values()]

    def observe(self, asked: Round) -> list[Observation]:
        """What comes of a round, the first one in any case; of pairs that were not begun in time nothing."""
        arms = self._arms(asked)
        left = [each for each in _processes(asked) if not self._recorded(each)]
        if left and len(arms) > 1:
            self._run_case([*arms.values()], left, in_any_case=asked.number == 0)
        return self.held(asked)

    def held(self, asked: Round) -> list[Observation]:
        """What is known of a round by now.

        Raises InvalidRequest where the file has other places in its pairs: another version made that.
        """
        arms = self._arms(asked)
        names, there = {arm.name for arm in arms.values()}, map(self._recorded, _processes(asked))
        if strange := {each.case.arm for records in there for each in records} - names:
            raise InvalidRequest(f"the file has {strange.pop()} where this primbench asks for others: begin anew")
        return [*self._observations(asked, arms)]

    @property
    def next_pair(self) -> int:
        """The first of a round of which the file holds nothing."""
        numbers = [each.case.process for each in self.found.records if each.case.process not in steps.PROCESSES]
        pair = max(numbers, default=0) + 1 - FIRST_PAIR
        return max(0, pair + pair % 2)

    def is_held(self, asked: Round) -> bool:
        """Whether any of its pairs has begun."""
        return any(map(self._recorded, _processes(asked)))

    def _recorded(self, process: int) -> list[Record]:
        return [each for each in self.found.records if each.case.process == process]

    def _arms(self, asked: Round) -> dict[Subset, Arm]:
        return {design: arm for design in asked.designs if (arm := self._arm(design)) is not None}

    def _arm(self, design: Subset) -> Arm | None:
        """None where two settings contradict each other, or the runtime has no such thing."""
        try:
            arm = self.mixtures.arm(design)
            check(arm)
        except InvalidRequest as error:
            self.refused[design] = str(error)
            return None
        return arm

    def _observations(self, asked: Round, arms: Mapping[Subset, Arm]) -> Iterator[Observation]:
        processes = _processes(asked)
        times_s = self._times_s({design: self._side(arm, processes) for design, arm in arms.items()})
        for pair, process in zip(asked.pairs, processes, strict=True):
            for design in asked.designs:
                value_s = times_s.get(design, {}).get(process)
                reasons = self._reasons(design, arms.get(design), process)
                if value_s is not None or reasons:
                    reason = reasons[0] if value_s is None else None
                    yield Observation(pair=pair, design=design, value_s=value_s, failure=reason)

    def _reasons(self, design: Subset, arm: Arm | None, process: int) -> list[str]:
        """Why there is no time; none where its process was not begun."""
        if arm is None:
            return [self.refused[design]]
        return [f"{arm.name}: {each.reason or 'it has no such metric'}" for each in self._records([arm], [process])]

    def _times_s(self, sides: Mapping[Subset, Side]) -> dict[Subset, dict[int, float]]:
        """Those of the first side, and of each other one as it stands to that by what both took at the same moments."""
        key, metric = identity(self.asked.case), self.asked.metric
        numbers = {design: dict(side.numbers_of(key).of_all.get(metric, {})) for design, side in sides.items()}
        first = next((design for design, found in numbers.items() if found), None)
        for design, found in numbers.items():
            if first is not None and found and design != first:
                ratios = pair_by_pair(sides[first], sides[design], key, metric)
                found.update({process: numbers[first][process] * ratio for process, ratio in ratios.items()})
        return numbers

    def _run(self, arms: Sequence[Arm], cases: Sequence[Case], blocks: Iterable[Block], pairing: Pairing) -> None:
        if not self.measures:
            return
        study = replace(self.study, arms=[*arms], cases=[*cases], pairing=pairing)
        session = Session(
            timeout_s=self.timeout_s,
            verbose=self.verbose,
            first_worker=1 + max((each.worker for each in self.found.workers), default=-1),
            arms={arm.name: arm for arm in arms},
        )
        keep_all(session, run(session, study, blocks, tell=self.tell), self.writer, self.found)

    def _run_case(self, arms: Sequence[Arm], processes: Iterable[int], *, in_any_case: bool = False) -> None:
        cases = [self.asked.case]
        blocks = plan(arms, cases, processes, self.study.seed)
        self._run(arms, cases, blocks if in_any_case else self._in_time(blocks), self.pairing)

    def _in_time(self, blocks: Iterable[Block]) -> Iterator[Block]:
        for block in blocks:
            begun_s, arms = time.monotonic(), len(block.by_arm)
            if begun_s + self._arm_s * arms > self.ends_s:
                return
            yield block
            self._arm_s = (time.monotonic() - begun_s) / arms

    def _records(self, arms: Iterable[Arm], processes: Iterable[int]) -> list[Record]:
        names, numbers = {arm.name for arm in arms}, {*processes}
        return [each for each in self.found.records if each.case.arm in names and each.case.process in numbers]

    def _side(self, arm: Arm, processes: Iterable[int]) -> Side:
        workers = {each.worker: each for each in self.found.workers}
        return Side(name=arm.name, records=self._records([arm], processes), workers=workers, arm=arm)


def _processes(asked: Round) -> list[int]:
    """The numbers of its pairs in a file, where others were before them."""
    return [FIRST_PAIR + pair for pair in asked.pairs]
