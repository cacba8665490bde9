"""Measuring here alone, with ``--versus`` also in another place, or with ``--fleet`` on many nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from primbench.cli.given import is_typed, placement_of
from primbench.cli.measuring import measure_and_report
from primbench.cli.member import measure_for_fleet
from primbench.cli.options import ALONE, VERSUS_PAIRS
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from primbench.cli.measuring import Entries

OF_PLACES = ("pairs", "fail_above")
"""Options of comparing several places, which mean nothing in one."""


def measure_or_compare(entries: Entries, values: Mapping[str, Any]) -> None:
    """Exits as measure_and_report() or `study` do."""
    if values["versus"]:
        _compare(entries, values)
        return
    if values["fleet"] is not None:
        measure_for_fleet(entries, values)
        return
    for option in ("one_at_a_time", "links"):
        if values[option]:
            words = f"--{option.replace('_', '-')}"
            raise InvalidRequest(f"{words}: of the nodes of a fleet: name its folder with --fleet")
    for name in OF_PLACES:
        if values[name] is not None:
            raise InvalidRequest(
                f"--{name.replace('_', '-')}: of two places: name the other one with --versus; runs that were kept "
                "are set side by side by `primbench compare`"
            )
    measure_and_report(entries, values)


def _compare(entries: Entries, values: Mapping[str, Any]) -> None:
    from primbench.cli.design import design_of, study_of
    from primbench.cli.study import HOST, carry_out  # whose import takes as long as NumPy's

    for name in ALONE:
        if is_typed(name):
            raise InvalidRequest(f"--{name.replace('_', '-')} and --versus: it means nothing where places are compared")
    if values["fleet"] is not None:
        raise InvalidRequest("--fleet and --versus: nodes are compared with each other, by `primbench fleet`")
    if values["resume"] is not None:
        raise InvalidRequest("--resume and --versus: go on with `primbench study --resume`")
    design = design_of(values, placement=placement_of(values), default_pairs=VERSUS_PAIRS)
    carry_out(study_of([HOST, *values["versus"]], entries, design), None, values)
