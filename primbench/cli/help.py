"""`primbench help`: Read a page of the documentation, or list them."""

from __future__ import annotations

import os
import sys
from importlib import resources
from typing import TYPE_CHECKING

import click

from primbench.cli.completing import complete
from primbench.errors import InvalidRequest, near

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

RANK = 210
DOCS = "primbench.docs"
SUFFIX = ".md"


def pages() -> dict[str, Traversable]:
    """Name -> file, of those that are written by hand; the index is no page of its own."""
    there = {
        each.name.removesuffix(SUFFIX): each for each in resources.files(DOCS).iterdir() if each.name.endswith(SUFFIX)
    }
    return {name: there[name] for name in sorted(there) if name != "index"}


def _names() -> list[str]:
    from primbench.docs import reference

    return [*pages(), *reference.PAGES]


@click.command("help")
@click.argument("page", required=False, shell_complete=complete(_names))
def command(page: str | None) -> None:
    """Read a page of the documentation, or list them; of a command, what its --help shows."""
    from primbench.docs import reference

    if page is None:
        _list("Pages", {name: _title(file.read_text(encoding="utf-8")) for name, file in pages().items()})
        _list("Made from the code", {name: reference.title(made) for name, made in reference.PAGES.items()})
    elif page in pages():
        _show(pages()[page].read_text(encoding="utf-8"))
    elif page in reference.PAGES:
        _show(reference.text(reference.PAGES[page]))
    elif not _show_help(page):
        meant = near(page, _names()).rstrip() or f"there are {', '.join(_names())}"
        raise InvalidRequest(f"page {page!r}: {meant}")


def _show_help(name: str) -> bool:
    """What --help shows of a command, where there is one of that name."""
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    if command is not None:
        click.echo(command.get_help(click.Context(command, parent=root, info_name=name)))
    return command is not None


def _list(heading: str, titles: Mapping[str, str]) -> None:
    formatter = click.HelpFormatter()
    with formatter.section(heading):
        formatter.write_dl(list(titles.items()))
    click.echo(formatter.getvalue(), nl=False)


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _show(text: str) -> None:
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-R")  # else some show the styles as "ESC[1m"
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
