"""Asks which settings make one place slower than another, and has that measured until it is known."""

from __future__ import annotations

import math
import time
from collections import Counter
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from primbench.compare.explain import beside, own_part
from primbench.compare.step import StepComparison
from primbench.doctor.table import causes
from primbench.environment.comparable import meaning_of
from primbench.environment.configuration import of_variable
from primbench.errors import InvalidRequest
from primbench.experiments.why.conclusion import Conclusion
from primbench.experiments.why.frame import Framing
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.measuring import Measuring
from primbench.experiments.why.mending import Mend, mends
from primbench.experiments.why.rounds import RatioInterval
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.settings import SETTINGS
from primbench.spec.settings.variables import ENV
from primbench.spec.variables import is_for_libraries
from primbench.system.meaning import FactId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from primbench.experiments.why.atoms import Atom
    from primbench.experiments.why.ingredients import Ingredient
    from primbench.experiments.why.rounds import Round, Subset
    from primbench.results.file import Results
    from primbench.results.record import Record
    from primbench.spec.setting import Activity, Setting

PAUSE_SHARE, LONGEST_PAUSE_S = 0.25, 15.0
"""Before a proof is repeated: of the time until then, and at most."""
LONGEST_GAP_S = 60.0
"""Between two records; after more a file was gone on with later."""
KNOWN, USUAL, UNLIKELY = 4.0, 1.0, 0.4
"""Of what is known to slow what the case does, of what may, and of what nothing is known to read."""


class Inquiry(msgspec.Struct, frozen=True, kw_only=True):
    """Why one place is slower than another: what was asked, and what was found."""

    asked: tuple[Arm, Arm]
    """The fast and the slow place, as they were asked about."""
    fast: Arm
    slow: Arm
    """The same in one frame, between which settings were moved."""
    case: Case
    """What was timed in all places."""
    metric: str
    """By which they are compared, as results files name it."""
    ingredients: list[str]
    """What the slow place has otherwise, in an arm's words, in the order of their numbers in the conclusion."""
    conclusion: Conclusion
    took_s: float
    """That its processes took, one after the other or together."""
    recorded: RatioInterval | None = None
    """How many times as long the slow place took, where one of the two was recorded elsewhere, and is settings here."""
    framing: Framing | None = None
    """What stands between the places that were asked about and those in one frame, where these are others."""
    notes: list[str] = []
    """What cannot be had in the frame."""
    steps: list[StepComparison | None] = []
    """Where the case is a captured step: by how much it and each part of it is longer with each proven set in the fast
    place, in the order of the proofs; None where no time was left to measure that."""
    mends: list[Mend] = []
    """What to do about each ingredient that is proven to slow the slow place."""
    file: str = ""
    """With every pair, by which it can be gone on with; "" is none."""
    replayed: list[bool | None] = []
    """Of each proof, in their order, whether it was there in pairs that were measured anew once all was asked; None
    where these were too few."""


class Asking(NamedTuple):
    """How far an inquiry is."""

    round: Round
    took_s: float
    """Seconds that it took so far."""
    pairs: int
    suspects: Sequence[tuple[Subset, float]]
    """The likeliest sets of ingredients, with probabilities."""


def inquire(measuring: Measuring, tell: Callable[[Asking], None]) -> tuple[Inquiry, BaseException | None]:
    """What was found until nothing was left to ask, or no time, and what cut it off, None where nothing did.

    tell: is called before each round. Raises InvalidRequest where no setting is different, or not those of the file;
    BackendUnavailable where no case runs in both places.
    """
    from primbench.experiments.why.investigation import Investigation

    study, mixtures = measuring.study, measuring.mixtures
    _check(measuring)
    likely = weights(mixtures.ingredients, measuring.asked.case)
    investigation = Investigation(len(likely), seed=study.seed, weights=likely)
    asked, ended, framing, parts = None, None, None, list[StepComparison | None]()
    try:
        while (asked := investigation.next()) is not None:
            took_s = _took_s(measuring.found.records)
            tell(Asking(asked, took_s, investigation.conclude().pairs, investigation.suspects()))
            _pause(measuring, asked, took_s)
            if not (observations := measuring.observe(asked)):
                break
            investigation.tell(asked, observations)
            asked = None
        framing = measuring.framed()
        parts = measuring.steps(investigation.conclude().proofs)
    except (KeyboardInterrupt, SystemExit) as stop:
        ended = stop
        if asked is not None and (observations := measuring.held(asked)):
            investigation.tell(asked, observations)
    conclusion = investigation.conclude()
    return Inquiry(
        asked=(study.arms[-2], study.arms[-1]),
        fast=mixtures.fast,
        slow=mixtures.slow,
        case=measuring.asked.case,
        metric=measuring.asked.metric,
        ingredients=[each.words for each in mixtures.ingredients],
        conclusion=conclusion,
        took_s=round(_took_s(measuring.found.records), 3),
        recorded=measuring.recorded(),
        framing=framing,
        notes=study.notes,
        steps=parts,
        file=str(measuring.writer.path) if measuring.writer else "",
        mends=[*mends(conclusion.proofs, mixtures, *measuring.environments())],
    ), ended


def _check(measuring: Measuring) -> None:
    """Raises InvalidRequest where there is nothing to ask, or the numbers of what is asked are no longer the file's."""
    mixtures, found = measuring.mixtures, measuring.found.header
    words = [each.words for each in mixtures.ingredients]
    if not words:
        raise InvalidRequest(f"{mixtures.fast.name} and {mixtures.slow.name}: no setting is different: nothing to ask")
    if measuring.study.ingredients and measuring.study.ingredients != words:
        began, now = ("; ".join(each) for each in (measuring.study.ingredients, words))
        version = found.environment.primbench_version
        raise InvalidRequest(
            f"begun by primbench {version} about {began}, and this one asks here about {now}: its pairs are of other "
            "places: begin anew with -o"
        )


def _pause(measuring: Measuring, asked: Round, took_s: float) -> None:
    """Before a round of which nothing is measured yet, where it is for what may have passed by then."""
    if asked.after_pause and measuring.measures and not measuring.is_held(asked):
        time.sleep(min(LONGEST_PAUSE_S, PAUSE_SHARE * took_s))


def recalled(found: Results) -> Inquiry:
    """What the pairs of a file come to; nothing is measured.

    Raises InvalidRequest where they are of another version of primbench, BackendUnavailable where no case ran.
    """
    study = found.header.study
    if study is None or not study.why:
        raise InvalidRequest("not of `primbench why`")
    measuring = Measuring(
        study=study,
        mixtures=Mixtures(*study.arms[:2]),
        found=found,
        writer=None,
        timeout_s=0.0,
        ends_s=-math.inf,
        measures=False,
    )
    inquiry, _ = inquire(measuring, lambda asking: None)
    return inquiry


def _took_s(records: Sequence[Record]) -> float:
    """From the first record to the last, without the time until a file was gone on with."""
    ends = sorted(datetime.fromisoformat(each.started_utc).timestamp() + each.duration_s for each in records)
    return sum(min(LONGEST_GAP_S, later - one) for one, later in pairwise(ends))


def weights(ingredients: Sequence[Ingredient], case: Case) -> list[float]:
    """Of each, how many times as likely it is a cause as one of which nothing is known.

    Names that one word may stand for share the weight of that: each is asked about, and none of it crowds out others.
    """
    done = {own_part(case), *beside(case), "launch"}
    names = Counter(each.among for each in ingredients)
    return [
        max(_weight(atom, done) for atom in each.atoms) / (names[each.among] if each.among else 1)
        for each in ingredients
    ]


def _weight(atom: Atom, done: set[Activity]) -> float:
    row = SETTINGS.get(atom[0])
    slowed = {each for rule in _rules(atom) if rule in causes() for each in causes()[rule].slows}
    if row is not None and done & {*slowed, *row.moves}:
        return KNOWN
    return UNLIKELY if _is_unread(atom, row) else USUAL


def _is_unread(atom: Atom, row: Setting | None) -> bool:
    """Whether nothing is known to go by it."""
    if row is ENV:
        return not is_for_libraries(atom[1])
    return row is not None and not row.moves and row.cost != "image"  # of which much else is than is moved by itself


def _rules(atom: Atom) -> list[str]:
    """Ids of the causes that a difference in it is."""
    row = SETTINGS.get(atom[0])
    if row is ENV:
        found = of_variable(atom[1])
        return [found.rule] if found.rule and found.read_by else []
    facts = [meaning_of(FactId(*fact)).rule for fact in row.shows] if row else []
    return [rule for rule in (row and row.rule, *facts) if rule]
