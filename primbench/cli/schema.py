"""`primbench schema`: the JSON Schema of a results file's lines."""

from __future__ import annotations

import json

import click

from primbench.results import file as results_file


@click.command()
def command() -> None:
    """Print the JSON Schema of a results file's lines."""
    click.echo(json.dumps(results_file.schema(), indent=1))
