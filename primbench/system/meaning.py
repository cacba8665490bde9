"""A fact of a place, declared once, at the field that holds it: ``Annotated[int | None, Fact("How many ...", ...)]``.

What reads a place, shows it, sets two beside each other, explains a difference, and looks again after a case goes by
this alone.
"""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

Layer = Literal["stack", "limits", "confinement", "machine"]
"""Of a place: its software, what of it may be used, what stands between a process and the kernel, and the rest."""


class FactId(Sequence[Any]):
    """The id of a fact: the names on the way to it, keys of dictionaries and numbers in lists among them.

    FactId("software", "variables", "OMP_NUM_THREADS"), FactId("devices", "gpus", 0, "uuid"). It is equal to a tuple of
    the same parts, and a slice of it is one; only to be printed and in JSON it is a text: "devices.gpus[0].uuid".
    """

    __slots__ = ("_parts",)

    def __init__(self, *parts: str | int) -> None:
        self._parts = parts

    def __getitem__(self, at: Any) -> Any:
        return self._parts[at]

    def __len__(self) -> int:
        return len(self._parts)

    def __eq__(self, other: object) -> bool:
        return self._parts == (other._parts if isinstance(other, FactId) else other)

    def __hash__(self) -> int:
        return hash(self._parts)

    def __str__(self) -> str:
        words = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in self._parts)
        return "".join(words).removeprefix(".")

    __repr__ = __str__

    @property
    def within(self) -> str:
        """In words without the group that it is of: "cpu_quota", "gpus[0].uuid"."""
        numbers = next((at for at, each in enumerate(self._parts) if at and isinstance(each, str)), len(self))
        return str(FactId(*self._parts[numbers:]))


class Fact(NamedTuple):
    """What is to be known of a field, or of the entries of one."""

    words: str = ""
    """One plain sentence for people; the end of the field's name is its unit."""
    source: str = ""
    """The file, system call or variable that it comes from, for people; "" where another field's reading gives it."""
    read: Callable[..., Any] | None = None
    """Takes the root of /proc, /sys, /dev and /etc, and where ``of_others`` the number of a process, 0 this one; of a
    GPU it takes that."""
    rule: str | None = None
    """Of `doctor --against`, which says what a difference does to results; None where it is not known to do any."""
    layer: Layer | None = None
    """What a difference in the field is one of; None where it is nothing, as in a counter or a moment."""
    of_others: bool = True
    """Whether it can be told of another process; else it is of this process or of the machine alone."""
    asks_gpus: bool = False
    """Whether reading it takes a second and more or touches GPUs, so that it has to be asked for."""
    is_no_limit: bool = False
    """Whether None without a reason is "no limit"; of others it is that an older primbench did not read it."""
    since: str | None = None
    """The field that came with it and is never none: where that was not read, None is not "no limit" here."""
    noted_from: float | None = None
    """By how much more it is told of while a case runs: 0 is any other value, infinity is read again and not compared.

    None is not looked at again. The same place reads a little otherwise each time."""
    varies: bool = False
    """Worth a look, but no reason not to compare: measured anew each time, or only a name of what is compared."""
    by_doctor: bool = False
    """The doctor tells of it in one place by itself, so that it is no cause of its own."""
    counts: bool = False
    """It is a number, or a list as long, of threads or CPUs."""
    less_is_slower: bool = False
    """Less of it makes nothing faster."""
    more_is_slower: bool = False
    """More of it makes nothing faster, or that it is there at all, where it is no number."""
    read_by: re.Pattern[str] | None = None
    """The names of libraries, one of which has to be loaded for it to do anything; None where that is not known."""
    late: bool = False
    """It is of what a library brings, and so only there once that is loaded."""
    beside: bool = False
    """No matter where one place alone has it: the library that it comes with is told by itself, or does no work."""
    by_cpu: bool = False
    """It is chosen for the CPU that is found, and so the machine's doing where the machines differ."""
    called: bool = False
    """It is a library whose functions are called, whatever others are loaded."""
    first: str | None = None
    """What the machine itself has. Two that are not it are alike, though not the same."""
    entry: Fact | Callable[[str], Fact] | None = None
    """Of each entry of a list or a dictionary, by its name if it has one."""
    by_itself: bool = False
    """The name of an entry says what it is."""
    is_told_by_effect: bool = False
    """What it changes is a fact by itself, as libraries that a variable names, so that it is no cause of its own."""

    def value(self, place: Any, pid: int = 0) -> Any:
        """What it reads of a root, or of a GPU; raises whatever its reading raises."""
        if self.read is None:
            raise LookupError(f"nothing reads it by itself: {self.words}")
        return self.read(place, pid) if self.of_others else self.read(place)


@functools.cache
def hints(kind: type) -> dict[str, Any]:
    """Fields of a struct with their types, and with what is declared of them."""
    of_module = vars(sys.modules[kind.__module__])
    return typing.get_type_hints(kind, of_module, {}, include_extras=True)


def fact_in(hint: Any) -> Fact | None:
    """The fact that is declared with a type."""
    declared = hint.__metadata__ if typing.get_origin(hint) is Annotated else ()
    return next((each for each in declared if isinstance(each, Fact)), None)


@functools.cache
def facts_of(kind: type) -> dict[str, Fact]:
    """Those that a struct declares, by field."""
    return {name: fact for name, hint in hints(kind).items() if (fact := fact_in(hint)) is not None}
