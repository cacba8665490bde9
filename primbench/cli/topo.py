"""`primbench topo`: nodes, CPUs, memory and GPUs, and what of them may be used here."""

from __future__ import annotations

import click

from primbench.cli.option_types import FILE
from primbench.cli.options import overwrites


@overwrites
@click.command()
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write one JSON document; - is stdout.")
@click.option("--svg", "svg_path", type=FILE, metavar="FILE", help="Write a picture; - is stdout.")
def command(*, json_path: str | None, svg_path: str | None, overwrite: bool) -> None:
    """Show nodes, CPUs, memory and GPUs, their distances and links, and what of them may be used here."""
    from primbench.cli.outputs import check_files, put_out
    from primbench.numa.scan import collect
    from primbench.report import topology as table
    from primbench.report.plain import json_of
    from primbench.report.topology_svg import picture

    check_files([json_path, svg_path], overwrite=overwrite)
    found = collect()
    put_out({json_path: lambda: json_of(found), svg_path: lambda: picture(found)}, lambda: table.text(found))
