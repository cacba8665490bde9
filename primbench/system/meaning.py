"""What a field that describes a place says of it, declared at the field: ``Annotated[int | None, Meaning("limits")]``.

Differences between two places, `doctor --against` and the causes of a comparison go by this alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

Layer = Literal["stack", "limits", "confinement", "machine"]
"""Of a place: its software, what of it may be used, what stands between a process and the kernel, and the rest."""


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
