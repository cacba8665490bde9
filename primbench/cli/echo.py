"""Text for a terminal."""

from __future__ import annotations

import click


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print what may hold words of a file or of another program: they steer no terminal, whatever they are."""
    from primbench.report.plain import lines

    click.echo(lines(text), err=err, nl=nl)
