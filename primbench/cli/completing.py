"""What a shell is offered after an option or in place of an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING

from primbench.devices import KINDS, nth_gpu
from primbench.spec.defaults import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click
    from click.shell_completion import CompletionItem

    Found = list[str] | list[CompletionItem]


def complete(words: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """Shell completion among ``words``, which are asked for only then."""
    return lambda ctx, parameter, incomplete: [word for word in words() if word.startswith(incomplete)]


def complete_listed(words: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """The same of the last one of a list."""

    def completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in words() if word.startswith(last)]

    return completed


def complete_suite(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Found:
    """The name of a shipped suite, a study's first where studies are run, or, once none fits, a file."""
    import primbench.suites as suites

    return _or_file([*(suites.studies() if ctx.info_name == "study" else []), *suites.names()], incomplete)


def complete_device(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """By the device files of GPUs that are here."""
    import glob

    gpus = [str(nth_gpu(number)) for number in range(len(glob.glob("/dev/nvidia[0-9]*")))]
    return [word for word in (*KINDS, *gpus, ALL) if word.startswith(incomplete)]


def complete_arm(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The runtime of an arm; then what may be set of it, and to which of its words."""
    from primbench.runtimes.table import known

    runtime, colon, settings = incomplete.partition(":")
    if not colon:
        return [name for name in known() if name.startswith(incomplete)]
    before, comma, last = settings.rpartition(",")
    key, equals, _ = last.partition("=")
    words = _values(key) if equals else _keys(runtime)
    return [f"{runtime}:{before}{comma}{word}" for word in words if word.startswith(last)]


def _keys(runtime: str) -> list[str]:
    """KEY= of each setting that an arm of the runtime may have, of entries of lists KEY.NAME= of each list."""
    from primbench.runtimes.table import settable_by
    from primbench.spec.settings import EACH, FIELDS, PLACEMENT
    from primbench.spec.variables import LISTS

    able = settable_by(runtime)
    keys = [name for name, setting in FIELDS.items() if name == "name" or setting.field in able]
    of_lists = [
        f"{key}.{name}" for key, row in EACH.items() if row.of_this_machine and row.field in able for name in LISTS
    ]
    return [f"{name}=" for name in (*keys, *PLACEMENT, *of_lists)]


def _values(key: str) -> list[str]:
    """Each KEY=VALUE that there is, of a key whose values are few."""
    from primbench.spec.settings import FIELDS, PLACEMENT
    from primbench.spec.values import OneOf

    setting = (FIELDS | PLACEMENT).get(key)
    return [f"{key}={word}" for word in setting.parse.words] if setting and isinstance(setting.parse, OneOf) else []


def complete_saved(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Found:
    """A baseline that was saved by name, or, once none fits, a file."""
    from primbench.baselines.named import saved

    return _or_file(saved(), incomplete)


def complete_against(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> Found:
    """The same, or one that is shipped."""
    from primbench.baselines.named import saved
    from primbench.suites import references

    return _or_file([*saved(), *(f"reference:{name}" for name in references())], incomplete)


def _or_file(words: Iterable[str], incomplete: str) -> Found:
    from click.shell_completion import CompletionItem

    return [word for word in words if word.startswith(incomplete)] or [CompletionItem(incomplete, type="file")]


def complete_set(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The sets of the suite that is named before."""
    import primbench.suites as suites

    suite = ctx.params.get("suite") or next(iter(ctx.args), None)  # click stops at an option without its value
    counts = suites.describe(suite).counts if suite in suites.names() else {}
    found = {name for sets in counts.values() for name in sets if name}
    return sorted(name for name in found if name.startswith(incomplete))
