"""What the tests of one run of pytest measured: a table, a baseline, a comparison with one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from primbench.baselines.named import check as check_name
from primbench.baselines.named import name_of, place_of, runs_of, save
from primbench.compare.gate import Gate
from primbench.compare.pairs import compare_runs
from primbench.errors import PrimbenchError
from primbench.experiments.functions import recorded
from primbench.report import text
from primbench.report.comparison import document
from primbench.report.document import Document, Section
from primbench.report.table import tables
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.units import parse_fraction

if TYPE_CHECKING:
    from collections.abc import Callable

    from primbench.compare.comparison import CaseComparison, Comparison
    from primbench.compare.ratio import Verdict
    from primbench.measurement import Measurement

HERE = "this run"
UNTOLD: Verdict = "inconclusive"


def check(save_as: str | None, against: str | None, fail_above: str | None) -> None:
    """Raises PrimbenchError for a name, a place or a share that cannot be."""
    if save_as:
        check_name(name_of(save_as))
    if against:
        runs_of(place_of(against))
    if fail_above:
        parse_fraction(fail_above)


class Measured:
    """All that was measured so far."""

    def __init__(self) -> None:
        self._found = Results(header=header(["pytest"], {}), workers=[], records=[])
        self._calls: Counter[str] = Counter()
        self._said: list[str] = []

    def add(self, test: str, function: Callable[..., Any], **options: Any) -> Measurement:
        """Time a function; a test that has several timed has them told apart by their number."""
        self._calls[test] += 1
        name = test if self._calls[test] == 1 else f"{test} #{self._calls[test]}"
        record, worker = recorded(name, function, number=len(self._found.workers), **options)
        known = [each for each in self._found.workers if (each.backend, each.device) == (worker.backend, worker.device)]
        self._found.workers.extend([] if known else [worker])
        self._found.records.append(replace(record, worker=(known or [worker])[0].worker))
        assert record.measurement is not None
        return record.measurement

    def end(self, save_as: str | None, against: str | None, fail_above: str | None) -> bool:
        """Whether it fails by the limit."""
        fails = self._compare(against, fail_above) if against else False
        if save_as:
            self._said.append(f"saved as a run of {save_as}: {save(save_as, self._found)}")
        return fails

    def in_words(self) -> str:
        """The table, and what was found beside it."""
        parts = tables(self._found.records, self._found.workers)
        shown = text.write(Document(title="", answer=None, sections=lambda: [Section("", parts)]))
        return "\n".join([shown, *self._said])

    def _compare(self, against: str, fail_above: str | None) -> bool:
        gate = Gate("slower", parse_fraction(fail_above)) if fail_above else Gate("never")
        try:
            runs = [results_file.read(each) for each in runs_of(place_of(against))]
            comparison = compare_runs(runs, [self._found], (against, HERE))
            self._said.append(text.write(document(comparison, gate)))
            gate.check(comparison)
        except PrimbenchError as error:
            self._said.append(str(error))
            return fail_above is not None
        return not self._told(comparison, gate)

    def _told(self, comparison: Comparison, gate: Gate) -> bool:
        passes = gate.passes(comparison)
        if not passes:
            refused = [each.case for each in gate.cases(comparison) if not each.passes]
            for what, are_untold in (("failed by", False), ("not told, and so not passed by", True)):
                self._said += _refusals(what, [each for each in refused if (each.verdict == UNTOLD) is are_untold])
            if not refused:
                self._said.append("failed by --primbench-fail-above: nothing was compared")
        return passes


def _refusals(what: str, cases: list[CaseComparison]) -> list[str]:
    names = ", ".join(str(each.case.parameters["function"]) for each in cases)
    return [f"{what} --primbench-fail-above: {names}"] if cases else []
