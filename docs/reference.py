"""Pages that the code itself tells: commands, columns, fields of a record, checks of doctor, primitives."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from primbench.cli import COMMANDS, main
from primbench.doctor.checks import CHECKS
from primbench.problem import fields_of
from primbench.registry import backends_of, primitives, summaries
from primbench.report.plain import markdown
from primbench.results.file import schema
from primbench.results.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def write(folder: Path) -> None:
    """A file a page, and the list of them."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text("\n".join(page()) + "\n", encoding="utf-8")
    (folder / "index.md").write_text(
        "# What the code itself tells\n\n```{toctree}\n" + "\n".join(PAGES) + "\n```\n", encoding="utf-8"
    )


def options() -> Iterator[str]:
    yield "# Commands and their options"
    with click.Context(main, info_name="primbench", **main.context_settings) as context:
        for name in COMMANDS:
            command = main.get_command(context, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=context) as inner:
                yield from ("", f"## primbench {name}", "", markdown(command.get_short_help_str(200)), "")
                records = (parameter.get_help_record(inner) for parameter in command.get_params(inner))
                yield from _table(["option", "what it does"], [list(each) for each in records if each])
    yield "\nA primitive's command has its fields as options, and those that `primbench run` has."


def columns() -> Iterator[str]:
    yield "# Columns: what is timed"
    yield "\nIn files and exports a metric has its name, in tables its heading. All are seconds a call.\n"
    rows = [[each.heading, each.name, each.what, each.whose] for each in METRICS.values()]
    yield from _table(["heading", "name", "time of", "whose time it is"], rows)


def records() -> Iterator[str]:
    yield "# A results file, field by field"
    yield "\nEach line is a JSON object: a Header, a Worker or a Record. `primbench schema` has all of it for programs."
    for name, found in schema()["$defs"].items():
        yield from ("", f"## {name}", "", markdown(" ".join(found.get("description", "").split())), "")
        rows = [[field, _type(told)] for field, told in found.get("properties", {}).items()]
        yield from _table(["field", "type"], rows)


def _type(told: dict[str, Any]) -> str:
    if "anyOf" in told:
        return " or ".join(map(_type, told["anyOf"]))
    if "$ref" in told:
        return str(told["$ref"]).rpartition("/")[2]
    if "enum" in told:
        return ", ".join(map(str, told["enum"]))
    items = told.get("items") or (told.get("prefixItems") or [None])[0] or told.get("additionalProperties")
    of = f" of {_type(items)}" if isinstance(items, dict) else ""
    return f"{told.get('type', 'any')}{of}"


def checks() -> Iterator[str]:
    yield "# What `primbench doctor` looks for"
    rows = [[each.__name__.replace("_", "-"), (each.__doc__ or "").partition("\n")[0]] for each in CHECKS]
    yield ""
    yield from _table(["check", "what is well where it finds nothing"], rows)


def problems() -> Iterator[str]:
    yield "# Primitives and their fields"
    for name, problem in primitives().items():
        doc = inspect.getdoc(problem) or summaries()[name]
        yield from (
            "",
            f"## {name}",
            "",
            markdown(" ".join(doc.split())),
            "",
            f"On {', '.join(backends_of(name))}.",
            "",
        )
        rows = [[each.name, each.metadata["help"], _values(each.metadata)] for each in fields_of(problem)]
        yield from _table(["field", "what it is", "one of"], rows)


def _values(metadata: Any) -> str:
    return ", ".join(filter(None, metadata.get("choices", ())))


def _table(headings: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *([*map(markdown, row)] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines] if rows else []


PAGES = {"commands": options, "columns": columns, "records": records, "checks": checks, "primitives": problems}
