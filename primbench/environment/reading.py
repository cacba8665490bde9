"""How the groups of the fingerprint are filled: each field by its own ``Fact``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import msgspec

from primbench.system.files import attempt, trimmed, utf8
from primbench.system.meaning import Fact, facts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

UNREAD: Any = msgspec.UNSET
"""The default of a field whose None is "no limit" and which files of an older primbench do not have."""
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


def _read(fact: Fact, root: Path, pid: int, *, of_machine: bool) -> Any:
    if pid and not (fact.of_others or of_machine):
        raise LookupError(f"only process {pid} itself could tell")
    return fact.value(root, pid)


@functools.cache
def _late(kind: type) -> dict[str, Fact]:
    """The facts that files of an older primbench do not have, and whose None is not known to be so for that."""
    late = {field.name for field in msgspec.structs.fields(kind) if field.default is UNREAD}
    return {name: fact for name, fact in facts_of(kind).items() if name in late}


def note_unread(found: Any) -> None:
    """Gives each fact that a file does not have a reason, in place of UNREAD.

    A file that went through another primbench since has None in its place: there one of them tells that can be none.
    """
    kind: type = type(found)
    facts = _late(kind)
    unsaid = [name for name in facts if name not in found.missing and getattr(found, name) in (None, UNREAD)]
    is_old = not all(facts[name].is_no_limit for name in unsaid)
    for name in unsaid:
        if is_old or getattr(found, name) is UNREAD:
            msgspec.structs.force_setattr(found, name, None)
            msgspec.structs.force_setattr(found, "missing", found.missing | {name: NOT_READ_YET})


def word(path: Path) -> str:
    """The text of a file without the space around it. Raises OSError, and ValueError where it is empty."""
    text = trimmed(path.read_text())
    if not text:
        raise ValueError(f"{path} is empty")
    return text
