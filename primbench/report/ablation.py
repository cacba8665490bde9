"""A waterfall for people and for other programs: what each ingredient of a container costs, case by case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import asdict, replace

from primbench.compare.gate import SLOWER, Gate
from primbench.compare.shown import shown_ratio
from primbench.compare.sides import identity
from primbench.report import table
from primbench.report.checks import checks
from primbench.report.comparison import flat
from primbench.report.document import Document, Note, Table
from primbench.report.headline import headline, tone
from primbench.report.signs import StyledCell
from primbench.report.verdicts import heading, shown_estimate, telling
from primbench.spec.naming import name_of
from primbench.units import UNKNOWN, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Mean
    from primbench.compare.ratio import Estimate
    from primbench.experiments.ablation import AblationStep, Waterfall
    from primbench.report.document import Page

COLUMNS = ["ingredient", "metric", "time", "to the row before", "to the host", "verdict"]
OTHERS = ("stack effect", "machine effect")


def text(found: Waterfall) -> str:
    """The waterfall as text for a terminal, the answer first."""
    return table.texts(_parts(found))


def document(found: Waterfall, gate: Gate = SLOWER, page: Callable[[], Page] | None = None) -> Document:
    """A row an estimate, of each arm against the host, then of each against the one before it: ``baseline`` says.

    gate: what the checks pass, which are of arms against the host. page: with what was compared.
    """
    return Document(
        rows=lambda: _flat(found),
        parts=lambda: _parts(found),
        checks=lambda: checks(found.comparison, gate),
        value={"headline": _answer(found)} | asdict(found),
        page=page,
    )


def _parts(found: Waterfall) -> list[Table | Sequence[Note]]:
    answer = Note(_answer(found), tone=tone(_answered(found)))
    return [[answer], *tables(found), *([Note(words)] for words in _notes(found))]


def _answer(found: Waterfall) -> str:
    """In which ingredient something is slower than in the one before it; of a single pair, what was seen at most."""
    answered = _answered(found)
    return headline(answered) + ("" if answered is found.comparison else " Each is set against the one before it.")


def _answered(found: Waterfall) -> Comparison:
    """What the answer is of: each arm against the one before it, where intervals are known."""
    whole = found.comparison
    if not any(each.interval for each in whole.estimates):
        return whole
    return replace(whole, arms=[step.arm if (step := _step(found, arm)) else arm for arm in whole.arms])


def _flat(found: Waterfall) -> list[dict[str, object]]:
    to_host = [row for arm in found.comparison.arms for row in flat(found.comparison.baseline, arm)]
    steps = found.steps[1:]  # the first is against the host
    return [*to_host, *(row for step in steps for row in flat(step.before, step.arm))]


def tables(found: Waterfall) -> list[Table]:
    """One table for each case; where there are several, one more for the mean of all, if it could be told."""
    cases = _cases(found)
    return [
        *(_table(found, case) for case in cases),
        *([_means(found)] if len(cases) > 1 and _has_means(found) else []),
    ]


def _cases(found: Waterfall) -> list[CaseComparison]:
    return found.comparison.arms[0].cases if found.comparison.arms else []


def _title(found: Waterfall, of: str, pairs: int) -> str:
    how = f"{pairs} pair{'s' * (pairs != 1)}; ratio of times, with its 95 % interval"
    return f"{of}  {found.title or 'one after the other'}  ({how})"


def _table(found: Waterfall, case: CaseComparison) -> Table:
    everywhere = [same for arm in found.comparison.arms if (same := _same(arm, case))]
    pairs = max((each.pairs for same in everywhere for each in same.estimates), default=0)
    rows = [row for arm in found.comparison.arms for row in _rows(arm, case, _step(found, arm))]
    if case.primary:
        start = format_time(case.primary.baseline_s)
        rows.insert(0, [found.comparison.baseline, heading(case.primary.metric), start, "", "", ""])
    rows += _whole_rows(found, case)
    return Table(_title(found, name_of(case.case), pairs), COLUMNS, rows, [])


def _whole_rows(found: Waterfall, case: CaseComparison) -> Iterator[list[str]]:
    """A row for each whole container, as an engine puts it together, against the host."""
    for name, arm in found.wholes.items():
        same = _same(arm, case)
        for deciding, said in telling(same)[:1] if same else []:
            yield [name, heading(deciding.metric), format_time(deciding.arm_s), "", _ratio(deciding), said]


def _rows(arm: ArmComparison, case: CaseComparison, step: AblationStep | None) -> list[list[str]]:
    """Rows of an ingredient: the metric that decides the case, and others that it makes slower or faster."""
    to_host = _same(arm, case)
    of_step = _same(step.arm, case) if step else None
    told = telling(of_step) if of_step else []
    if not told:
        reason = (to_host and to_host.reason) or "not measured"
        return [[arm.name, *[UNKNOWN] * 4, StyledCell(f"not compared: {reason}", "open")]]
    whole = {each.metric: each for each in to_host.estimates} if to_host else {}
    return [
        [
            "" if number else arm.name,
            heading(each.metric),
            format_time(each.arm_s),
            _ratio(each),
            _bare_ratio(whole.get(each.metric)),
            said,
        ]
        for number, (each, said) in enumerate(told)
    ]


def _has_means(found: Waterfall) -> bool:
    """Whether the mean of all cases is known of any arm: of none where the machine was too busy, or all arms failed."""
    return any(arm.mean for arm in [*found.comparison.arms, *(step.arm for step in found.steps)])


def _means(found: Waterfall) -> Table:
    pairs, rows = 0, []
    for arm in found.comparison.arms:
        step = _step(found, arm)
        mean = step.arm.mean if step else None
        pairs = max(pairs, mean.pairs if mean else 0)
        rows.append([arm.name, _ratio(mean), _bare_ratio(arm.mean)])
    rows += [[name, "", _ratio(arm.mean)] for name, arm in found.wholes.items()]
    name = f"geometric mean of {len(_cases(found))} cases"
    return Table(_title(found, name, pairs), [COLUMNS[0], *COLUMNS[3:5]], rows, [])


def _step(found: Waterfall, arm: ArmComparison) -> AblationStep | None:
    return next((step for step in found.steps if step.arm.name == arm.name), None)


def _same(arm: ArmComparison, case: CaseComparison) -> CaseComparison | None:
    """The case in another arm, or against another one."""
    return next((each for each in arm.cases if identity(each.case) == identity(case.case)), None)


def _ratio(found: Estimate | Mean | None) -> str:
    return shown_estimate(found) if found else UNKNOWN


def _bare_ratio(found: Estimate | Mean | None) -> str:
    """The ratio without its interval."""
    return shown_ratio(found.ratio) if found else UNKNOWN


def _notes(found: Waterfall) -> list[str]:
    others = [
        f"{arm.name}: a {arm.effect}, none of the container alone"
        for arm in found.comparison.arms
        if arm.effect in OTHERS
    ]
    without = ["no geometric mean: no case could be told"] if len(_cases(found)) > 1 and not _has_means(found) else []
    return [*others, *without, *found.comparison.notes, *found.notes]
