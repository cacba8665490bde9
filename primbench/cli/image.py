"""`primbench image`: images for runtimes to start workers from."""

from __future__ import annotations

import shlex

import click

from primbench.cli import CommandGroup
from primbench.cli.echo import say
from primbench.cli.option_types import FILE
from primbench.cli.options import overwrites
from primbench.runtimes.images.build import builders
from primbench.runtimes.images.builder import DEFAULT_BASE, DEFAULT_TAG, ImageRequest

BUILD_HELP = """Build an image with the primbench that is running, and the versions of libraries that are here.

What the base brought stays if it will do. Extras are those of `pip install primbench[...]`, and bring CUDA's libraries:
torch, cuda13. Images are what arms other than host may name: `--arm podman:image=NAME`.

Exit status: 0 built, 1 where the runtime failed, 2 where the request is wrong.
"""


@click.group(cls=CommandGroup, no_args_is_help=False)
def command() -> None:
    """Build container images of primbench."""


@overwrites
@command.command(help=BUILD_HELP)
@click.option("--runtime", type=click.Choice([*builders()]), required=True, help="Who builds it.")
@click.option("--tag", metavar="NAME", help=f"Its name, or that of its file. [default: {DEFAULT_TAG}, or .sif]")
@click.option("--base", default=DEFAULT_BASE, show_default=True, metavar="IMAGE", help="One with Python and pip.")
@click.option("--extra", "extras", multiple=True, metavar="NAME", help="What else to install, such as torch. Repeat.")
@click.option("--json", "json_path", type=FILE, metavar="FILE", help="Write time and size as JSON; - is stdout.")
def build(
    *, runtime: str, tag: str | None, base: str, extras: tuple[str, ...], json_path: str | None, overwrite: bool
) -> None:
    from primbench.cli.measuring import signals_unwind
    from primbench.cli.outputs import check_files, put_out
    from primbench.report.plain import json_of
    from primbench.runtimes.images import build, pins
    from primbench.units import format_bytes, format_time

    check_files([json_path], overwrite=overwrite)
    request = ImageRequest(
        runtime=runtime, tag=builders()[runtime].tag if tag is None else tag, base=base, extras=extras
    )
    if other := pins.unpinned(extras):
        say(
            f"what the base lacks of these comes as pip's index has it: {', '.join(other)}: a study compares only what "
            "is built alike",
            err=True,
        )
    with signals_unwind():
        made = build.build(request)
    size = f"size unknown ({made.missing['size_bytes']})" if made.missing else format_bytes(made.size_bytes)
    built = f"{made.name}: {size} with its base {base}, built in {format_time(made.build_s)}"
    study = ["primbench", "study", "containers", "--arm", "host", "--arm", f"{runtime}:image={made.name}"]
    put_out({json_path: lambda: json_of(made)}, lambda: f"{built}\n{shlex.join(study)}\n")
