"""Measuring here alone, with ``--versus`` also in another place, or with ``--fleet`` on many nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from primbench.cli.given import placement_of
from primbench.cli.measuring import measure_and_report
from primbench.cli.member import measure_for_fleet
from primbench.cli.options import VERSUS_PAIRS
from primbench.cli.request import typed
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here, Membership, Versus
    from primbench.spec.study import Study


def measure_or_compare(entries: Entries, here: Here, versus: Versus, member: Membership) -> None:
    """Exits as measure_and_report() or `study` do."""
    if versus.versus:
        _compare(entries, here, versus, member)
    elif member.fleet is not None:
        measure_for_fleet(entries, here, member, member.fleet)
    else:
        _refuse_without_others(versus, member)
        measure_and_report(entries, here)


def _refuse_without_others(versus: Versus, member: Membership) -> None:
    """Raises InvalidRequest where it is said how to compare, or to measure many nodes, and with whom is not."""
    for option, value in (("--one-at-a-time", member.one_at_a_time), ("--links", member.links)):
        if value:
            raise InvalidRequest(f"{option}: of the nodes of a fleet: name its folder with --fleet")
    for option, is_given in (("--pairs", versus.pairs is not None), ("--fail-above", versus.fail_above is not None)):
        if is_given:
            raise InvalidRequest(
                f"{option}: of two places: name the other one with --versus; runs that were kept are set side by side "
                "by `primbench compare`"
            )


def _compare(entries: Entries, here: Here, versus: Versus, member: Membership) -> None:
    from primbench.cli.design import design_of, study_of
    from primbench.cli.studying import HOST, carry_out  # whose import takes as long as NumPy's
    from primbench.compare.gate import Gate

    for option in typed("alone"):
        raise InvalidRequest(f"{option} and --versus: it means nothing where places are compared")
    if member.fleet is not None:
        raise InvalidRequest("--fleet and --versus: nodes are compared with each other, by `primbench fleet`")
    if here.record.resume is not None:
        raise InvalidRequest("--resume and --versus: go on with `primbench study --resume`")
    placement = placement_of(here.where)
    design = design_of(here.where, here.how, pairs=versus.pairs, usual_pairs=VERSUS_PAIRS, placement=placement)
    study = _with_name_of_here(study_of([HOST, *versus.versus], entries, design))
    carry_out(study, None, here.how, here.record, here.exports, gate=Gate("slower", versus.fail_above))


def _with_name_of_here(study: Study) -> Study:
    """The study, its baseline named by what of the cases is otherwise in its arms, where places are the same.

    Raises InvalidRequest where nothing is.
    """
    here, *others = study.arms
    if any(replace(arm, name=here.name, case={}) != here for arm in others):
        return study
    held = _held_by_all(study, dict.fromkeys(name for arm in others for name in arm.case))
    for arm in others if held else ():
        if arm.case.items() <= held.items():
            raise InvalidRequest(f"--versus {arm.name}: that is what is measured here, too: name something else")
    words = ",".join(f"{name}={value}" for name, value in held.items())
    return replace(study, arms=[replace(here, name=words or here.name), *others])


def _held_by_all(study: Study, names: Iterable[str]) -> dict[str, str]:
    """What all cases of a study have by these names; {} where they have not all the same."""
    found = {name: {str(case.value_of(name)) for case in study.cases} for name in names}
    if any(len(values) > 1 for values in found.values()):
        return {}
    return {name: value for name, (value,) in found.items()}
