"""A certificate for people and for other programs: who is fit, why not and what to do, and all that was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.compare.shown import shown_ratio
from primbench.fleet.report import document as fleet_document
from primbench.report.document import Check, Document, Note, Section, Table
from primbench.report.plain import named
from primbench.report.verdicts import heading, signed
from primbench.spec.naming import name_of
from primbench.units import format_percent, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from primbench.fleet.certificate import Certified, NodeCertificate, Placed
    from primbench.fleet.soak import Soaked
    from primbench.report.document import Tone, VerdictCell

MOST_WARNINGS = 8
NO_POPULATION = (
    "set beside no population, and none is shipped: --save-as NAME keeps what was measured, and --against NAME says "
    "where others stand among these"
)


UNJUDGED = "too few of a kind were measured, and there is no population of so many, so that no time tells"


def document(found: NodeCertificate, made_utc: str) -> Document:
    """made_utc: when it was made. A check a member, a row a metric that is set beside the population."""
    return Document(
        title=f"certificate of {found.folder}",
        answer=Note(_headline(found), tone=_tone(found)),
        sections=lambda: [*_sections(found, made_utc)],
        rows=lambda: [asdict(each) | {"case": name_of(each.case)} for each in found.placed],
        checks=lambda: [_check(each) for each in found.members],
        value={
            "headline": _headline(found),
            "made_utc": made_utc,
            "is_fit": found.is_fit,
            "are_times_judged": found.are_times_judged,
        }
        | asdict(found),
    )


def _tone(found: NodeCertificate) -> Tone:
    if not found.is_fit:
        return "worse"
    return "fine" if found.are_times_judged else "open"


def _headline(found: NodeCertificate) -> str:
    failed = [each for each in found.members if each.reasons]
    if not failed:
        names = named([each.member for each in found.members])
        return f"Fit: {names}." if found.are_times_judged else f"Fit: {names}, but for speed: {UNJUDGED}."
    first = failed[0]
    return f"Not fit: {named([each.member for each in failed])}; {first.member}: {first.reasons[0].words}."


def _sections(found: NodeCertificate, made_utc: str) -> Iterator[Section]:
    yield Section(
        "", [Table.of_rows("", ["member", "verdict"], [[each.member, _verdict(each, found)] for each in found.members])]
    )
    wrong = [Note(f"{each.member}: {words}") for each in found.members for words in _told(each)]
    yield Section("", wrong)
    if found.placed:
        yield Section("", [_population(found)])
    else:
        yield Section("", [Note(NO_POPULATION)])
    if found.soaked:
        yield Section("", [_soaked(found)])
    for fleet in found.parts.values():
        yield from fleet_document(fleet).sections()
    more = len(found.warnings) - MOST_WARNINGS
    told = [Note(f"can slow it down: {words}") for words in found.warnings[:MOST_WARNINGS]]
    yield Section("", [*told, *([Note(f"and {more} more warnings: --json has all")] if more > 0 else [])])
    yield Section("", [Note(f"Made {made_utc}. Signed: ______________________________")])


def _told(found: Certified) -> Iterator[str]:
    for each in found.reasons:
        yield each.words + (f": {each.advice}" if each.advice else "")


def _verdict(found: Certified, certificate: NodeCertificate) -> VerdictCell:
    if not found.reasons:
        is_judged = certificate.are_times_judged
        return signed("equivalent", "fit") if is_judged else signed("inconclusive", "fit but for speed, not judged")
    return signed("slower", f"not fit: {', '.join(dict.fromkeys(each.why for each in found.reasons))}")


def _population(found: NodeCertificate) -> Table:
    rows: list[list[object]] = [
        [
            each.member,
            each.part,
            name_of(each.case, with_place=False),
            heading(each.metric),
            each.time_s,
            each.median_s,
            each.percentile,
            each.members,
            each.limit,
            _place(each),
        ]
        for each in found.placed
    ]
    return Table.of_rows(
        f"beside {found.population}",
        ["member", "part", "case", "metric", "time", "median", "percentile", "of", "too slow above", "verdict"],
        rows,
        how="percentile: of the population's members of its kind, the share whose time is shorter",
        formats={
            "time": format_time,
            "median": format_time,
            "percentile": format_percent,
            "too slow above": shown_ratio,
        },
    )


def _place(found: Placed) -> VerdictCell:
    if found.limit is None:
        return signed("inconclusive", "too few of its kind")
    return signed("slower", "slower") if found.is_slow else signed("equivalent", "as others")


def _soaked(found: NodeCertificate) -> Table:
    rows: list[list[object]] = [
        [
            each.member,
            each.rounds,
            each.lasted_s,
            each.median_s,
            each.slope,
            None if each.interval is None else " to ".join(map(format_percent, each.interval)),
            _kept(each),
        ]
        for each in found.soaked
    ]
    return Table.of_rows(
        "soak",
        ["member", "rounds", "lasted", "median", "drift", "95 % interval", "verdict"],
        rows,
        how="drift: how much longer the same work takes at the end than at the beginning",
        formats={"lasted": format_time, "median": format_time, "drift": format_percent},
    )


def _kept(found: Soaked) -> VerdictCell:
    if found.interval is None:
        return signed("inconclusive", "too few rounds")
    if found.wrong:
        return signed("slower", "drifts")
    is_kept = found.interval[1] <= found.margin
    return (
        signed("equivalent", "keeps its speed") if is_kept else signed("inconclusive", "undecided: let it last longer")
    )


def _check(found: Certified) -> Check:
    words = "; ".join(_told(found))
    return Check("certificate", found.member, "failed" if words else "passed", words)
