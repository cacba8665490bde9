"""What a comparison says, as data: verdicts case by case, and what explains them. Times in seconds."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from primbench.compare.learnt import LearntComparison
from primbench.compare.outputs import Deviation
from primbench.compare.published import PublishedBeside
from primbench.compare.ratio import Estimate, Slowed, Verdict
from primbench.compare.shown import shown_interval, shown_ratio
from primbench.compare.step import StepComparison
from primbench.environment.difference import Change, Difference
from primbench.measurement import notebook
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.naming import name_of
from primbench.spec.setting import Activity
from primbench.system.meaning import FactId, Layer

Effect = Literal[
    "stack effect", "machine effect", "neighbour effect", "container effect", "place effect", "case effect"
]

MOST_ROWS = 50  # of a notebook's table


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a case is slower or faster, as far as it is known."""

    parts: list[Activity]
    """What takes another time; [] where nothing does for certain, but the process waited."""
    evidence: list[str]
    """Numbers of this case that tell why."""
    causes: list[str]
    """What differs between the places and can do it, the likeliest first; [] is no known cause."""
    likely: str | None = None
    """The likeliest cause in few words: the first that can do so much by itself."""
    cause: str | None = None
    """Id of the likeliest cause."""
    asked_variables: list[str] = []
    """Settings that the arms set in unequal ways, if that is all that they were asked to differ in."""
    noise: list[str] = []
    """What others on the machine may have done."""
    next_experiment: str | None = None
    """A command that would tell more."""
    about: list[FactId] = []
    """What differs and the causes tell of, as Differing has it."""


class CaseComparison(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One case in one arm."""

    case: Case
    """The case as the baseline ran it first."""
    estimates: list[Estimate]
    """Ratios of its metrics, the primary one first."""
    verdict: Verdict | None = None
    """Verdict on the case; None where nothing was compared."""
    decided_by: str | None = None
    """The metric that it was reached by."""
    waited: tuple[float | None, float | None] = (None, None)
    """Share of its time for which each waited for a CPU, the baseline first; None where that is not counted."""
    slowed: Slowed | None = None
    """How slow CPUs were, by the loops between the samples; None where none was timed."""
    fails_more: str | None = None
    """The place in which the case fails in more of its processes, if one is. What is left of them does not say that the
    places are alike.
    """
    reason: str | None = None
    """What became of it in processes that did not measure it."""
    explanation: Explanation | None = None
    learnt: LearntComparison | None = None
    """What networks learnt, where it trains some; None elsewhere."""
    deviations: list[Deviation] = []
    """Outputs in the arm or on the baseline that are not, to the last bit, what they should be."""

    @property
    def primary(self) -> Estimate | None:
        return self.estimates[0] if self.estimates else None

    @property
    def deciding(self) -> Estimate | None:
        """The estimate of the metric by which the verdict was reached; None without a verdict."""
        return next((each for each in self.estimates if each.metric == self.decided_by), None)

    @property
    def is_untellable(self) -> bool:
        """Whether nothing was compared in it, by too few processes or runs, or while the machine was too busy."""
        found = self.deciding
        if found is None or found.is_too_busy or found.is_single:
            return True
        return found.is_one_run and found.outcome == "inconclusive"


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The geometric mean of the primary ratios of ``cases`` cases, over the ``pairs`` that measured all of them."""

    ratio: float
    interval: tuple[float, float] | None
    cases: int
    pairs: int
    of_all_samples: bool = False
    """Though some cases' own ratios are of samples at full speed alone, since too few pairs have such samples in every
    case.
    """


class Differing(msgspec.Struct, frozen=True, kw_only=True):
    """What tells two places apart, in words."""

    words: str
    about: FactId
    """The id of a fact of the place, else ("arm", "cpus"), which is of the arms."""
    layer: Layer | None = None
    """None where it is what the arms ask for, or where processes were."""
    is_known: bool = False
    """Whether it is known what it does to results."""


class ArmComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One arm against the baseline."""

    name: str
    arm: Arm | None
    """The arm as it was asked for; None where the file does not say."""
    effect: Effect | None
    """Of what a difference in time is one; None where it is not known."""
    differences: dict[str, Difference]
    """Backend and device -> what tells the places apart, as the workers of each process saw them."""
    cases: list[CaseComparison]
    mean: Mean | None
    differing: list[Differing] = []
    """All that differs, in words, and what else does."""
    step: StepComparison | None = None
    """What the step comes to, where its cases are a step and its parts."""

    @property
    def estimates(self) -> list[Estimate]:
        """The estimates of all its cases."""
        return [each for case in self.cases for each in case.estimates]

    @property
    def is_compared(self) -> bool:
        """Whether any of its cases was."""
        return any(case.estimates for case in self.cases)


Decided = tuple[ArmComparison, CaseComparison, Estimate]


class Mixed(msgspec.Struct, frozen=True):
    """What is not the same for all processes of a side: ``workers`` of ``of`` have not what the first one has."""

    change: Change
    workers: int
    of: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All arms against the baseline."""

    baseline: str
    paired: bool
    """Whether process stands against process of the same pair; else ``runs`` is how many runs each side has at least,
    and one tells of no difference.
    """
    runs: int | None = None
    sessions: tuple[int, int] | None = None
    """How many sessions the baseline and the other had, where they were run in sessions apart, which are the unit then;
    None where they were not.
    """
    arms: list[ArmComparison]
    again: ArmComparison | None = None
    """The baseline against itself, where it was run twice."""
    mixed: dict[str, list[Mixed]] = {}
    """Notes on a side that was not one place, as where another machine went on with its file."""
    notes: list[str] = []
    """What is to be known of the whole."""
    published: PublishedBeside | None = None
    """What was published that the study repeats."""

    @property
    def has_runs(self) -> bool:
        """Whether each side was run several times, so that runs are what a verdict is by."""
        return self.runs is not None and self.runs > 1

    @property
    def is_of_other_sessions(self) -> bool:
        """Whether all of one side was run in one session and all of the other in another: the day or the place."""
        return self.sessions == (1, 1)

    @property
    def has_sessions(self) -> bool:
        """Whether a side was run in several sessions, so that these are what a verdict is by."""
        return self.sessions is not None and not self.is_of_other_sessions

    @property
    def all_arms(self) -> list[ArmComparison]:
        """The baseline against itself only where nothing else was compared."""
        return self.arms or [arm for arm in [self.again] if arm]

    @property
    def cases(self) -> list[CaseComparison]:
        """The cases of all arms in ``all_arms``."""
        return [case for arm in self.all_arms for case in arm.cases]

    @property
    def deviations(self) -> list[tuple[Case, Deviation]]:
        """Those of all cases and places, each once."""
        arms = [*self.arms, *([self.again] if self.again else [])]
        found = [(case.case, each) for arm in arms for case in arm.cases for each in case.deviations]
        return [each for number, each in enumerate(found) if each not in found[:number]]

    @property
    def decided(self) -> list[Decided]:
        """Every one of these that has a verdict, with its arm and the estimate that it was reached by."""
        every = [(arm, case, case.deciding) for arm in self.all_arms for case in arm.cases]
        return [(arm, case, found) for arm, case, found in every if found is not None]

    @property
    def estimates(self) -> list[Estimate]:
        """The estimates of all arms in ``all_arms``."""
        return [each for arm in self.all_arms for each in arm.estimates]

    def __repr__(self) -> str:
        """Which arms against which, and how many cases came to which verdict."""
        counts = Counter(case.verdict or "not compared" for case in self.cases)
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or "nothing compared"
        return f"Comparison({', '.join(arm.name for arm in self.all_arms)} against {self.baseline}: {words})"

    def to_json(self) -> str:
        """All of it, as a text."""
        return msgspec.json.encode(self).decode()

    def _repr_html_(self) -> str:
        """For notebooks: a row a verdict."""
        rows = [
            (arm.name, name_of(case.case), found.metric, shown_ratio(found.ratio), shown_interval(found.interval),
             case.verdict or "")
            for arm, case, found in self.decided[:MOST_ROWS]
        ]  # fmt: skip
        more = f"and {len(self.decided) - len(rows)} more" if len(self.decided) > len(rows) else ""
        headings = ["arm", "case", "metric", f"times as long as {self.baseline}", "95 % interval", "verdict"]
        return notebook.table(f"against {self.baseline}", headings, rows, more)
