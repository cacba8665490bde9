"""What a field that describes a place says of it, declared at the field: ``Annotated[int | None, Meaning("limits")]``.

Differences between two places, `doctor --against` and the causes of a comparison go by this alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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


class Meaning(NamedTuple):
    """layer: what a difference in the field is one of; None where it is nothing, as in a counter or a moment.

    rule: of `doctor --against`, which says what a difference does to results; None where it is not known to do any.
    varies: worth a look, but no reason not to compare: measured anew each time, or only a name of what is compared.
    by_doctor: the doctor tells of it in one place by itself, so that it is no cause of its own.
    counts: a number, or a list as long, of threads or CPUs. less_is_slower: less of it makes nothing faster;
    more_is_slower: more of it, or that it is there at all, where it is no number.
    read_by: the names of libraries, one of which has to be loaded for it to do anything; None where that is not known.
    late: of what a library brings, and so only there once that is loaded; beside: no matter where one place alone has
    it, since the library that it comes with is told by itself, or does no work.
    by_cpu: chosen for the CPU that is found, and so the machine's doing where the machines differ.
    called: a library whose functions are called, whatever others are loaded.
    set_by: the setting of an arm that it comes from, by which the next experiment takes a difference away.
    first: what the machine itself has. Two that are not it are alike, though not the same.
    entry: of each entry of a list or a dictionary, by its name if it has one. inside: of a struct's fields that have
    none of their own; else theirs is that of what they are in. by_itself: the name of an entry says what it is.
    """

    layer: Layer | None
    rule: str | None = None
    varies: bool = False
    by_doctor: bool = False
    counts: bool = False
    less_is_slower: bool = False
    more_is_slower: bool = False
    read_by: re.Pattern[str] | None = None
    late: bool = False
    beside: bool = False
    by_cpu: bool = False
    called: bool = False
    set_by: str | None = None
    first: str | None = None
    entry: Meaning | Callable[[str], Meaning] | None = None
    inside: Meaning | None = None
    by_itself: bool = False


NOTHING = Meaning(None)
