"""`primbench topo`: nodes, CPUs, memory and GPUs, and what of them may be used here."""

from __future__ import annotations

import click

from primbench.cli.options import FILE


@click.command()
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write one JSON document; - is stdout.")
@click.option("--svg", "svg_path", type=FILE, metavar="FILE", help="Write a picture; - is stdout.")
def command(json_path: str | None, svg_path: str | None) -> None:
    """Show nodes, CPUs, memory and GPUs, their distances and links, and what of them may be used here."""
    import msgspec

    from primbench.cli.outputs import check_files, write
    from primbench.report import topology as table
    from primbench.topology import collect

    check_files([json_path, svg_path])
    found = collect()
    if "-" not in (json_path, svg_path):
        click.echo(table.text(found), nl=False)
    if json_path is not None:
        write(json_path, msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n")
    if svg_path is not None:
        from primbench.report.topology_svg import picture

        write(svg_path, picture(found))
