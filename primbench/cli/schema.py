"""`primbench schema`: the JSON Schema of a results file's lines."""

from __future__ import annotations

import json

import click

from primbench.results import record


@click.command()
def command() -> None:
    """Print the JSON Schema of a results file's lines."""
    click.echo(json.dumps(record.schema(), indent=1))
