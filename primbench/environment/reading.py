"""How the groups of the fingerprint are filled: each field by its own ``Fact``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from primbench.system.files import attempt, trimmed, utf8
from primbench.system.meaning import Fact, facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UNREAD: Any = msgspec.UNSET
"""The default of a field whose None is "no limit" and which files of an older primbench do not have."""
_Group = TypeVar("_Group", bound=msgspec.Struct)
NOT_READ_YET = "the primbench that looked did not read it yet"
NOT_RECORDED = "not recorded"
"""The same of what is loaded into a process."""


def read_all(facts: Mapping[str, Fact], root: Path, pid: int = 0, *, of_machine: bool = False) -> dict[str, Any]:
    """Every field by its name, None where it could not be read, and the reasons for these as ``missing``.

    pid: of the process that they are read of, 0 this one. of_machine: whether what is no process's is the machine's.
    """
    missing: dict[str, str] = {}
    fields = {
        name: attempt(missing, name, functools.partial(_read, fact, root, pid, of_machine=of_machine))
        for name, fact in facts.items()
    }
    return fields | {"missing": {name: utf8(reason) for name, reason in missing.items()}}


def group_of(kind: type[_Group], root: Path, pid: int = 0, *, of_machine: bool = False) -> _Group:
    """A group of the fingerprint, by all facts that its struct declares; the others as ``read_all`` has them."""
    return kind(**read_all(facts_of(kind), root, pid, of_machine=of_machine))


def _read(fact: Fact, root: Path, pid: int, *, of_machine: bool) -> Any:
    if pid and not (fact.of_others or of_machine):
        raise LookupError(f"only process {pid} itself could tell")
    return fact.value(root, pid)


def note_unread(found: Any) -> None:
    """Gives each fact that a file does not have a reason, in place of UNREAD.

    What has gone through another primbench since has None there, which ``since`` tells from no limit.
    """
    kind: type = type(found)
    unsaid = {name: fact for name, fact in facts_of(kind).items() if _is_unread(found, name)}
    for name in [name for name, fact in unsaid.items() if getattr(found, name) is UNREAD or fact.since in unsaid]:
        msgspec.structs.force_setattr(found, name, None)
        msgspec.structs.force_setattr(found, "missing", found.missing | {name: NOT_READ_YET})


def _is_unread(found: Any, name: str) -> bool:
    """Whether a fact is not known though there is no reason why."""
    return name not in found.missing and getattr(found, name) in (None, UNREAD)


def word(path: Path) -> str:
    """The text of a file without the space around it. Raises OSError, and ValueError where it is empty."""
    text = trimmed(path.read_text())
    if not text:
        raise ValueError(f"{path} is empty")
    return text
