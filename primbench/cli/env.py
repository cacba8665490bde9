"""`primbench env`: what would be recorded of this place."""

from __future__ import annotations

import click
import msgspec


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(as_json: bool) -> None:
    """Show what would be recorded of this place, and why what is missing is."""
    from primbench import environment

    found = environment.collect(gpus=True)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
        return
    for name, value in msgspec.to_builtins(found).items():
        for line in lines(name, value):
            click.echo(line)


def lines(name: str, value: object, indent: str = "") -> list[str]:
    """``name: value``, with the parts of a list or a table indented below it."""
    if isinstance(value, dict) and value:
        inner = [line for key, part in value.items() for line in lines(str(key), part, indent + "  ")]
        return [f"{indent}{name}:", *inner]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        inner = [line for number, part in enumerate(value) for line in lines(str(number), part, indent + "  ")]
        return [f"{indent}{name}:", *inner]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return [f"{indent}{name}: {'-' if value in (None, '', {}) else value}"]
