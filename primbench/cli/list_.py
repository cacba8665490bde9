"""`primbench list`: List primitives, backends and suites, and what is missing."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from primbench import backends as backend_files
from primbench.cli.option_types import Choice
from primbench.devices import CUDA
from primbench.registry import backends_of, kernels_of, networks, summaries

if TYPE_CHECKING:
    from primbench.suites import Contents


RANK = 90


def _primitives() -> list[tuple[str, str]]:
    return [
        (name, f"{summary} On {', '.join(map(partial(_served, name), backends_of(name)))}.")
        for name, summary in summaries().items()
    ]


def _served(primitive: str, backend: str) -> str:
    """A backend, with the names of the kernels that it has beside its usual one."""
    beside = [*filter(None, kernels_of(primitive, backend))]
    return f"{backend} (also {', '.join(beside)})" if beside else backend


def _models() -> list[tuple[str, str]]:
    return [(name, f"{each.text} Batch {each.batch_size}.") for name, each in networks.summaries().items()]


def _backends() -> list[tuple[str, str]]:
    return [(name, _backend(name)) for name in backend_files.names()]


def _backend(name: str) -> str:
    absent = backend_files.missing(name)
    if absent is not None:
        return f"not available: {absent}"
    return f"{_version(name)}, for {' and '.join(backend_files.devices_of(name))}{_without_gpu(name)}"


def _version(name: str) -> str:
    """The version of the first installed distribution that provides the backend's module."""
    from importlib import metadata  # takes as long as click itself

    modules = backend_files.modules_of(name)
    for distribution in modules:  # most are called as their module; to ask every distribution takes half a second
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(distribution)
    providers = metadata.packages_distributions()
    found = [distribution for module in modules for distribution in providers.get(module, [])]
    return metadata.version(found[0]) if found else "version unknown"


def _without_gpu(name: str) -> str:
    from primbench.environment.devices import has_gpu_node

    if CUDA not in backend_files.devices_of(name) or has_gpu_node():
        return ""
    return "; no device file of a GPU here (/dev/nvidia*, or /dev/dxg under WSL2), so no cuda device"


def _suites() -> list[tuple[str, str]]:
    import primbench.suites as suites

    return list(suites.titles().items())


def _counted_suites() -> list[tuple[str, str]]:
    import primbench.suites as suites

    return [(name, _suite(suites.describe(name))) for name in suites.names()]


def _suite(found: Contents) -> str:
    """Cases of each primitive, by set where there are several."""
    several = len({name for sets in found.counts.values() for name in sets}) > 1

    def counted(sets: dict[str | None, int]) -> str:
        return ", ".join(f"{count} {name}" if name and several else str(count) for name, count in sets.items())

    return f"{found.title}: {'; '.join(f'{primitive} {counted(sets)}' for primitive, sets in found.counts.items())}"


SECTIONS = {"primitives": _primitives, "models": _models, "backends": _backends, "suites": _counted_suites}
IN_SHORT = SECTIONS | {"suites": _suites}


class ListSection(Choice):
    """A primitive has no list of its own, and a --help."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in SECTIONS and value in summaries():
            self.fail(f"{value} is a primitive, of which `primbench {value} --help` tells", param, ctx)
        return super().convert(value, param, ctx)


@click.command("list")
@click.argument("what", type=ListSection(list(SECTIONS)), required=False)
def command(what: str | None) -> None:
    """List primitives, models, backends and suites, and what is missing for which.

    `list suites` also counts the cases of each.
    """
    from primbench.report.layout import width

    for heading, rows in ({what: SECTIONS[what]} if what else IN_SHORT).items():
        formatter = click.HelpFormatter(width=width())
        with formatter.section(heading.capitalize()):
            formatter.write_dl(rows() or [("-", "none")])
        click.echo(formatter.getvalue(), nl=False)
