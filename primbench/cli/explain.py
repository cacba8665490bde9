"""`primbench explain`: the parts of a step and the whole measured, and where its time goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from primbench.cli.options import GroupedCommand, is_default, measuring_options
from primbench.errors import FileError, InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from primbench.decompose.sums import Explained

LASTING_S = {"min_time": 5e-3, "max_time": 30e-3}
"""Of a part, of which there may be hundreds."""


def _explain(files: tuple[str, ...], **values: Any) -> None:
    from primbench.cli.outputs import check_outputs, publish
    from primbench.report import explained as words
    from primbench.report import page

    check_outputs(values)
    recorded = [file.endswith((".jsonl", ".jsonl.xz")) for file in files]
    if any(recorded) and not all(recorded):
        raise InvalidRequest("suites and results files in one: explain them one after the other")
    steps = _of_results(files) if all(recorded) else _of_suites(files, values)
    document = words.document(steps, lambda: page.of_steps(steps))
    publish(document, lambda: words.text(steps), values)


def _of_results(files: Sequence[str]) -> list[tuple[str, Explained]]:
    from primbench.decompose.sums import explained
    from primbench.results import file as results_file

    found = [(file, explained(results_file.read(file).latest())) for file in files]
    return [(file, _there(file, each)) for file, each in found]


def _there(file: str, found: Explained | None) -> Explained:
    if found is None:
        raise FileError(f"{file}: no parts of a step, which `primbench capture` writes as set = 'parts'")
    return found


def _of_suites(files: Sequence[str], values: dict[str, Any]) -> list[tuple[str, Explained]]:
    if len(files) > 1 and (values["output"] or values["resume"]):
        raise InvalidRequest("--output and --resume: of one step: explain one after the other")
    values |= {name: shorter for name, shorter in LASTING_S.items() if is_default(name)}
    return [_of_suite(file, values) for file in files]


def _of_suite(file: str, values: Mapping[str, Any]) -> tuple[str, Explained]:
    """Parts and whole, measured in one run."""
    import primbench.suites as suites
    from primbench.cli.measuring import exit_as, measured
    from primbench.cli.resuming import resuming
    from primbench.decompose.sums import explained

    said = suites.study(file)
    values = {**values, "backends": values["backends"] or said.backends}
    entries = [(entry.problem, entry.labels) for entry in suites.read(file)]
    with resuming(values["resume"]) as begun:
        results, ended = measured(entries, values, None, begun)
    if ended is not None:
        exit_as(ended, results.records)
    title, times_s = (said.captured.step, said.captured.times_s) if said.captured else (said.title, [])
    return title, _there(file, explained(results.records, times_s))


command = GroupedCommand(
    "explain",
    callback=_explain,
    params=[
        click.Argument(["files"], nargs=-1, required=True, metavar="STEP.toml|RESULTS.jsonl..."),
        *measuring_options(),
    ],
    help="Measure a step that was captured, the parts and the whole, and show where its time goes: by primitive, by "
         "other operators, launches, waiting, and what is left unexplained.\n\n"
         "Three numbers are set beside the step's own: the sum of its parts' device times, the sum of their launches, "
         "and the larger of these two. The whole of a script's step is the time of steps before it, which were not "
         "recorded.",
)  # fmt: skip
