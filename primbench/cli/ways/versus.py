"""Measuring here and in other places, set side by side as a study does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from primbench.cli.completing import complete_arm
from primbench.cli.option_types import WholeNumber, parsed
from primbench.cli.options import MOST_PROCESSES, arm_in_words, fail_above
from primbench.cli.request import dataclass, option, typed
from primbench.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from primbench.cli.measuring import Entries
    from primbench.cli.options import Here
    from primbench.spec.arm import Arm
    from primbench.spec.study import Study

RANK = 10
FLAG = "--versus"
ON_MANY_NODES = False
PAIRS = 5


def versus_in_words(text: str) -> Arm:
    """Read an arm, or KEY=VALUE of what is otherwise here: of a place's settings, else of the case.

    FILE.py::FUNCTION alone is another one to `primbench time`.
    """
    from msgspec.structs import replace  # which --help does without

    from primbench.spec.settings import FIELDS, PLACEMENT, each_of, split_words
    from primbench.spec.settings.machines import CASE

    if re.fullmatch(r"[^=]+\.py::\w+", text):
        return replace(arm_in_words(f"host:{CASE.key}.function={text}"), name=text)
    if not re.match(r"[\w.-]+=", text):
        return arm_in_words(text)
    words = split_words("host", text)
    are_of_place = [(key := word.partition("=")[0]) in FIELDS | PLACEMENT or each_of(key) is not None for word in words]
    settings = [word if is_one else f"{CASE.key}.{word}" for word, is_one in zip(words, are_of_place, strict=True)]
    return replace(arm_in_words(f"host:{','.join(settings)}"), name=text)


@dataclass(frozen=True, kw_only=True)
class Versus:
    """With what else a command that measures here compares, as a study does."""

    versus: tuple[Arm, ...] = option(
        FLAG, group="Compare", type=parsed("arm", versus_in_words), multiple=True, metavar="ARM|KEY=VALUE",
        shell_complete=complete_arm,
        help="Compare with podman:cpus=2, or dtype=float16. Measures here and in another place, or with something "
             "else, such as backend=torch or kernel=NAME, interleaved; repeatable.",
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
    study = _with_name_of_here(study_of([HOST, *asked.versus], entries, design))
    carry_out(study, None, here.how, here.record, here.exports, gate=Gate("slower", asked.fail_above))


def _with_name_of_here(study: Study) -> Study:
    """The study, its baseline named by what of the cases is otherwise in its arms, where places are the same.

    Raises InvalidRequest where nothing is.
    """
    from msgspec.structs import replace

    here, *others = study.arms
    if any(replace(arm, name=here.name, case={}) != here for arm in others):
        return study
    held = _held_by_all(study, dict.fromkeys(name for arm in others for name in arm.case))
    for arm in others if held else ():
        if arm.case.items() <= held.items():
            raise InvalidRequest(f"--versus {arm.name}: that is what is measured here, too: name something else")
    return replace(study, arms=[replace(here, name=_in_words(held) or here.name), *others])


def _in_words(held: Mapping[str, str]) -> str:
    """As --versus takes it."""
    return ",".join(value if name == "function" else f"{name}={value}" for name, value in held.items())


def _held_by_all(study: Study, names: Iterable[str]) -> dict[str, str]:
    """What all cases of a study have by these names; {} where they have not all the same."""
    found = {name: {case.word_of(name) for case in study.cases} for name in names}
    if any(len(values) > 1 for values in found.values()):
        return {}
    return {name: value for name, (value,) in found.items()}
