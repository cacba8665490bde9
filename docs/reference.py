"""Pages made from the code: commands, columns, records, places, settings of arms, checks, causes, primitives."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import click

from primbench.cli import commands, main
from primbench.doctor import table
from primbench.doctor.table import checks as looked_for
from primbench.doctor.table import well_of
from primbench.environment.container import ContainerRuntime
from primbench.environment.fingerprint import facts
from primbench.environment.libraries import Library
from primbench.environment.software import Blas
from primbench.environment.words import in_words, unit_of
from primbench.gpu.nvidia.gpu import Gpu
from primbench.numa.topology import Node
from primbench.problem import fields_of
from primbench.registry import backends_of, primitives, summaries
from primbench.report.plain import markdown
from primbench.results.file import schema
from primbench.results.metrics import METRICS
from primbench.runtimes.table import known, settable_by
from primbench.spec.settings import NAME, PLACEMENT, SETTINGS
from primbench.spec.variables import LISTS
from primbench.system.meaning import Fact, facts_of
from primbench.units import format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from primbench.doctor.cause import Cause
    from primbench.spec.setting import Setting


def write(folder: Path) -> None:
    """A file a page, and the list of them."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / f"{name}.md").write_text(text(page), encoding="utf-8")
    (folder / "index.md").write_text(
        "# Made from the code\n\n```{toctree}\n" + "\n".join(PAGES) + "\n```\n", encoding="utf-8"
    )


def text(page: Callable[[], Iterator[str]]) -> str:
    return "\n".join(page()) + "\n"


def title(page: Callable[[], Iterator[str]]) -> str:
    """Of a page that is not made as a whole for it."""
    return next(page()).removeprefix("# ")


def _commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Each by name, in the context that it is typed in."""
    with click.Context(main, info_name="primbench", **main.context_settings) as context:
        for name in commands.known():
            command = main.get_command(context, name)
            assert command is not None
            with click.Context(command, info_name=name, parent=context) as inner:
                yield name, command, inner


def options() -> Iterator[str]:
    yield "# Commands and their options"
    for name, command, context in _commands():
        yield from ("", f"## primbench {name}", "", markdown(command.get_short_help_str(200)), "")
        records = (parameter.get_help_record(context) for parameter in command.get_params(context))
        yield from _table(["option", "what it does"], [list(each) for each in records if each])
    yield "\nA primitive's command has its fields as options, and those that `primbench run` has."


def synopsis() -> Iterator[str]:
    """How each command is typed, a line each, a primitive's first."""
    yield "primbench [--kernels FILE.py]... PRIMITIVE [OPTIONS]"
    for name, command, context in _commands():
        yield " ".join(["primbench", name, *command.collect_usage_pieces(context)])


def columns() -> Iterator[str]:
    yield "# Columns: what is timed"
    yield "\nIn files and exports a metric has its name, in tables its heading. All are seconds a call.\n"
    rows = [[each.heading, each.name, each.what, each.whose] for each in METRICS.values()]
    yield from _table(["heading", "name", "time of", "whose time it is"], rows)


def records() -> Iterator[str]:
    yield "# A results file, field by field"
    yield "\nEach line is a JSON object: a Header, a Worker or a Record."
    yield "`primbench show --schema` has all of it for programs."
    for name, found in schema()["$defs"].items():
        yield from ("", f"## {name}", "", _prose(found.get("description", "")), "")
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


def settings() -> Iterator[str]:
    yield "# Settings of an arm"
    yield "\nIn words RUNTIME:KEY=VALUE,KEY=VALUE; in a file of a study a table with the same keys. Entries of lists"
    yield "have a plus between them. A fact shows whether a setting was applied; without one nothing is read back.\n"
    rows = [
        [
            row.key + ".NAME" * row.is_each,
            row.what,
            row.said_as,
            _able(row),
            ".".join(row.checked or ()) if row.unlike else "",
            row.cost,
        ]
        for row in SETTINGS.values()
    ]
    yield from _table(["key", "what it is", "as in", "runtimes that can", "seen by", "needs anew"], rows)
    yield "\nIn all runtimes:\n"
    placed = [[row.key, row.what, row.said_as] for row in (NAME, *PLACEMENT.values())]
    yield from _table(["key", "what it is", "as in"], placed)
    yield "\nThe soft limits of setrlimit(2), rlimit-NAME, may be unlimited, too. first, last and without have several"
    yield "entries as the variable has them, first.PATH=/opt/bin:/opt/sbin. Variables that are lists:"
    yield f"{', '.join(LISTS)}."


def _able(row: Setting) -> str:
    able = [name for name in known() if row.field in settable_by(name)]
    return "all" if len(able) == len(known()) else ", ".join(able)


def checks() -> Iterator[str]:
    yield "# What `primbench doctor` looks for"
    rows = [[each.id, well_of(each).partition("\n")[0]] for each in looked_for()]
    yield ""
    yield from _table(["check", "what is well where it finds nothing"], rows)


def environment() -> Iterator[str]:
    yield "# Facts: what is recorded of a place"
    yield "\n`primbench env` shows the values here, `primbench env diff` which of them differ between two places.\n"
    yield "A difference is one of the stack, the limits, the confinement or the machine, and comes under a cause that"
    yield "`primbench help causes` explains. Counters, and what is another at each look, are not compared. What others"
    yield "may change while a case runs is looked at again after it, and told from the change on that stands there."
    groups: dict[str, list[list[str]]] = {}
    for field, fact in facts().items():
        rows = groups.setdefault(field[0] if len(field) > 1 else "place", [])
        rows.append([str(field), *_told_of(field[-1], fact), fact.source])
    for name, rows in groups.items():
        yield from ("", f"## {name}", "")
        yield from _table([*_OF_FACTS, "where it is read"], rows)
    for kind in (Gpu, Node, ContainerRuntime, Library, Blas):
        yield from ("", f"## {kind.__name__}", "", _prose(kind.__doc__ or ""), "")
        yield from _table(_OF_FACTS, [[name, *_told_of(name, fact)] for name, fact in facts_of(kind).items()])


_OF_FACTS = ["fact", "what it is", "unit", "a difference is of", "and comes under", "told in a case from"]


def _told_of(name: str, fact: Fact) -> list[str]:
    return [fact.words, unit_of(name), *_compared(fact), _noted(name, fact.noted_from)]


def _noted(name: str, noted_from: float | None) -> str:
    if noted_from is None or not math.isfinite(noted_from):
        return ""
    return in_words(name, noted_from) if noted_from else "any change"


def _compared(fact: Fact) -> tuple[str, str]:
    if fact.layer is None:
        return "not compared", ""
    if fact.varies:
        return fact.layer, "nothing: it may differ"
    if fact.by_doctor:
        return fact.layer, "a check of primbench doctor"
    if callable(fact.entry):
        return fact.layer, "another cause for each entry"
    name = fact.rule or (fact.entry and fact.entry.rule)
    return fact.layer, _named(table.causes()[name]) if name else "effect unknown"


def _named(cause: Cause) -> str:
    return cause.title or cause.id


def causes() -> Iterator[str]:
    yield "# Differences between two places that are known to change times"
    yield "\nA comparison names the first of these that differs, concerns what moved, and can account for so much."
    yield "`primbench doctor --against FILE` tells them before anything is timed.\n"
    rows = [
        [
            _named(each),
            ", ".join(each.slows),
            each.effect,
            ", ".join(table.settings_of(each)),
            _bound(each),
            each.source,
        ]
        for each in sorted(table.causes().values(), key=lambda each: each.upstream)
        if each.effect and each.slows
    ]
    headings = ["what differs", "what it can distort", "why", "settings of an arm", "by how much at most", "source"]
    yield from _table(headings, rows)


def _bound(cause: Cause) -> str:
    times = [f"{cause.times:g} times"] if cause.times < math.inf else []
    added = {"call of a library": cause.a_call_s, "system call": cause.a_system_call_s, "sample": cause.a_sample_s}
    added |= {"file": cause.a_file_s}
    bounds = [*times, *(f"{format_time(each)} a {what}" for what, each in added.items() if each)]
    return f"{' or '.join(bounds)}{', for each' * cause.by_each}"


def problems() -> Iterator[str]:
    yield "# Primitives and their fields"
    for name, problem in primitives().items():
        doc = inspect.getdoc(problem) or summaries()[name]
        yield from (
            "",
            f"## {name}",
            "",
            _prose(doc),
            "",
            f"On {', '.join(backends_of(name))}.",
            "",
        )
        rows = [[each.name, each.metadata["help"], _values(each.metadata)] for each in fields_of(problem)]
        yield from _table(["field", "what it is", "one of"], rows)


def _values(metadata: Any) -> str:
    return ", ".join(filter(None, metadata.get("choices", ())))


def _prose(doc: str) -> str:
    """A docstring as one paragraph."""
    return markdown(" ".join(doc.replace("``", "").split()))


def _table(headings: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *([*map(markdown, row)] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines] if rows else []


PAGES = {
    "commands": options,
    "columns": columns,
    "records": records,
    "environment": environment,
    "settings": settings,
    "checks": checks,
    "causes": causes,
    "fields": problems,
}
