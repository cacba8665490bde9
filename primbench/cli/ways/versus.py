"""Measuring here and in other places, set side by side as a study does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.cli.completing import complete_arm
from primbench.cli.option_types import WholeNumber, parsed
from primbench.cli.options import MOST_PROCESSES, arm_in_words, fail_above
from primbench.cli.request import dataclass, option, typed
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here
    from primbench.spec.arm import Arm

RANK = 10
FLAG = "--versus"
ON_MANY_NODES = False
PAIRS = 5


@dataclass(frozen=True, kw_only=True)
class Versus:
    """With what else a command that measures here compares, as a study does."""

    versus: tuple[Arm, ...] = option(
        FLAG, group="Compare", type=parsed("arm", arm_in_words), multiple=True, metavar="ARM",
        shell_complete=complete_arm,
        help="Measure here and in another place, such as podman:cpus=2, interleaved, and compare; repeatable.",
    )  # fmt: skip
    pairs: int | None = option(
        "--pairs", group="Compare", is_rare=True, type=WholeNumber(1, MOST_PROCESSES), metavar="N",
        help=f"Fresh processes in each of the two places. Default: {PAIRS}.")  # fmt: skip
    fail_above: float | None = fail_above("Compare")


REQUEST = Versus


def refuse(asked: Versus) -> None:
    """Raises InvalidRequest where it is said how to compare, and with whom is not."""
    for flag, is_given in (("--pairs", asked.pairs is not None), ("--fail-above", asked.fail_above is not None)):
        if is_given:
            raise InvalidRequest(
                f"{flag}: of two places: name the other one with --versus; runs that were kept are set side by side "
                "by `primbench compare`"
            )


def measure(entries: Entries, here: Here, asked: Versus) -> None:
    """Exits as `study` does."""
    from primbench.cli.design import design_of, study_of
    from primbench.cli.given import placement_of
    from primbench.cli.studying import HOST, carry_out  # whose import takes as long as NumPy's
    from primbench.compare.gate import Gate

    for word in typed("alone"):
        raise InvalidRequest(f"{word} and --versus: it means nothing where places are compared")
    if here.record.resume is not None:
        raise InvalidRequest("--resume and --versus: go on with `primbench study --resume`")
    placement = placement_of(here.where)
    design = design_of(here.where, here.how, pairs=asked.pairs, usual_pairs=PAIRS, placement=placement)
    study = study_of([HOST, *asked.versus], entries, design)
    carry_out(study, None, here.how, here.record, here.exports, gate=Gate("slower", asked.fail_above))
