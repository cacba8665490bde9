"""`primbench history`: Find where times changed over days, and what changed too."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from primbench.cli.completing import complete_saved
from primbench.cli.option_types import FILE, parsed
from primbench.cli.options import Exports
from primbench.cli.outputs import check_outputs, publish
from primbench.cli.request import RequestCommand, argument, dataclass, option, part
from primbench.errors import InvalidRequest

RANK = 75


def _day(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(f"{text!r} is no day: as in 2026-11-20, or 2026-11-20T18:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class TellHistory:
    """To find changes in series of runs."""

    files: tuple[str, ...] = argument(type=FILE, metavar="[FILE|FOLDER|NAME]", nargs=-1, shell_complete=complete_saved)
    since: datetime | None = option(
        "--since", group="Compare", type=parsed("day", _day), metavar="DAY",
        help="Tell of changes from this day on; earlier runs are what they are judged by.")  # fmt: skip
    fail_on_change: bool = option(
        "--fail-on-change", group="Output", is_flag=True, help="Exit with 1 where a series changed, slower or faster."
    )
    exports: Exports = part(Exports)


def _history(asked: TellHistory) -> None:
    from primbench.history import report
    from primbench.history.changes import histories
    from primbench.history.files import read

    check_outputs(asked.exports, [each for each in asked.files if each != "/dev/stdin"])
    found = read(asked.files)
    told = histories(found.series, asked.since)
    publish(report.document(told, found, asked.since), asked.exports.files)
    if asked.fail_on_change and any(each.changes for each in told):
        sys.exit(1)


command = RequestCommand(
    "history",
    TellHistory,
    _history,
    help="Put runs in the order of time, a series a case, metric and kind of machine, and find from where on a series "
         "is slower or faster, by the scatter of its own sessions. At each change: what else changed in the record, a "
         "driver, a library, a limit, a label such as the commit, and whether it changed elsewhere without effect.\n\n"
         "Reads results files, folders of them and baselines by name, all baselines unless any is named; and results "
         "of asv, pytest-benchmark, Google Benchmark and nccl-tests. Exit status: 0, 1 by --fail-on-change, 2 where "
         "there is nothing to read.\n\n"
         "\b\n"
         "primbench history results/\n"
         "primbench history main --since 2026-01-01 --report history.html",
)  # fmt: skip
