"""How a study is to be run, by the options of the command line: its design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.cli.captured import as_in_step
from primbench.cli.echo import say
from primbench.cli.given import is_default, method_of
from primbench.errors import InvalidRequest
from primbench.experiments.study import check_arms, having
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Pairing, Study, with_itself
from primbench.workers.plan import plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.cli.measuring import Entries
    from primbench.spec.arm import Arm
    from primbench.spec.method import Method
    from primbench.spec.published import Published
    from primbench.suites import StudyFile

DEFAULT_PAIRS = 8
MOST_UNTIL = 40  # pairs of a study that is to end by itself
LASTING_S = {"cpu": (0.1, 0.5), "cuda": (0.02, 0.1)}
"""Least and most that a metric is sampled in a process: what counts is how processes differ, and on a CPU, too, whether
some samples are of moments when nobody else used it."""


@dataclass(frozen=True)
class Design:
    """How a study is to be run, its arms and cases aside. placement: of cases whose arm has none of its own."""

    backends: tuple[str, ...]
    device: str | None
    method: Method
    method_on_gpu: Method
    pairs: int
    until_settled: bool
    seed: int
    other_builds: bool
    pairing: Pairing
    itself: bool
    placement: Placement


def design_of(
    values: Mapping[str, Any],
    suite: StudyFile | None = None,
    placement: Placement = Placement(),  # noqa: B008 - frozen
    default_pairs: int = DEFAULT_PAIRS,
    lasting_s: Mapping[str, tuple[float, float]] = LASTING_S,
) -> Design:
    """The design of a study, by options, else by the suite. lasting_s: as LASTING_S.

    Raises InvalidRequest where options contradict.
    """
    seed = values["seed"]
    if suite is not None and suite.seed is not None and is_default("seed"):
        seed = suite.seed
    pairs = values.get("pairs")
    if not pairs and ends_itself(values):
        pairs = MOST_UNTIL
    return Design(
        backends=values["backends"],
        device=values["device"],
        method=_method(values, seed, *lasting_s["cpu"]),
        method_on_gpu=_method(values, seed, *lasting_s["cuda"]),
        pairs=pairs or (suite and suite.pairs) or default_pairs,
        until_settled=values.get("until") is not None,
        seed=seed,
        other_builds=values.get("other_builds", False),
        pairing=values.get("pairing", IN_TURN),
        itself=values.get("itself", False),
        placement=placement,
    )


def _method(values: Mapping[str, Any], seed: int, least_s: float, most_s: float) -> Method:
    """least_s, most_s: how long a metric is sampled where nothing else is asked for."""
    min_time_s = least_s if is_default("min_time") else float(values["min_time"])
    max_time_s = max(most_s, min_time_s) if is_default("max_time") else float(values["max_time"])
    method = method_of(dict(values) | {"seed": seed, "min_time": min_time_s, "max_time": max_time_s})
    return replace(method, unit="process", tails=values.get("tails", False))


def ends_itself(values: Mapping[str, Any]) -> bool:
    return values.get("until") is not None or values["time_budget"] is not None


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
        elsewhere=not any(arm.on_host_root for arm in arms),
        afar=arms[0] if arms[0].is_far else None,
    )
    cases = [case if case.device == "cpu" else replace(case, method=design.method_on_gpu) for case in planned]
    return Study(
        title=title,
        arms=list(arms),
        cases=as_in_step(cases),
        pairs=design.pairs,
        until_settled=design.until_settled,
        seed=design.seed,
        other_builds=design.other_builds,
        pairing=design.pairing,
        published=published,
    )
