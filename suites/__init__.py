"""Suites: lists of problems in TOML, shipped here or written by hand; installed as ``primbench.suites``.

A suite names primitives and lists entries of each::

    title = "two products"                    # optional, as are source, licence and note
    [defaults.gemm]                           # optional: holds for every gemm entry
    dtype = "float16"
    [[gemm]]
    m = 1760
    n = 16
    k = 1760
    set = "training"                          # labels: set, application, id and label; strings, all optional
    device = "cuda"                           # on such devices only: "cuda" or "cpu"; on all where not given

A field may hold a list: the entry then stands for one problem a value, in that order.

A suite is a study, too, where it names arms in which its entries are to be compared, as strings or as tables::

    pairs = 8                                 # optional, at most 1000
    seed = 0                                  # optional
    arm = ["host", "podman:cpus=2", { runtime = "docker", seccomp = "unconfined" }]
"""

from __future__ import annotations

import difflib
import itertools
import math
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import FileError, InvalidField, InvalidRequest
from primbench.problem import Problem, Value
from primbench.registry import build, primitives, problem_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

if __name__ != "primbench.suites":
    raise ImportError(
        f"this folder is primbench.suites, imported here as {__name__!r}: "
        "leave the checkout or start Python with -P, and import primbench.suites"
    )

from primbench.suites.document import cut, read_document  # not where the folder is not the package

SIZES = ("small", "medium", "large")
HEADER = ("title", "source", "licence", "note")
STUDY = ("arm", "pairs", "seed")
KEYS = (*HEADER, *STUDY, "defaults")
"""What a suite can say besides its primitives."""
LABELS = ("set", "application", "id", "label", "device")
MOST_PAIRS = 1000
"""Of a study, whether a suite or the command line asks for them."""

_FOLDER = Path(__file__).parent
_MAX_PROBLEMS = 10_000
_INTEGERS = range(-(2**63), 2**63)  # TOML 1.0, "Integer"


@dataclass(frozen=True)
class Entry:
    """A problem and the suite's words for it: any of set, application, id and label."""

    problem: Problem
    labels: dict[str, str]


@dataclass(frozen=True)
class Description:
    """counts: primitive -> set -> problems; the set is None for entries that name none."""

    title: str
    counts: dict[str, dict[str | None, int]]


@dataclass(frozen=True)
class StudyFile:
    """What a suite says of a study. arms: as written, strings and tables. pairs and seed: None where not said."""

    title: str
    arms: list[Any]
    pairs: int | None
    seed: int | None


@dataclass(frozen=True)
class _Row:
    """An entry as written, every field with all its values. where: "FILE: gemm entry 3"."""

    where: str
    primitive: str
    fields: dict[str, list[Value]]
    labels: dict[str, str]


@dataclass(frozen=True)
class _Suite:
    source: str
    title: str
    rows: list[_Row]
    arms: list[Any] = field(default_factory=list)
    pairs: int | None = None
    seed: int | None = None


def names() -> list[str]:
    """The shipped suites; small, medium and large are the sets of sizes."""
    return [*SIZES, *sorted(path.stem for path in _FOLDER.glob("*.toml"))]


def studies() -> list[str]:
    """The shipped suites that name arms."""
    return sorted(path.stem for path in (_FOLDER / "studies").glob("*.toml"))


def study(name_or_path: str | os.PathLike[str]) -> StudyFile:
    """What a suite says of a study, no arms where it is none. Raises as :func:`read` does."""
    suite = _load(name_or_path, None)
    return StudyFile(suite.title, suite.arms, suite.pairs, suite.seed)


def references() -> dict[str, list[Path]]:
    """The shipped results files by the device that made them, the first word of their names."""
    found: dict[str, list[Path]] = {}
    for path in sorted((_FOLDER / "reference").glob("*.jsonl")):
        found.setdefault(path.stem.partition("-")[0], []).append(path)
    return found


def describe(name_or_path: str | os.PathLike[str]) -> Description:
    """What a suite holds. Raises as :func:`read` does."""
    suite = _load(name_or_path, None)
    counts: dict[str, dict[str | None, int]] = {}
    for row in suite.rows:
        of_sets = counts.setdefault(row.primitive, Counter())
        of_sets[row.labels.get("set")] += math.prod(map(len, row.fields.values()))
    return Description(suite.title, {primitive: dict(of_sets) for primitive, of_sets in counts.items()})


def load(
    name_or_path: str | os.PathLike[str],
    *,
    only: Sequence[str] | None = None,
    set: str | None = None,  # noqa: A002 - the word in the files
    overrides: Mapping[str, Sequence[Value]] | None = None,
) -> list[Problem]:
    """The problems that :func:`read` gives, without their labels."""
    return [entry.problem for entry in read(name_or_path, only=only, set=set, overrides=overrides)]


def read(
    name_or_path: str | os.PathLike[str],
    *,
    only: Sequence[str] | None = None,
    set: str | None = None,  # noqa: A002
    overrides: Mapping[str, Sequence[Value]] | None = None,
) -> list[Entry]:
    """The entries of a shipped suite or of a file, in the file's order, exact repeats included.

    only: primitives to keep, all where empty. set: keep entries with this label. overrides: values that take
    the place of a field of every kept entry, their product where there are several; none leave it alone.

    Raises FileError, naming the file and the entry, for a file that is not a suite; InvalidRequest for a name
    that is neither, a selection that keeps nothing, and an override that an entry cannot take.
    """
    suite = _load(name_or_path, set)
    given = {field: values for field, values in (overrides or {}).items() if values}
    return [Entry(problem, row.labels) for row in _kept(suite, only or (), set) for problem in _problems(row, given)]


def _kept(suite: _Suite, only: Sequence[str], set_name: str | None) -> list[_Row]:
    for primitive in only:
        problem_class(primitive)  # a misspelt primitive is not an empty selection
    kept = [
        row for row in suite.rows if (not only or row.primitive in only) and set_name in (None, row.labels.get("set"))
    ]
    if not kept:
        asked = [*only, *([] if set_name is None else [f"set {set_name!r}"])]
        sets: dict[str, dict[str, None]] = {}
        for row in suite.rows:
            name = row.labels.get("set")
            sets.setdefault(row.primitive, {})["without a set" if name is None else repr(name)] = None
        there = "; ".join(f"{primitive} {', '.join(of)}" for primitive, of in sets.items())
        raise InvalidRequest(f"{suite.source}: no entry of {', '.join(asked)}: it holds {cut(there)}")
    return kept


def _problems(row: _Row, replaced: Mapping[str, Sequence[Value]]) -> Iterator[Problem]:
    """The product of the values of every field."""
    lists: dict[str, Sequence[Value]] = {**row.fields, **replaced}
    for values in itertools.product(*lists.values()):
        fields = dict(zip(lists, values, strict=True))
        try:
            yield build(row.primitive, fields)
        except InvalidRequest as error:
            changed = " with " + ", ".join(f"{field}={fields[field]!r}" for field in replaced)
            reason = str(error).removeprefix(f"{row.primitive} ")
            kind = InvalidField if replaced else InvalidRequest  # what the file says is not worded as an option
            raise kind(f"{row.where}{changed if replaced else ''}: {cut(reason)}") from None


def _load(name_or_path: str | os.PathLike[str], set_name: str | None) -> _Suite:
    """The whole suite, each entry checked; for small, medium and large the rows of that set alone."""
    source = os.fspath(name_or_path)
    if source in SIZES:
        if set_name not in (None, source):
            raise InvalidRequest(f"suite {source} with set {set_name!r}: {source} is itself a set, of sizes")
        sizes = _suite(source, _FOLDER / "sizes.toml")
        return _Suite(source, f"The {source} sizes of every primitive", _kept(sizes, (), source))
    shipped = {name: _FOLDER / f"{name}.toml" for name in names()}
    shipped |= {name: _FOLDER / "studies" / f"{name}.toml" for name in studies()}
    return _suite(source, shipped.get(source, source))


def _suite(source: str, path: str | os.PathLike[str]) -> _Suite:
    try:
        document = read_document(source, path)
    except FileNotFoundError:
        raise InvalidRequest(
            f"suite {source!r}: there are {', '.join([*names(), *studies()])}, and no such file; "
            "the path of a suite of your own ends in .toml"
        ) from None
    _check_keys(source, document, [*KEYS, *primitives()])
    for key in HEADER:
        if not isinstance(document.get(key, ""), str):
            raise FileError(f"{source}: {key} is not a string")
    defaults = _table(document.pop("defaults", {}), f"{source}: defaults")
    _check_keys(f"{source}: defaults", defaults, list(primitives()))
    header = {key: document.pop(key) for key in HEADER if key in document}
    arms, pairs, seed = _study(source, {key: document.pop(key) for key in STUDY if key in document})
    rows = [
        row
        for primitive, entries in document.items()
        for row in _rows(source, primitive, entries, defaults.get(primitive, {}))
    ]
    if not rows:
        raise FileError(f"{source}: no entries: write some, as in gemm = [{{ m = 64, n = 64, k = 64 }}]")
    return _Suite(source, header.get("title", source), rows, arms, pairs, seed)


def _check_keys(where: str, keys: Iterable[str], known: Sequence[str]) -> None:
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(cut(key), known, n=1, cutoff=0.7)  # by less, "until" is near to "title"
            meant = f"did you mean {near[0]}? " if near else ""
            raise FileError(f"{where}: " + cut(f"unknown key {key!r}: {meant}there are {', '.join(known)}"))


def _study(source: str, said: dict[str, Any]) -> tuple[list[Any], int | None, int | None]:
    """Arms, pairs and seed; what an arm says is for others to read."""
    pairs, seed = said.get("pairs"), said.get("seed")
    if pairs is not None and (type(pairs) is not int or not 1 <= pairs <= MOST_PAIRS):
        raise FileError(f"{source}: pairs is not a whole number from 1 to {MOST_PAIRS}")
    if seed is not None and (type(seed) is not int or seed < 0):
        raise FileError(f"{source}: seed is not a whole number of at least 0")
    arms = said.get("arm", [])
    if not isinstance(arms, list) or not all(isinstance(arm, str | dict) for arm in arms):
        raise FileError(f"{source}: arm is not a list of strings and tables: write [[arm]] above each table")
    return arms, pairs, seed


def _rows(source: str, primitive: str, entries: Any, defaults: Any) -> list[_Row]:
    defaults = _table(defaults, f"{source}: defaults.{primitive}")
    if not isinstance(entries, list):
        raise FileError(f"{source}: {primitive} is not a list of entries: write [[{primitive}]] above each")
    rows = []
    for number, entry in enumerate(entries, 1):
        where = f"{source}: {primitive} entry {number}"
        row = _row(where, primitive, defaults | _table(entry, where))
        try:
            list(_problems(row, {}))
        except InvalidRequest as error:
            raise FileError(str(error)) from None
        rows.append(row)
    return rows


def _row(where: str, primitive: str, entry: dict[str, Any]) -> _Row:
    for key, value in entry.items():
        if key in LABELS and not isinstance(value, str):
            raise FileError(f"{where}: {key} is not a string")
        if key == "device" and value not in ("cpu", "cuda"):
            raise FileError(f"{where}: device is neither cpu nor cuda")
    labels = {key: entry[key] for key in LABELS if key in entry}
    fields = {key: value if isinstance(value, list) else [value] for key, value in entry.items() if key not in LABELS}
    for key, values in fields.items():
        if not all(_is_value(value) for value in values):
            raise FileError(f"{where}: {cut(repr(key))} is not a number of 64 bits, a string, true or false")
        if not values:
            raise FileError(f"{where}: {cut(repr(key))} is an empty list: leave the field away, or name a value")
    if math.prod(map(len, fields.values())) > _MAX_PROBLEMS:
        raise FileError(f"{where}: its lists make more than {_MAX_PROBLEMS} problems")
    return _Row(where, primitive, fields, labels)


def _is_value(value: Any) -> bool:
    return isinstance(value, int | float | str) and (not isinstance(value, int) or value in _INTEGERS)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileError(f"{where} is not a table")
    return value
