"""`primbench topo`: Show memory nodes, CPUs and GPUs, and what links them."""

from __future__ import annotations

from primbench.cli.option_types import FILE
from primbench.cli.options import json_option, overwrite_option
from primbench.cli.request import RequestCommand, dataclass, option

RANK = 120


@dataclass(frozen=True, kw_only=True)
class ShowNodes:
    """To show nodes and what is near them."""

    json: str | None = json_option("one JSON document")
    picture: str | None = option(
        "--svg", group="Output", type=FILE, metavar="FILE", help="Write a picture; - is stdout."
    )
    overwrite: bool = overwrite_option()


def _show(asked: ShowNodes) -> None:
    from primbench.cli.outputs import check_files, put_out
    from primbench.numa.scan import collect
    from primbench.report import formats, text
    from primbench.report.figures.topology import picture
    from primbench.report.topology import document

    check_files([asked.json, asked.picture], overwrite=asked.overwrite)
    found = collect()
    told = document(found)
    files = {asked.json: lambda: formats.known()["json"].write(told), asked.picture: lambda: picture(found)}
    put_out(files, lambda: text.write(told))


command = RequestCommand(
    "topo",
    ShowNodes,
    _show,
    help="Show nodes, CPUs, memory and GPUs, their distances and links, and what of them may be used here.\n\n"
    "\b\n"
    "primbench topo\n"
    "primbench topo --svg topo.svg",
)
