"""Why one place is slower than another, for people: the answer first, then each ingredient, then what to type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.shown import shown_ratio
from primbench.doctor.cause import listed
from primbench.experiments.why.ingredients import Mixtures
from primbench.report.document import Check, Document, Note, Section, Table, typed
from primbench.report.figures.waterfall import waterfall
from primbench.report.step import step
from primbench.report.verdicts import heading
from primbench.runtimes.programs import chooses
from primbench.spec.arm import format_arm, words_of
from primbench.spec.naming import name_of, options_of
from primbench.units import UNKNOWN, format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.experiments.why.conclusion import Contribution, Proof
    from primbench.experiments.why.inquiry import Inquiry
    from primbench.experiments.why.rounds import RatioInterval, Subset
    from primbench.report.document import Figure, State, Tone
    from primbench.spec.arm import Arm

COLUMNS = ["", "ingredient", "added to the fast place", "taken from the slow place", "share", "what it does"]
MOST_SUSPECTS = 3
LONGEST_NAME = 40  # characters of a place in a sentence


def document(found: Inquiry) -> Document:
    """A row an ingredient."""
    return Document(
        title=name_of(found.case),
        answer=Note(answer(found), tone=_tone(found)),
        beside=[*_mends(found)],
        sections=lambda: _sections(found),
        rows=lambda: [*_flat(found)],
        checks=lambda: [_check(found)],
        value={"headline": answer(found)} | asdict(found),
        page=lambda: page(found),
    )


def page(found: Inquiry, title: str = "") -> Document:
    """With a picture of what is proven. title: of a file, if it is of one."""
    sets = [_set(found, proof.differences) for proof in found.conclusion.proofs]
    drawn = waterfall(found.conclusion, _named(found.fast), _named(found.slow), sets)
    proven: list[Note | Figure] = [*_mends(found), *([drawn] if drawn else [])]
    otherwise: list[Note | Table] = [_table(found), *_steps(found), *_notes(found)]
    sections = [Section("What is proven", proven)] if proven else []
    sections.append(Section("What is otherwise", otherwise))
    return Document(title or name_of(found.case), Note(answer(found), tone=_tone(found)), lambda: sections)


def is_slower(found: Inquiry) -> bool:
    """Whether the slow place is, for certain."""
    effect = found.conclusion.effect
    return effect is not None and effect.low > 1


def is_not_slower(found: Inquiry) -> bool:
    """Whether it is not, by more than does not matter, for certain."""
    effect = found.conclusion.effect
    is_faster = effect is not None and effect.high is not None and effect.high < 1
    return is_faster or found.conclusion.outcome == "no difference"


def answer(found: Inquiry) -> str:
    """What was found, in some sentences."""
    known = found.conclusion
    counted = f"{_count(known.places, 'place')}, {_count(known.pairs, 'pair')}, {format_time(found.took_s)}"
    unfinished = "" if known.final else "; cut off before all was asked"
    return " ".join(
        [
            *_recorded(found),
            f"{_effect(found)}.",
            *_both_ways(found),
            *_framing(found),
            *_replayed(found),
            f"{counted}{unfinished}.",
        ]
    )


def _recorded(found: Inquiry) -> Iterator[str]:
    """Whether what was recorded elsewhere is so here, with the settings of there."""
    recorded, effect = found.recorded, found.conclusion.effect
    if recorded is None or effect is None:
        return
    there, here = f"{_ratio(recorded)} times as long there", f"what can be set here makes {_ratio(effect)}"
    if not _is_certain(recorded):
        yield f"Recorded: {there}, by itself no certain difference."
    elif _is_above(recorded, effect) or _is_above(effect, recorded):
        yield f"Not reproduced: {here} of {there}."
    elif _is_certain(effect):
        yield f"Reproduced: it took {there}."
    else:
        yield f"Recorded: {there}; {here}, which does not tell whether that is reproduced."


def _is_certain(found: RatioInterval) -> bool:
    return found.high is not None and not found.low <= 1 <= found.high


def _is_above(one: RatioInterval, other: RatioInterval) -> bool:
    return other.high is not None and one.low > other.high


def _effect(found: Inquiry) -> str:
    known, name = found.conclusion, name_of(found.case)
    if known.effect is None:
        return f"{name}: nothing to compare: {next((reason for _, reason in known.failed), 'it was not measured')}"
    times = f"{_ratio(known.effect)} times as long in {_named(found.slow)} as in {_named(found.fast)}"
    if known.outcome == "no difference":
        return f"{name} takes as long in both places, {times}"
    if known.outcome == "undecided":
        return f"{name}: undecided, {times}{_more(found)}"
    if not known.proofs:
        things = _count(len(found.ingredients), "ingredient")
        return f"{name} takes {times}; of {things} none is proven to be why{_suspected(found)}{_more(found)}"
    left = f"; unexplained {_ratio(known.unexplained)}" if known.unexplained else ""
    return f"{name} takes {times}, because of {_causes(found)}{left}"


def _causes(found: Inquiry) -> str:
    return listed([f"{found.ingredients[number]} ({_ratio(_added(*of))})" for number, of in _proven(found).items()])


def _proven(found: Inquiry) -> dict[int, tuple[Proof, Contribution]]:
    """Each ingredient that is, by its number."""
    return {one.difference: (proof, one) for proof in found.conclusion.proofs for one in proof.contributions}


def _added(proof: Proof, one: Contribution) -> RatioInterval:
    """How many times as long it makes the fast place take, the others of its set being there."""
    return one.added or proof.harms


def _both_ways(found: Inquiry) -> Iterator[str]:
    proven = _proven(found).values()
    if not proven:
        return
    each, s = ("it", "s") if len(proven) == 1 else ("they", "")
    if all(_added(*of).ratio < 1 for of in proven):
        harms, heals = f"{each} speed{s} it up", f"{each} slow{s} it down"
    elif all(_added(*of).ratio >= 1 for of in proven):
        harms, heals = f"{each} harm{s}", f"{each} heal{s}"
    else:
        harms, heals = f"{each} do that", f"{each} undo it"
    yield f"Added to {_named(found.fast)} {harms}, taken from {_named(found.slow)} {heals}."


def _framing(found: Inquiry) -> Iterator[str]:
    """What the places that were asked about are beside those that stand for them."""
    if (framing := found.framing) is not None:
        asked = " as in ".join(map(_named, reversed(found.asked)))
        yield (
            f"As they were asked about: {_ratio(framing.asked)} times as long in {asked}; what stands for them differs "
            f"from these by {_ratio(framing.entering)} and {_ratio(framing.leaving)}."
        )


def _replayed(found: Inquiry) -> Iterator[str]:
    """Whether what was proven was there again, where that was asked."""
    words = {True: "there again", False: "not there any more", None: "not told by the pairs that were run"}
    if found.replayed and all(found.replayed):
        yield "Replayed: the same."
    elif found.replayed:
        each = zip(found.conclusion.proofs, found.replayed, strict=True)
        yield f"Replayed: {', '.join(f'{_set(found, proof.differences)} {words[same]}' for proof, same in each)}."


def _suspected(found: Inquiry) -> str:
    suspects = found.conclusion.suspects
    if suspects and not suspects[0][0]:
        return (
            f"; most likely none of them ({format_percent(suspects[0][1])}), nor two together: what made the "
            "difference may have gone while it was searched for, as with a cache that fills: ask again"
        )
    likely = [f"{_set(found, each)} ({format_percent(weight)})" for each, weight in suspects]
    return f"; most likely {', '.join(likely[:MOST_SUSPECTS])}" if likely else ""


def _more(found: Inquiry) -> str:
    pairs = found.conclusion.pairs_to_decide
    return f"; about {_count(pairs, 'pair')} would tell" if pairs is not None else ""


def _set(found: Inquiry, design: Subset) -> str:
    return " with ".join(found.ingredients[number] for number in sorted(design)) or found.fast.name


def _named(arm: Arm) -> str:
    """The runtime stands for an arm of many words."""
    return arm.name if len(arm.name) <= LONGEST_NAME else f"{arm.name[: LONGEST_NAME - 3]}..."


def _sections(found: Inquiry) -> list[Section]:
    notes = [Section("", [each]) for each in _notes(found)]
    return [Section("", [_table(found)]), Section("", [*_steps(found)]), *notes]


def _table(found: Inquiry) -> Table:
    title = f"{name_of(found.case)}, {heading(found.metric)}"
    return Table.of_rows(title, COLUMNS, [*_rows(found)], how="ratios of times, with intervals")


def _steps(found: Inquiry) -> Iterator[Note]:
    """Which parts of a captured step each set that is proven acts on."""
    for proof, each in zip(found.conclusion.proofs, found.steps, strict=bool(found.steps)):
        if each is not None:
            fast = _named(found.fast)
            yield from map(Note, step(each, fast, f"{fast} with {_set(found, proof.differences)}", is_proven=True))


def _mends(found: Inquiry) -> Iterator[Note]:
    """What to do about each ingredient, and the commands that do it."""
    for each in found.mends:
        yield Note(f"mend: {found.ingredients[each.difference]}: {each.advice}")
        yield from (Note("fix:", command=[words]) for words in each.fix)


def _rows(found: Inquiry) -> Iterator[list[str]]:
    proven, unproven = _proven(found), _unproven(found)
    for number, words in enumerate(found.ingredients):
        if number in unproven:
            yield [str(number + 1), unproven[number], *[UNKNOWN] * 3, ""]
        if number not in proven:
            continue
        proof, one = proven[number]
        share = UNKNOWN if one.share is None else format_percent(one.share)
        does = one.role if len(proof.differences) > 1 and one.role else "slows it"
        yield [str(number + 1), words, _ratio(_added(proof, one)), _ratio(one.alone or proof.heals), share, does]


def _unproven(found: Inquiry) -> dict[int, str]:
    """Words of each ingredient that is not, by its number; of names that share a word, of all by the first one's."""
    shown: dict[str | int, list[int]] = {}
    for number, each in enumerate(Mixtures(found.fast, found.slow).ingredients):
        if number not in _proven(found):
            shown.setdefault(each.among or number, []).append(number)
    more = {number: f" and {len(rest)} more" if rest else "" for number, *rest in shown.values()}
    return {number: found.ingredients[number] + words for number, words in more.items()}


def _flat(found: Inquiry) -> Iterator[dict[str, object]]:
    """Ratios as numbers."""
    proven = _proven(found)
    for number, words in enumerate(found.ingredients):
        proof, one = proven.get(number, (None, None))
        yield {
            "fast": found.fast.name,
            "slow": found.slow.name,
            "case": name_of(found.case),
            "metric": found.metric,
            "ingredient": words,
            "proven": one is not None,
            "role": one and one.role,
            "share": one and one.share,
            **_bounds("added", _added(proof, one) if proof and one else None),
            **_bounds("taken", (one.alone or proof.heals) if proof and one else None),
        }


def _bounds(name: str, found: RatioInterval | None) -> dict[str, object]:
    return {f"{name}_{each}": found and getattr(found, each) for each in ("ratio", "low", "high")}


def _notes(found: Inquiry) -> Iterator[Note]:
    known = found.conclusion
    for proof in known.passed:
        yield Note(f"{_set(found, proof.differences)}: was proven, and was not there again after a pause", "warning")
    for design, reason in known.failed:
        yield Note(f"does not run with {_set(found, design)}: {reason}")
    yield from map(Note, found.notes)
    yield from _commands(found)


def _commands(found: Inquiry) -> Iterator[Note]:
    """What to type to see it again."""
    asked = options_of(found.case)
    if found.conclusion.proofs:
        mixtures = Mixtures(found.fast, found.slow)
        proven = frozenset(_proven(found))
        harmed, healed = mixtures.arm(proven), mixtures.arm(mixtures.all - proven)
        words = dict.fromkeys(map(words_of, (found.fast, harmed, healed, found.slow)))
        compared = [word for each in words for word in ("--arm", each)]
        yield Note("proof:", command=typed(["primbench", "study", *compared, *asked]))
    if found.file and found.conclusion.final and found.conclusion.proofs:
        own = ["--own"] * any(map(chooses, found.asked))
        yield Note("replay:", command=typed(["primbench", "why", "--resume", found.file, "--replay", *own]))
    yield Note("again:", command=typed(["primbench", "why", *map(format_arm, found.asked), *asked]))


def _tone(found: Inquiry) -> Tone:
    if is_slower(found):
        return "worse"
    return "fine" if is_not_slower(found) else "open"


def _check(found: Inquiry) -> Check:
    states: dict[Tone, State] = {"worse": "failed", "fine": "passed", "open": "open"}
    return Check(group=found.slow.name, name=name_of(found.case), state=states[_tone(found)], words=answer(found))


def _ratio(found: RatioInterval) -> str:
    if found.high is None:
        return shown_ratio(found.ratio)
    return f"{shown_ratio(found.ratio)} [{shown_ratio(found.low)}, {shown_ratio(found.high)}]"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
