"""`primbench fleet`: Find the nodes of many that are slower, and say why."""

from __future__ import annotations

import sys

from primbench.cli.option_types import FILE
from primbench.cli.options import Exports
from primbench.cli.outputs import check_outputs, publish
from primbench.cli.request import RequestCommand, argument, dataclass, option, part

RANK = 80


@dataclass(frozen=True, kw_only=True)
class SumUpFleet:
    """To set the nodes of a fleet beside each other."""

    folder: str = argument(type=FILE, metavar="FOLDER")
    against: str | None = option(
        "--against", group="Compare", type=FILE, metavar="FOLDER",
        help="Set an earlier fleet beside this one: how all changed, and which nodes changed otherwise.",
    )  # fmt: skip
    exports: Exports = part(Exports)


def _fleet(asked: SumUpFleet) -> None:
    from primbench.cli.places import labels
    from primbench.fleet import report as words
    from primbench.fleet.folder import read, read_links
    from primbench.fleet.summary import summarize

    folder, against = asked.folder, asked.against
    name, name_of_earlier = labels([folder, against or folder])
    earlier = None if against is None else (name_of_earlier, read(against))
    held, links = read(folder), read_links(folder)
    check_outputs(asked.exports)
    found = summarize(name, held, earlier, links)
    publish(words.document(found), asked.exports.files)
    if not (found.is_healthy and any(case.metrics for case in found.cases)):
        sys.exit(1)


command = RequestCommand(
    "fleet",
    SumUpFleet,
    _fleet,
    help="One table of what each node of a fleet measured into FOLDER: the spread over nodes, those that stand out as "
         "slower, and what is different about them; the same of what was measured between nodes.\n\n"
         "Exit status: 0, 1 where a node is slower, missing or has not measured all that others have, nothing was "
         "measured, or the fleet or one of its nodes became slower than in the earlier one, 2 where there is no "
         "fleet.\n\n"
         "\b\n"
         "primbench fleet fleet/\n"
         "primbench fleet again/ --against fleet/",
)  # fmt: skip
