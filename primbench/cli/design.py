"""How a study is to be run, by the options of the command line: its design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cli.captured import as_in_step
from primbench.cli.echo import say
from primbench.cli.given import method_of
from primbench.devices import CPU, CUDA
from primbench.errors import InvalidRequest
from primbench.experiments.study import check_arms, having
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Pairing, Study, with_itself
from primbench.workers.plan import plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.cli.measuring import Entries
    from primbench.cli.options import How, OnDevice
    from primbench.spec.arm import Arm
    from primbench.spec.case import Case
    from primbench.spec.method import Method
    from primbench.spec.published import Published
    from primbench.suites import StudyFile

DEFAULT_PAIRS = 8
MOST_UNTIL = 40  # pairs of a study that is to end by itself
LASTING_S = {CPU: (0.1, 0.5), CUDA: (0.02, 0.1)}
"""Least and most that a metric is sampled in a process: what counts is how processes differ, and on a CPU, too, whether
some samples are of moments when nobody else used it."""


@dataclass(frozen=True)
class Design:
    """How a study is to be run, its arms and cases aside."""

    backends: tuple[str, ...]
    """Names of backends; none is the best one on each device."""
    device: str | None
    """The device as it was asked for; None is the usual one."""
    method: Method
    """How cases on CPUs are measured."""
    method_on_gpu: Method
    """How cases on GPUs are measured."""
    pairs: int
    """How many pairs are run at most."""
    until_settled: bool
    """Whether it ends once every verdict is reached."""
    seed: int
    """Of inputs, and of the order of arms and cases."""
    other_builds: bool
    """Whether arms may have other builds of the libraries."""
    pairing: Pairing
    """How the processes of a pair stand to each other: in turn, or one after the other."""
    itself: bool
    """Whether the baseline is run twice, to be set against itself."""
    placement: Placement
    """Of cases whose arm has none of its own."""
    how: How
    """How to measure, as it was asked for."""


def design_of(
    where: OnDevice,
    how: How,
    suite: StudyFile | None = None,
    *,
    pairs: int | None = None,
    usual_pairs: int = DEFAULT_PAIRS,
    until_settled: bool = False,
    tails: bool = False,
    other_builds: bool = False,
    pairing: Pairing = IN_TURN,
    itself: bool = False,
    placement: Placement = Placement(),  # noqa: B008 - frozen
    lasting_s: Mapping[str, tuple[float, float]] = LASTING_S,
) -> Design:
    """The design of a study, by options, else by the suite.

    usual_pairs: how many where nobody says it. lasting_s: as LASTING_S. Raises InvalidRequest where options contradict.
    """
    seed = how.seed
    if seed is None:
        seed = (suite.seed if suite is not None else None) or 0
    if not pairs and ends_itself(how, until_settled=until_settled):
        pairs = MOST_UNTIL
    return Design(
        backends=how.backends,
        device=where.device,
        method=_method(how, seed, lasting_s[CPU], tails=tails),
        method_on_gpu=_method(how, seed, lasting_s[CUDA], tails=tails),
        pairs=pairs or (suite and suite.pairs) or usual_pairs,
        until_settled=until_settled,
        seed=seed,
        other_builds=other_builds,
        pairing=pairing,
        itself=itself,
        placement=placement,
        how=how,
    )


def _method(how: How, seed: int, lasting_s: tuple[float, float], *, tails: bool) -> Method:
    """lasting_s: least and most that a metric is sampled where nothing else is asked for."""
    return replace(method_of(how, lasting_s), seed=seed, unit="process", tails=tails)


def ends_itself(how: How, *, until_settled: bool) -> bool:
    return until_settled or how.time_budget_s is not None


def study_of(
    arms: Sequence[Arm], entries: Entries, design: Design, title: str = "", published: Published | None = None
) -> Study:
    """Raises InvalidRequest where the arms cannot be compared or the cases not be had."""
    arms, left_out = having(design.backends, arms)
    if design.itself:
        arms = with_itself(arms)
    if left_out is not None:
        if len(arms) < 2:
            raise InvalidRequest(
                f"{left_out}, and {arms[0].name} alone is nothing to compare: install it here, or name another arm "
                "with an image"
            )
        say(f"{left_out}, and {arms[0].name} is what others are compared with", err=True)
    check_arms(arms)
    planned = plan(
        entries,
        backends=design.backends,
        device=design.device,
        method=design.method,
        placement=design.placement,
        processes=1,
        kernels=design.how.kernels,
        elsewhere=not any(arm.on_host_root for arm in arms),
        afar=arms[0] if arms[0].is_far else None,
    )
    cases = [replace(case, method=design.method_on_gpu) if case.on.is_gpu else case for case in planned]
    _check_changes(arms, cases)
    return Study(
        title=title,
        arms=list(arms),
        cases=as_in_step(cases, design.how),
        pairs=design.pairs,
        until_settled=design.until_settled,
        seed=design.seed,
        other_builds=design.other_builds,
        pairing=design.pairing,
        published=published,
    )


def _check_changes(arms: Sequence[Arm], cases: Sequence[Case]) -> None:
    """Raises InvalidRequest for what an arm asks a case to be otherwise by, and it cannot be."""
    for arm in arms:
        for case in cases if arm.case else ():
            case.changed(arm.case)
