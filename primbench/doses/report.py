"""What would make a step slower, for people: the answer first, then each harm, then places that were foretold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.judgement import TOO_BUSY
from primbench.compare.shown import shown_ratio
from primbench.doctor.cause import listed
from primbench.doses.found import is_too_busy
from primbench.report.document import Check, Column, Document, Note, Section, Table, VerdictCell
from primbench.results.disturbances import WAITED_FRACTION
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from primbench.doses.found import Bounds, Foretold, Loss, PlaceDose, Slope
    from primbench.report.document import Look, State, Tone

SIGNS: dict[Loss, tuple[str, Look]] = {
    "loses": ("-", "worse"), "gains": ("+", "better"), "nothing": ("=", "alike"), "not told": ("?", "open"),
}  # fmt: skip
VERBS: dict[Loss, str] = {
    "loses": "loses", "gains": "gains", "nothing": "nothing by", "not told": "not told of"
}  # fmt: skip


def document(found: Bounds) -> Document:
    """A row a harm."""
    return Document(
        title=found.step,
        answer=Note(answer(found), tone=_tone(found)),
        beside=[Note(_in_place(each)) for each in found.places],
        sections=lambda: _sections(found),
        rows=lambda: [*_flat(found)],
        checks=lambda: [_check(each) for each in found.places],
        value={"headline": answer(found)} | asdict(found),
    )


def _tone(found: Bounds) -> Tone:
    verdicts = {each.verdict for each in found.slopes}
    return "worse" if "loses" in verdicts else "open" if "not told" in verdicts else "fine"


def answer(found: Bounds) -> str:
    """What it loses by which harm, in one sentence."""
    clauses = [(verb, [_said(each) for each in _of(found, verdict)]) for verdict, verb in VERBS.items()]
    said = "; ".join(f"{verb} {listed(words)}" for verb, words in clauses if words)
    waited = f": {TOO_BUSY}, as it waited for a CPU during {format_percent(found.waited_share)} of its time"
    unfinished = "; cut off before all was tried" if found.is_cut_off else ""
    return f"{found.step}: {said}{waited * is_too_busy(found.waited_share)}{unfinished}."


def _of(found: Bounds, verdict: Loss) -> list[Slope]:
    """Harms of which that is told, the worst first."""
    return sorted((each for each in found.slopes if each.verdict == verdict), key=lambda each: -abs(each.share or 0.0))


def _said(each: Slope) -> str:
    is_told = each.verdict in ("loses", "gains")
    return f"{format_percent(abs(each.share or 0.0))} {each.per}" if is_told else each.words


def _in_place(each: Foretold) -> str:
    foretold = "nothing was foretold" if each.low is None else f"foretold {_between(each)} times as long as here"
    taken = "not measured" if each.measured is None else f"measured {shown_ratio(each.measured)}"
    verdict = {True: ", as foretold", False: ", which was not foretold", None: ""}[each.is_within]
    beyond = f" (more than was tried of {listed(each.beyond)})" if each.beyond else ""
    return f"{each.place}: {foretold}{beyond}, {taken}{verdict}{f': {each.reason}' if each.reason else ''}."


def _between(each: Foretold) -> str:
    return f"{shown_ratio(each.low or 0.0)} to {shown_ratio(each.high or 0.0)}"


def _sections(found: Bounds) -> Iterator[Section]:
    yield Section("", [_slopes(found), *([_places(found)] if found.places else [])])
    yield Section("", [*_notes(found)])


def _slopes(found: Bounds) -> Table:
    shares = [None if each.low is None or each.high is None else (each.low, each.high) for each in found.slopes]
    return Table(
        "harms",
        [
            Column("harm", [each.words for each in found.slopes]),
            Column("longer by", [each.share for each in found.slopes], format_percent),
            Column("95 % interval", shares, lambda pair: f"{format_percent(pair[0])} to {format_percent(pair[1])}"),
            Column("for a dose", [each.per for each in found.slopes]),
            Column("at most", [each.largest_dose for each in found.slopes], "{:.3g}".format),
            Column("pairs", [each.pairs for each in found.slopes]),
            Column("verdict", [_verdict(each) for each in found.slopes]),
        ],
        how="share of its undosed time; at most: the largest dose",
    )


def _verdict(each: Slope) -> VerdictCell:
    sign, look = SIGNS[each.verdict]
    return VerdictCell(f"{each.verdict}{f': {each.reason}' if each.reason else ''}", look, sign)


def _places(found: Bounds) -> Table:
    intervals = [None if each.low is None else _between(each) for each in found.places]
    return Table(
        "places",
        [
            Column("place", [each.place for each in found.places]),
            Column("doses", [_doses(each.doses) for each in found.places]),
            Column("foretold", intervals),
            Column("measured", [each.measured for each in found.places], shown_ratio),
            Column("time", [each.time_s for each in found.places], format_time),
            Column("pairs", [each.pairs for each in found.places]),
            Column("as foretold", [each.is_within for each in found.places], lambda is_so: "yes" if is_so else "no"),
        ],
        how="ratio to the time here; the interval holds the mean of the pairs in 95 of 100 cases",
    )


def _doses(doses: Sequence[PlaceDose]) -> str:
    return ", ".join(f"{each.factor} {each.dose:.2g}" for each in doses if each.dose or each.low) or "none"


def _notes(found: Bounds) -> Iterator[Note]:
    if found.waited_share is not None and found.waited_share > WAITED_FRACTION:
        waited = format_percent(found.waited_share)
        work = "other work, or that of its own ranks," if found.ranks > 1 else "other work"
        yield Note(f"It waited for a CPU during {waited} of its time undosed: {work} is in all of this.", "warning")
    if any(each.verdict == "not told" for each in found.slopes):
        yield Note("More pairs tell more:", command=("--time-budget", "5m"))
    if found.calls is None:
        return
    left_out = f", {found.left_out_calls} left out, which cannot be made again here" * bool(found.left_out_calls)
    ranks = f" on each of {found.ranks} ranks" * (found.ranks > 1)
    threads = f"{found.threads} thread{'s' * (found.threads != 1)}{ranks}"
    yield Note(
        f"What runs is the step's {found.calls} calls of operators one after the other{left_out}, "
        f"{format_time(found.time_s)} with {threads}; Python, autograd and data between them are not in it."
    )
    if found.captured_s is not None and found.time_s is not None:
        times = shown_ratio(found.captured_s / found.time_s)
        yield Note(f"The script's own step took {times} times as long, {format_time(found.captured_s)}.")


def _flat(found: Bounds) -> Iterator[dict[str, object]]:
    for each in found.slopes:
        yield {"step": found.step, "kind": "slope"} | asdict(each)
    for place in found.places:
        yield {
            "step": found.step, "kind": "place",
            **{name: value for name, value in asdict(place).items() if name not in ("doses", "beyond")},
        }  # fmt: skip


def _check(each: Foretold) -> Check:
    states: dict[bool | None, State] = {True: "passed", False: "failed", None: "open"}
    return Check("places", each.place, states[each.is_within], _in_place(each))
