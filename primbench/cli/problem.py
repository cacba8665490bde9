"""A primitive in words: its options, made from the fields of the problem, and the problems that they mean."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from primbench.cli.completing import complete_suite
from primbench.cli.option_types import Choices, parsed
from primbench.cli.request import RequestArgument, RequestOption, dataclass, made_of, option, parameters, part, several
from primbench.errors import InvalidRequest
from primbench.problem import Problem, Value, fields_of
from primbench.registry import build, problem_class, required

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from primbench.cli.measuring import Entries
    from primbench.distributed.world import World
    from primbench.suites import Entry

Made = TypeVar("Made")
Request = TypeVar("Request", bound="OfProblem")
DEFAULT_SIZES = "medium"


@dataclass(frozen=True, kw_only=True)
class Sized:
    """Which problems of one primitive: a suite's, or those of its fields."""

    sizes: str | None = option(
        "--sizes", group="Problem", metavar="NAME|FILE.toml", shell_complete=complete_suite,
        help=f"small, medium, large, a suite's name or file. Default: {DEFAULT_SIZES}.")  # fmt: skip
    given: Mapping[str, Any] = several(list)
    """Field -> what was given of it."""


@dataclass(frozen=True, kw_only=True)
class OfProblem:
    """A request of problems of one primitive."""

    problem: Sized = part(Sized)


class SizeOption(RequestOption):
    """A dimension: a whole number, or several."""


def request_of(problem: type[Problem], request: type[Request]) -> type[Request]:
    """The request with an option or argument for each field of the problem."""

    def options() -> list[click.Parameter]:
        return [*map(_parameter, sorted(fields_of(problem), key=_place))]

    own = _with(Sized, "given", several(options))
    return _with(request, "problem", part(own))


def _with(request: type[Made], name: str, field: Any) -> type[Made]:
    """The request with a field in place of one of its own."""
    own = {name: field, "__annotations__": {name: "Any"}, "__doc__": request.__doc__}
    made = type(request.__name__, (request,), own)
    return cast("type[Made]", dataclass(frozen=True, kw_only=True)(made))


def _parameter(field: dataclasses.Field[Any]) -> click.Parameter:
    """What a problem's field is called by: an argument where it has names, else an option."""
    return _argument(field) if "names" in field.metadata else _option(field)


def _place(field: dataclasses.Field[Any]) -> int:
    """What has to be given comes first, then choices."""
    return 0 if field.default is dataclasses.MISSING else 2 - bool(field.metadata.get("choices"))


def _argument(field: dataclasses.Field[Any]) -> click.Argument:
    def complete(context: click.Context, argument: click.Parameter, typed: str) -> list[str]:
        return [name for name in field.metadata["names"]() if name.startswith(typed)]

    return RequestArgument([field.name], metavar="[NAME]...", nargs=-1, shell_complete=complete)


def _option(field: dataclasses.Field[Any]) -> click.Option:
    """The option of a problem's field: repeatable, but for a bool, which is a --x/--no-x pair."""
    name, flags = field.name.replace("_", "-"), _flags(field.name)
    text = field.metadata["help"]
    unit = field.metadata.get("unit")
    shown = "" if field.default in ("", dataclasses.MISSING) else f" [default: {_written(field.default, unit)}]"
    if _is_number(field):
        return _number(field, flags, f"{text}.{shown}")
    if isinstance(field.default, bool):
        shown = f" [default: {name}]" if field.default else ""
        return RequestOption(
            [f"{flags[0]}/--no-{name}", field.name], group="Problem", default=None, help=f"{text}.{shown}"
        )
    choices = [choice for choice in field.metadata["choices"] if choice]
    kind = Choices(choices, of_dtypes=field.name == "dtype") if choices else type(field.default)
    return RequestOption([*flags, field.name], group="Problem", type=kind, multiple=True, help=f"{text}.{shown}")


def _flags(field_name: str) -> list[str]:
    """A letter alone has one dash, and may have two."""
    name = field_name.replace("_", "-")
    return [f"-{name}", f"--{name}"] if len(name) == 1 else [f"--{name}"]


def _number(field: dataclasses.Field[Any], flags: Sequence[str], text: str) -> click.Option:
    unit = field.metadata.get("unit")
    kind, read = (SizeOption, _counts) if field.metadata.get("size") else (RequestOption, _numbers)
    return kind(
        [*flags, field.name],
        group="Problem",
        type=parsed("sizes", lambda written: read(written, unit)),
        metavar="SIZE" if unit else "N",
        multiple=True,
        help=text,
    )


def _is_number(field: dataclasses.Field[Any]) -> bool:
    """Whether the option takes lists and sweeps: a size, or another whole number."""
    return bool(field.metadata.get("size")) or type(field.default) is int


def _numbers(written: str, unit: Any) -> Any:
    """As sizes; below 0, too, which the field itself refuses, or not."""
    return (int(written),) if written.startswith("-") and written[1:].isdecimal() else _counts(written, unit)


def _written(default: Any, unit: str | None) -> str:
    from primbench.units import format_bytes

    return format_bytes(default) if unit else str(default)


def _counts(written: str, unit: Any) -> Any:
    from primbench.units import parse_counts

    return parse_counts(written, unit)


def entries_of(problem: type[Problem], asked: Sized, *, on_many_nodes: bool = False) -> Entries:
    """The problems that ``--sizes`` and the given fields mean: the product of what is repeated.

    on_many_nodes: whether a launcher started this for others than the ranks of one call.
    Raises InvalidRequest where dimensions are given only in part.
    """
    from primbench.distributed import world

    given = {name: _each(value) for name, value in asked.given.items()}
    has_ranks = any(field.name == "ranks" for field in fields_of(problem))
    if has_ranks and not on_many_nodes and (started := world.world()):
        given["ranks"] = _all_of(started, given.get("ranks"))
    if asked.sizes is None and _is_whole(problem, given):
        combinations = itertools.product(*given.values())
        return [(build(problem.primitive, dict(zip(given, one, strict=True))), {}) for one in combinations]
    sizes = DEFAULT_SIZES if asked.sizes is None else asked.sizes
    return once(entries_in(sizes, [problem.primitive], given))


def entries_in(sizes: str, only: Sequence[str], given: Mapping[str, tuple[Value, ...]] | None = None) -> list[Entry]:
    """Those of a suite, of some primitives alone where some are named.

    Raises InvalidRequest, which says what to give where no sizes of one are shipped: it is one of the user's own.
    """
    from primbench.suites import SIZES, describe, read

    try:
        return read(sizes, only=only, overrides=given)
    except InvalidRequest:
        for problem in map(problem_class, only) if sizes in SIZES else ():
            if problem.primitive not in describe(sizes).counts:
                name = problem.primitive
                words = " ".join([name, *needed(problem)])
                raise InvalidRequest(f"{sizes}: has no sizes of {name}: give them behind it, as {words}") from None
        raise


def needed(problem: type[Problem]) -> list[str]:
    """What stands behind a primitive at least."""
    fields = [field for field in fields_of(problem) if field.name in required(problem)]
    return ["NAME" if "names" in field.metadata else f"{_flags(field.name)[0]} N" for field in fields]


def entries_in_words(text: str) -> Entries:
    """The problems of a primitive and its options, such as "gemm -m 4K -n 4K -k 4K". Raises InvalidRequest."""
    try:
        import shlex  # which --help does without

        problem, asked = in_words(shlex.split(text), OfProblem)
        return entries_of(problem, asked.problem)
    except (click.UsageError, ValueError, IndexError) as error:
        said = error.format_message() if isinstance(error, click.UsageError) else error
        raise InvalidRequest(f"{text!r}: {said}") from None


def in_words(words: Sequence[str], request: type[Request]) -> tuple[type[Problem], Request]:
    """A primitive, and what its command would be asked for by these options. Raises click.UsageError."""
    problem = problem_class(words[0])
    own = request_of(problem, request)
    command = click.Command(problem.primitive, params=[*parameters(own)], add_help_option=False)
    return problem, made_of(own, command.make_context(problem.primitive, list(words[1:])).params)


def once(entries: Iterable[Entry]) -> Entries:
    """Each problem once that has the same labels: options in place of what told entries apart make them the same."""
    return list({(entry.problem, *entry.labels.items()): (entry.problem, entry.labels) for entry in entries}.values())


def _is_whole(problem: type[Problem], given: Mapping[str, object]) -> bool:
    """Whether the given fields make a problem, rather than change those of a suite.

    Raises InvalidRequest where only some of the dimensions are given.
    """
    needed = required(problem)
    missing = [name for name in needed if name not in given]
    if missing and len(missing) < len(needed):
        raise InvalidRequest(f"{problem.primitive}: give also {', '.join(missing)}, or --sizes")
    return bool(given) and not missing


def _all_of(started: World, asked: tuple[Value, ...] | None) -> tuple[Value, ...]:
    """Raises InvalidRequest where the command line asks for other ranks than were started."""
    if asked not in (None, (started.size,)):
        raise InvalidRequest(f"--ranks: {started.launcher} started {started.size}, so leave it away")
    return (started.size,)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _each(value: Any) -> tuple[Any, ...]:
    """Each value of a repeated option once, which may be of lists itself."""
    return tuple(dict.fromkeys(itertools.chain(*map(_listed, _listed(value)))))
