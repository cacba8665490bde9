"""`primbench fleet`: which of many nodes that measured the same stands out, and what is different there."""

from __future__ import annotations

import sys
from typing import Any

import click

from primbench.cli.option_types import FILE
from primbench.cli.options import GroupedCommand, export_options, grouped
from primbench.cli.outputs import check_outputs, publish


def _fleet(folder: str, against: str | None, **values: Any) -> None:
    from primbench.cli.places import labels
    from primbench.fleet.folder import read, read_links
    from primbench.fleet.summary import summarize
    from primbench.report import fleet as words

    name, name_of_earlier = labels([folder, against or folder])
    earlier = None if against is None else (name_of_earlier, read(against))
    held, links = read(folder), read_links(folder)
    check_outputs(values)
    found = summarize(name, held, earlier, links)
    publish(words.document(found), lambda: words.text(found), values)
    if not (found.is_healthy and any(case.metrics for case in found.cases)):
        sys.exit(1)


command = GroupedCommand(
    "fleet",
    callback=_fleet,
    params=[
        click.Argument(["folder"], type=FILE, metavar="FOLDER"),
        grouped("Compare", "--against", type=FILE, metavar="FOLDER",
                help="Set an earlier fleet beside this one: how all changed, and which nodes changed otherwise."),
        *export_options(),
    ],
    help="One table of what each node of a fleet measured into FOLDER: the spread over nodes, those that stand out as "
         "slower, and what is different about them; the same of what was measured between nodes.\n\n"
         "Exit status: 0, 1 where a node is slower, missing or has not measured all that others have, nothing was "
         "measured, or the fleet or one of its nodes became slower than in the earlier one, 2 where there is no fleet.",
)  # fmt: skip
