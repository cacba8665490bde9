"""What becomes of records: the table on stdout, the exports in the files that were named."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from primbench.errors import InvalidRequest, OutputError
from primbench.record import Results
from primbench.report import export, table
from primbench.report.roof import roof_of

EXPORTS = ("csv_path", "markdown_path", "json_path")
RESULTS_FILES = ("output", "resume", "file")


def check_outputs(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest before measuring where a file could not be written after it, or would be written twice."""
    exports = [values[name] for name in EXPORTS if values[name] is not None]
    results_files = [values[name] for name in RESULTS_FILES if values.get(name) is not None]
    uses = Counter(os.path.realpath(path) for path in [*exports, *results_files])
    for path in exports:
        if uses[os.path.realpath(path)] > 1:
            raise InvalidRequest(f"{'stdout' if path == '-' else path}: asked to hold two things, and holds one")
        reason = None if path == "-" else _unwritable(Path(path))
        if reason is not None:
            raise InvalidRequest(f"{path}: {reason}")


def _unwritable(path: Path) -> str | None:
    if path.is_dir():
        return "is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return None if os.access(path if path.exists() else path.parent, os.W_OK) else "no permission to write it"


def report(results: Results, values: Mapping[str, Any]) -> None:
    """Print the table, unless stdout was given to an export, and write the exports.

    Raises OutputError where one cannot be written; the table is out by then.
    """
    records, workers, unit = results.records, results.workers, values["time_unit"]
    yardsticks = [yardstick for yardstick in (roof_of(results), values["against"]) if yardstick is not None]
    if "-" not in [values[name] for name in EXPORTS]:
        found = table.tables(records, workers, unit, yardsticks)
        click.echo("\n".join(table.text(each) for each in found), nl=False)
    if values["csv_path"] is not None:
        _write(values["csv_path"], export.to_csv(records, yardsticks))
    if values["markdown_path"] is not None:
        _write(values["markdown_path"], export.to_markdown(records, workers, unit, yardsticks))
    if values["json_path"] is not None:
        _write(values["json_path"], export.to_json(results))


def _write(path: str, text: str) -> None:
    if path == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
