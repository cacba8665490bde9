"""The options that every measuring command has, in the groups that --help shows."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from primbench import backends, units
from primbench.cli.completing import complete, complete_against, complete_arm, complete_device
from primbench.cli.option_types import (
    CPUS,
    DEVICE,
    DURATION,
    FILE,
    LABEL,
    NODE,
    NODES,
    NOISE,
    PERCENT,
    RESULTS_FILE,
    TIMEOUT,
    WholeNumber,
    parsed,
)
from primbench.errors import BackendUnavailable, InvalidField, PlacementError
from primbench.registry import primitives
from primbench.report import written
from primbench.spec.defaults import ALL, DEFAULT_MAX_NOISE, DEFAULT_MAX_TIME_S, DEFAULT_MIN_TIME_S, DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from primbench.baselines.yardstick import Yardstick
    from primbench.spec.arm import Arm

Command = TypeVar("Command", bound=click.Command)
VERSUS_PAIRS = 5
ALONE = ("processes", "dry_run", "over_time", "roof", "against", "save_as", "time_unit")
"""Options of measuring in one place, which mean nothing where several are compared."""
MOST_PROCESSES = 1000  # every case of every process is listed before the first one runs


class GroupedOption(click.Option):
    """An option that --help lists under a heading."""

    def __init__(self, *args: Any, group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


def grouped(group: str, *names: str, **attributes: Any) -> click.Option:
    """An option that --help lists under the heading ``group``."""
    return GroupedOption(names, group=group, **attributes)


class GroupedCommand(click.Command):
    """Lists its options by group; its arguments stand in the usage line. Errors name its options, as they are typed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PlacementError as error:
            raise PlacementError(error.said(partial(_as_option, _by_name(self.params)))) from None
        except (InvalidField, BackendUnavailable) as error:
            raise type(error)(as_options(str(error), self.params)) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None and isinstance(parameter, click.Option):
                groups.setdefault(getattr(parameter, "group", "Other"), []).append(row)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


_PLAIN = r"'([\w.:+-]+)'"  # needs no quotes


def primitives_option(*, and_options: bool = False) -> click.Option:
    """and_options: those of a primitive may stand behind its name, in place of a suite's sizes."""
    behind = ", or one with its options behind it, in quotes" if and_options else ""
    return grouped(
        "Problem",
        "--primitive",
        "primitives",
        multiple=True,
        metavar="NAME",
        shell_complete=complete(primitives),
        help=f"This primitive only{behind}; repeatable.",
    )


def as_options(message: str, parameters: Iterable[click.Parameter]) -> str:
    """NAME=VALUE of an InvalidField as it is written on the command line, where that has such an option."""
    options = _by_name(parameters)
    field = r"(?<![\w:,.-])(?P<name>[a-z]\w*)=(?P<value>'[^']*'|[^\s,;:()]*)"
    return re.sub(field, lambda found: _as_option(options, found["name"], found["value"]), message)


def _by_name(parameters: Iterable[click.Parameter]) -> dict[str, click.Option]:
    """The options by the names of their fields."""
    options: dict[str, click.Option] = {}
    for each in parameters:
        if isinstance(each, click.Option):
            names = [str(each.name), *(flag.lstrip("-").replace("-", "_") for flag in each.opts)]
            options |= dict.fromkeys(names, each)
    return options


def _as_option(options: Mapping[str, click.Option], name: str, value: object) -> str:
    """A field as it is typed; NAME=VALUE where it is none of these."""
    found = options.get(name)
    if found is None:
        return f"{name}={value}"
    if found.is_flag:
        return found.opts[0] if str(value) == "True" else (found.secondary_opts or found.opts)[0]
    plain = re.fullmatch(_PLAIN, str(value))
    return f"{found.opts[0]} {plain[1] if plain else value}".rstrip()


def kernels_options(paths: Iterable[str]) -> list[str]:
    """The words of the options that name these files."""
    return [word for path in paths for word in ("--kernels", path)]


def _where() -> list[click.Option]:
    option = partial(grouped, "Where")
    return [
        option("--device", type=DEVICE, metavar="cpu|cuda:N|all", shell_complete=complete_device,
               help="Default: the first GPU, else the CPU."),
        option("--numa-node", type=NODE, metavar="N|auto|none", default="none", show_default=True,
               help="Bind CPUs and memory to a node; auto is the device's."),
        option("--cpu-node", type=WholeNumber(0), metavar="N", help="Run on the CPUs of this node only."),
        option("--cpu-kind", metavar="NAME", help="Run on CPUs of this kind only: performance, efficiency, ..."),
        option("--mem-node", "mem_nodes", type=NODES, metavar="LIST",
               help="Take memory from these nodes, as in 0 or 0,1."),
        option("--mem-policy", type=click.Choice(["bind", "preferred", "interleave", "local"]),
               help="How memory is taken from the nodes; local is by first touch. Default: bind."),
        option("--cpus", type=CPUS, metavar="LIST", help="Run on these CPUs only, as in 0-3,8."),
        option("--threads", type=WholeNumber(1), metavar="N",
               help="Threads of CPU libraries. Default: theirs."),
    ]  # fmt: skip


def _measure() -> list[click.Option]:
    option = partial(grouped, "Measure")
    return [
        option("--backend", "backends", multiple=True, metavar="NAME|all",
               shell_complete=complete(lambda: [*backends.names(), ALL]),
               help=f"{', '.join(backends.files())}; repeatable. Default: the best one on the device."),
        option("--cache", type=click.Choice(["hot", "cold"]), default="hot", show_default=True,
               help="cold rotates among inputs that exceed twice the last-level cache. Without it, parts of a step are "
                    "measured cold where the step leaves their data in no cache."),
        option("--max-noise", type=NOISE, default=units.format_percent(DEFAULT_MAX_NOISE), show_default=True,
               metavar="PERCENT", help="Stop when the median is known this well (95 % interval, half-width)."),
        option("--min-time", type=DURATION, default=f"{DEFAULT_MIN_TIME_S:g}s",
               show_default=True, help="Sample the main metric at least so long."),
        option("--max-time", type=DURATION, default=f"{DEFAULT_MAX_TIME_S:g}s",
               show_default=True, help="Stop sampling the main metric after so long."),
        option("--seed", type=WholeNumber(0), metavar="N", default=0, show_default=True,
               help="Seed of the random inputs."),
        option("--check/--no-check", default=True, show_default=True,
               help="Compare with a float64 reference before timing."),
        option("--roof", is_flag=True,
               help="Measure first what bounds these cases on the device, and show their share of it."),
        option("--trace", is_flag=True, help="Also log the GPU's own kernel times, in a separate process."),
        option("--over-time", is_flag=True,
               help="Also sample memory and the GPU's use while a case runs; 'primbench show' draws it."),
        option("--dry-run", is_flag=True, help="Set up and check every case, time none."),
        option("--processes", type=WholeNumber(1, MOST_PROCESSES), metavar="N", default=1, show_default=True,
               help="Repeat everything in so many fresh processes."),
        option("--timeout", type=TIMEOUT, default=f"{DEFAULT_TIMEOUT_S:g}s", show_default=True,
               help="Give up a case after so long."),
        option("--time-budget", type=TIMEOUT, metavar="DURATION",
               help="Begin no case, and no pair of processes, that would end later than this; first comes one case of "
                    "each primitive. What was not measured is said."),
    ]  # fmt: skip


def _against(text: str) -> Yardstick:
    from primbench.baselines.against import parse

    return parse(text)


def _baseline_name(text: str) -> str:
    from primbench.baselines.named import name_of

    return name_of(text)


def overwrite_option() -> click.Option:
    """Of each command that writes a file whose name it is given."""
    return grouped("Output", "--overwrite", is_flag=True, help="Replace files that exist already.")


def overwrites(command: Command) -> Command:
    """The command with that option, too."""
    command.params.append(overwrite_option())
    return command


def option_of(format_name: str) -> str:
    """Under what name a command is given the file that is to be written in a format."""
    return f"{format_name}_path"


def export_options() -> list[click.Option]:
    """One option for each export format, such as --csv FILE, and whether files are replaced."""
    return [
        grouped("Output", f"--{name}", option_of(name), type=FILE, metavar="FILE",
                help=f"Write {each.WRITES}; - is stdout.")
        for name, each in written.known().items()
    ] + [overwrite_option()]  # fmt: skip


def output_options() -> list[click.Option]:
    """What becomes of records, for measuring commands and for `show`."""
    option = partial(grouped, "Output")
    return [
        option("--against", type=parsed("baseline", _against), metavar="BASELINE", shell_complete=complete_against,
               help='Show other times beside these: of a baseline in .primbench/baselines by its name, of a results '
                    'file or a folder of several, of reference:h200, or of published:"NVIDIA V100".'),
        *export_options(),
        option("--time-unit", type=click.Choice(["ns", "us", "ms", "s"]), help="One unit for the table's times."),
    ]  # fmt: skip


def _record() -> list[click.Option]:
    option = partial(grouped, "Output")
    return [
        option("-o", "--output", "output", type=RESULTS_FILE, metavar="FILE.jsonl",
               help="Write a new results file, every record as it comes."),
        option("--resume", type=FILE, metavar="FILE.jsonl",
               help="Go on with a results file, skipping what it holds."),
        option("--save-as", type=parsed("name", _baseline_name), metavar="NAME",
               help="Once it is done, add this run to the baseline NAME in .primbench/baselines, for --against."),
        *output_options(),
        option("--label", "labels", type=LABEL, multiple=True, help="Stored in the results file; repeatable."),
        option("-q", "--quiet", is_flag=True, help="Show no progress."),
        option("-v", "--verbose", is_flag=True, help="Show what workers print."),
    ]  # fmt: skip


def measuring_options() -> list[click.Option]:
    return [*_where(), *_measure(), *_record()]


def arm_in_words(text: str) -> Arm:
    """Read an arm such as "podman:cpus=2". Raises InvalidRequest, also for an unknown runtime."""
    from primbench.runtimes.table import known
    from primbench.spec.arm import parse_arm

    return parse_arm(text, known())


def versus_options() -> list[click.Option]:
    """The options by which a measuring command compares arms, as a study does."""
    option = partial(grouped, "Compare")
    return [
        option("--versus", type=parsed("arm", arm_in_words), multiple=True, metavar="ARM", shell_complete=complete_arm,
               help="Measure here and in another place, such as podman:cpus=2, interleaved, and compare; repeatable."),
        option("--pairs", type=WholeNumber(1, MOST_PROCESSES), metavar="N",
               help=f"Fresh processes in each of the two places. Default: {VERSUS_PAIRS}."),
        fail_above("Compare"),
    ]  # fmt: skip


def fleet_options() -> list[click.Option]:
    """The options by which many nodes measure the same cases."""
    option = partial(grouped, "Fleet")
    return [
        option("--fleet", type=FILE, metavar="FOLDER",
               help="Measure this node, or the GPU of each process, for `primbench fleet FOLDER`; srun, torchrun or "
               "mpirun starts it on all."),
        option("--one-at-a-time", is_flag=True, help="Members of the fleet measure in turn, not at the same time."),
        option("--links", type=WholeNumber(1), metavar="ROUNDS",
               help="Then measure between nodes, by torch: in each round every node with another one, all at once."),
    ]  # fmt: skip


def fail_above(group: str) -> click.Option:
    return grouped(
        group, "--fail-above", type=PERCENT, metavar="PERCENT",
        help="Exit with 1, instead of where a case is slower, where a metric is longer for certain by more than this: "
             "the whole 95 % interval of its ratio lies above.",
    )  # fmt: skip
