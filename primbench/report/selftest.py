"""A self-test for people and for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict

from primbench.report.document import Document, Note, Section, Table
from primbench.report.verdicts import heading
from primbench.units import UNKNOWN, format_percent

if TYPE_CHECKING:
    from primbench.experiments.selftest import KindOfCase, SelfTest


MOST_SHARE = 1.0  # of which the number says no more


def document(found: SelfTest) -> Document:
    """A row a kind of case."""
    return Document(
        title="primbench",
        answer=Note(_answer(found)),
        sections=lambda: [Section("", [_table(found)])],
        rows=lambda: [_flat(kind) for kind in found.kinds],
        value={"headline": _answer(found)} | asdict(found),
    )


def _flat(kind: KindOfCase) -> dict[str, object]:
    told = {f"told_in_{minutes}_min": share for minutes, share in kind.told.items()}
    return {name: value for name, value in asdict(kind).items() if name != "told"} | told


def _answer(found: SelfTest) -> str:
    shares = [share for kind in found.kinds if (share := kind.told[1]) is not None]
    told = f"differences of {_percent(min(shares))} to {_percent(max(shares))}" if shares else "no difference"
    return (
        f"A minute here tells {told}, by kind of case; false alarms: {format_percent(found.false_alarms)} of "
        f"{found.relabellings} ways to swap the processes of {found.pairs} pairs."
    )


def _table(found: SelfTest) -> Table:
    minutes = list(found.kinds[0].told) if found.kinds else []
    rows = [
        [kind.primitive, heading(kind.metric), format_percent(kind.deviation), f"{kind.pair_s:.1f} s",
         *(_percent(kind.told[each]) for each in minutes)]
        for kind in found.kinds
    ]  # fmt: skip
    columns = [
        "primitive",
        "metric",
        "a pair scatters by",
        "a pair takes",
        *(f"told in {each} min" for each in minutes),
    ]
    about = Note(
        "told: found in four of five studies of cases of this kind alone that last as long; below a study on this "
        "machine stands how long what is undecided takes"
    )
    return Table.of_rows("The host against itself", columns, rows, [about])


def _percent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    return format_percent(share) if share < MOST_SHARE else f"over {format_percent(MOST_SHARE)}"
