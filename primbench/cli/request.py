"""A command's request: a frozen dataclass, of whose fields its options, its help and its page in the docs are made.

A field is an option, an argument, a part with fields of its own, several such parts, or several options that what is
installed tells.
"""

from __future__ import annotations

import dataclasses
import re
from functools import partial
from itertools import accumulate, chain, takewhile
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import click

from primbench.cli.as_typed import as_option, as_options, by_name
from primbench.errors import BackendUnavailable, InvalidField, PlacementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, kw_only: bool) -> Callable[[type], type]:
        """As dataclasses.dataclass, frozen and by keywords, without methods that it compiles of text for each class.

        By these --help would take a tenth longer.
        """
        assert frozen
        assert kw_only

        def made(cls: type) -> type:
            cls.__init__, cls.__setattr__ = _begin, _refuse
            return dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)(cls)

        return made


def _begin(self: Any, **values: Any) -> None:
    fields = {field.name: field for field in dataclasses.fields(self)}
    if unknown := values.keys() - fields.keys():
        raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
    for name, field in fields.items():
        if name not in values:
            make: Any = field.default_factory
            values[name] = field.default if make is dataclasses.MISSING else make()
    self.__dict__.update(values)


def _refuse(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


Request = TypeVar("Request")
Mark = Literal["alone", "begun", "case", "which", "script", "of model"]
"""What an option says. alone: of measuring in one place, which means nothing where several are compared. begun: what a
results file keeps, and going on with it does not take anew. case: how a case is measured, which a file has. which:
which cases. script, of model: of the one or the other that a step is taken of."""


class _Marked:
    marks: frozenset[Mark]


class RequestOption(_Marked, click.Option):
    """An option that --help lists under a heading, or, where few people use it, --help-all alone."""

    def __init__(
        self, *args: Any, group: str, is_rare: bool = False, marks: Sequence[Mark] = (), **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.group, self.is_rare, self.marks = group, is_rare, frozenset(marks)


class RequestArgument(_Marked, click.Argument):
    """A word without an option before it."""

    def __init__(self, *args: Any, marks: Sequence[Mark] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.marks = frozenset(marks)


class _Words:
    """How a field is typed: its parameters, and its value of theirs."""

    def __init__(
        self, parameters: Callable[[str], Sequence[click.Parameter]], value: Callable[[str, Mapping[str, Any]], Any]
    ) -> None:
        self.parameters, self.value = parameters, value


def option(*flags: str, group: str = "Options", default: Any = None, **attributes: Any) -> Any:
    """A field that is an option of click, with its attributes, the marks that it has, and whether few people use it.

    default: as the field holds it; None where nothing is asked for. A flag is False, and what is repeatable is ().
    """
    if attributes.get("is_flag"):
        default = bool(default)
    if attributes.get("multiple"):
        default = () if default is None else default
    elif not attributes.get("required"):
        attributes["default"] = default

    def made(name: str) -> Sequence[click.Parameter]:
        return [RequestOption([*flags, name], group=group, **attributes)]

    return _field(_Words(made, _own), default)


def argument(**attributes: Any) -> Any:
    """A field that is an argument of click, with its attributes and the marks that it has."""

    def made(name: str) -> Sequence[click.Parameter]:
        return [RequestArgument([name], **attributes)]

    return _field(_Words(made, _own), () if attributes.get("nargs") == -1 else None)


def part(of: type[Any]) -> Any:
    """A field that is a request of its own, whose options stand in this one's place."""
    words = _Words(lambda _: [*parameters(of)], lambda _, values: made_of(of, values))
    return dataclasses.field(default_factory=of, metadata={_Words: words})


def several(options: Callable[[], Sequence[click.Parameter]]) -> Any:
    """A field that is a mapping, of those options that were given: by their names, their values."""

    def given(_: str, values: Mapping[str, Any]) -> dict[str, Any]:
        names = [str(each.name) for each in options()]
        return {name: values[name] for name in names if values[name] not in (None, ())}

    return dataclasses.field(default_factory=dict, metadata={_Words: _Words(lambda _: options(), given)})


def parts(of: Callable[[], Mapping[str, type[Any]]]) -> Any:
    """A field that is a mapping, of requests by their names, whose options stand in this one's place."""
    words = _Words(
        lambda _: [each for request in of().values() for each in parameters(request)],
        lambda _, values: {name: made_of(request, values) for name, request in of().items()},
    )
    return dataclasses.field(
        default_factory=lambda: {name: request() for name, request in of().items()}, metadata={_Words: words}
    )


def _own(name: str, values: Mapping[str, Any]) -> Any:
    return values[name]


def _field(words: _Words, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={_Words: words})


def parameters(request: type[Any]) -> Iterator[click.Parameter]:
    """The options and arguments of a request, in the order of its fields."""
    for field in dataclasses.fields(request):
        yield from field.metadata[_Words].parameters(field.name)


def made_of(request: type[Request], values: Mapping[str, Any]) -> Request:
    """The request that click's values mean."""
    fields = dataclasses.fields(request)  # type: ignore[arg-type]
    return request(**{field.name: field.metadata[_Words].value(field.name, values) for field in fields})


def typed(*marks: Mark) -> list[str]:
    """What of this command stands on the command line and has one of the marks, as typed; without marks all options."""
    context = click.get_current_context()
    found = [each for each in context.command.params if is_typed(str(each.name))]
    return [
        each.opts[0] if isinstance(each, click.Option) else each.human_readable_name
        for each in found
        if (isinstance(each, _Marked) and each.marks & {*marks} if marks else isinstance(each, click.Option))
    ]


def is_typed(name: str) -> bool:
    """Whether this command's option stands on the command line."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)


def carrying_out(request: type[Request], run: Callable[[Request], None]) -> Callable[..., None]:
    """What click calls with the values of the request's options."""
    return lambda **values: run(made_of(request, values))


class RequestCommand(click.Command, Generic[Request]):
    """Carries out a request. Its options are listed by group, its arguments stand in the usage line.

    Errors name its options, as they are typed. moved: first words and options that went, each with the command that
    does the same; for one release.
    """

    def __init__(
        self,
        name: str,
        request: type[Request],
        run: Callable[[Request], None],
        help: str,  # noqa: A002 - as click's
        moved: Mapping[str, str] | None = None,
        **attributes: Any,
    ) -> None:
        self.moved = moved or {}
        super().__init__(
            name, callback=carrying_out(request, run), params=[*parameters(request)], help=help, **attributes
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = takewhile(lambda word: word != "--", args)
        words = [*args[:1], *(word.partition("=")[0] for word in options if word.startswith("-"))]
        for word in words if not ctx.resilient_parsing else []:
            if word in self.moved:
                was = word if word.startswith("-") else f"{ctx.info_name} {word}"
                raise click.UsageError(f"{was} is now: {self.moved[word]}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except PlacementError as error:
            raise PlacementError(error.said(partial(as_option, by_name(self.params)))) from None
        except (InvalidField, BackendUnavailable) as error:
            raise type(error)(as_options(str(error), self.params)) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), HELP_ALL]

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What it does, and examples, which are what click is told not to wrap; with --help-all, the rest."""
        first, *others = (self.help or "").split("\n\n")
        examples = [each for each in others if each.startswith("\b")]
        rest = [each for each in others if each not in examples] if ctx.meta.get(ALL) else []
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("\n\n".join([first, *examples, *rest]))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By group with --help-all; else those that many people use, each in a line where its first words fit."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if ctx.meta.get(ALL):
            for heading, rows in _groups(options, ctx).items():
                with formatter.section(heading):
                    formatter.write_dl(rows)
            return
        groups = _groups([each for each in options if not _is_rare(each)], ctx)
        of_problem = groups.pop("Problem", [])
        for heading, rows, most in (("Problem", of_problem, MOST_LINES), ("Options", [*chain(*groups.values())], None)):
            if rows:
                with formatter.section(heading):
                    _write_short(formatter, rows, most)


def _groups(options: Sequence[click.Option], ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Heading -> the rows below it."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for option in options:
        if (row := option.get_help_record(ctx)) is not None:
            groups.setdefault(getattr(option, "group", "Other"), []).append(row)
    return groups


def _write_short(formatter: click.HelpFormatter, rows: Sequence[tuple[str, str]], most: int | None) -> None:
    """Of each row whole sentences, as many as its line holds, but one at least; of those after most lines, names."""
    names = max((len(name) for name, _ in rows if len(name) <= WIDEST_NAME), default=WIDEST_NAME)
    wide = formatter.width - formatter.current_indent - names - 2
    short = [(name, _beginning(text, wide)) for name, text in rows]
    ends = accumulate((len(name) > names) - (-len(text) // wide) for name, text in short)
    shown = sum(end <= most for end in ends) if most else len(rows)
    formatter.write_dl(short[:shown], col_max=names)
    if others := [re.split("[ ,/]", name)[0] for name, _ in rows[shown:]]:
        formatter.write_text(f"also {', '.join(others)}: see --help-all")


def _beginning(text: str, wide: int) -> str:
    said, *more = re.split(r"(?<=[.\]]) ", text)
    for sentence in more:
        said += f" {sentence}" * (len(said) + 1 + len(sentence) <= wide)
    return said


def _is_rare(parameter: click.Parameter) -> bool:
    return isinstance(parameter, RequestOption) and parameter.is_rare


def _show_all(ctx: click.Context, option: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 - by click
    if is_asked and not ctx.resilient_parsing:
        ctx.meta[ALL] = True
        click.echo(ctx.get_help())
        ctx.exit()


ALL = f"{__name__}.all"
"""Of a context, whether its help lists all options."""
WIDEST_NAME, MOST_LINES = 26, 12
"""On the first screen: of options before their texts stand in the next line, and for a problem."""
HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
    help="All there is to say, and all options.",
)  # fmt: skip
