"""`primbench image`: Build a container image with this primbench, for arms."""

from __future__ import annotations

import shlex

import click

from primbench.cli.echo import say
from primbench.cli.options import json_option, overwrite_option
from primbench.cli.request import RequestCommand, dataclass, option
from primbench.runtimes.images.build import builders
from primbench.runtimes.images.builder import DEFAULT_BASE, DEFAULT_TAG, ImageRequest

RANK = 110
BUILD_HELP = """Build an image with the primbench that is running, and the versions of libraries that are here.

What the base brought stays if it will do. Extras are those of `pip install primbench[...]`, and bring CUDA's libraries:
torch, cuda13. Images are what arms other than host may name, as podman:image=NAME.

Exit status: 0 built, 1 where the runtime failed, 2 where the request is wrong.

\b
primbench image --runtime podman --extra torch
"""


@dataclass(frozen=True, kw_only=True)
class BuildImage:
    """To build an image with this primbench."""

    runtime: str = option("--runtime", type=click.Choice([*builders()]), required=True, help="Who builds it.")
    tag: str | None = option(
        "--tag", metavar="NAME", help=f"Its name, or that of its file. Default: {DEFAULT_TAG}, or .sif."
    )
    base: str = option(
        "--base", default=DEFAULT_BASE, show_default=True, metavar="IMAGE", help="One with Python and pip."
    )
    extras: tuple[str, ...] = option(
        "--extra", multiple=True, metavar="NAME", help="What else to install, such as torch. Repeat."
    )
    json: str | None = json_option("time and size as JSON")
    overwrite: bool = overwrite_option()


def _build(asked: BuildImage) -> None:
    from primbench.cli.measuring import signals_unwind
    from primbench.cli.outputs import check_files, publish
    from primbench.report.document import Document, Note, Section
    from primbench.runtimes.images import build, pins
    from primbench.units import format_bytes, format_time

    check_files([asked.json], overwrite=asked.overwrite)
    tag = builders()[asked.runtime].tag if asked.tag is None else asked.tag
    request = ImageRequest(runtime=asked.runtime, tag=tag, base=asked.base, extras=asked.extras)
    if other := pins.unpinned(asked.extras):
        say(
            f"what the base lacks of these comes as pip's index has it: {', '.join(other)}: a study compares only what "
            "is built alike",
            err=True,
        )
    with signals_unwind():
        made = build.build(request)
    size = f"size unknown ({made.missing['size_bytes']})" if made.missing else format_bytes(made.size_bytes)
    built = f"{made.name}: {size} with its base {asked.base}, built in {format_time(made.build_s)}"
    study = ["primbench", "study", "containers", "--arm", "host", "--arm", f"{asked.runtime}:image={made.name}"]
    told = Section("", [Note(built), Note(shlex.join(study), "code")])
    publish(Document("image", None, lambda: [told], value=made), {"json": asked.json})


command = RequestCommand("image", BuildImage, _build, help=BUILD_HELP, moved={"build": "primbench image"})
