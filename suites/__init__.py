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
    device = "cuda"                           # on such devices only: "cuda" or "cpu"; on all where not given. Of
                                              # program and startup: where there is a GPU, or where there is none
    backend = "torch"                         # on that backend alone; on those that are asked for where not given
    above = "torch op"                        # the label of the entry that it makes a call more of, and costs more than
    phase = "forward"                         # of a step that is made of the entries: forward, backward or optimizer
    count = 12                                # how often a step makes this call; sums weigh by it
    reuse_bytes = [0, 200_000_000]            # what the step touches from one use of each input to the next, by which
                                              # these are as near in the cache; or one number for all of them

A field may hold a list: the entry then stands for one problem a value, in that order.

A suite is a study, too, where it names arms in which its entries are to be compared, as strings or as tables::

    pairs = 8                                 # optional, at most 1000
    seed = 0                                  # optional
    arm = ["host", "podman:cpus=2", { runtime = "docker", seccomp = "unconfined" }]
    beside = "model alexnet"                  # optional: each arm once more, with this as a neighbour; or one for
                                              # GPUs, one for CPUs: { cuda = "model alexnet", cpu = "model mnist_cnn" }

and it may repeat a study that was published, whose numbers are then shown beside those measured here::

    [published]
    source = "who, where, when"
    claims = [
      # id: of the entries that show it. What was published of the two places, in seconds; std, min, max are optional.
      { id = "snn-training", says = "SNN training", caution = "other builds", first = { place = "native", mean = 82.94,
        std = 0.98, runs = 100 }, second = { place = "Singularity", mean = 110.34, std = 0.85, runs = 100 } },
      { id = "gemm", says = "products: equal", ratio = 1.0 },  # where a ratio of times alone was, second over first
      { id = "gru", says = "GRU: slower", slower = true },     # where that alone was
    ]
"""

from __future__ import annotations

import math
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from primbench.errors import FileError, InvalidRequest, cut, near
from primbench.registry import problem_class
from primbench.system.jsonlines import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from primbench.problem import Problem, Value
    from primbench.spec.captured import Captured
    from primbench.spec.published import Published

if __name__ != "primbench.suites":
    raise ImportError(
        f"this folder is primbench.suites, imported here as {__name__!r}: "
        "leave the checkout or start Python with -P, and import primbench.suites"
    )

# Not where the folder is not the package:
from primbench.suites.parse import Row, Suite, parse, problems

SIZES = ("small", "medium", "large")

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """A problem and the suite's words for it, any of LABELS."""

    problem: Problem
    labels: dict[str, str]


@dataclass(frozen=True)
class Contents:
    """counts: primitive -> set -> problems; the set is None for entries that name none."""

    title: str
    counts: dict[str, dict[str | None, int]]


@dataclass(frozen=True)
class StudyFile:
    """What a suite says of a study. arms: as written, strings and tables. pairs and seed: None where not said.

    beside: "cpu" and "cuda" -> the neighbour in words, where there is one. published: what the study repeats.
    captured: the step that the entries are parts of, where they are; that goes without arms.
    """

    title: str
    arms: list[Any]
    pairs: int | None
    seed: int | None
    beside: dict[str, str]
    published: Published | None
    captured: Captured | None = None

    @property
    def backends(self) -> tuple[str, ...]:
        """Those of its entries where none are asked for: a step of torch is measured on torch."""
        return ("torch",) if self.captured else ()


def names() -> list[str]:
    """The shipped suites; small, medium and large are the sets of sizes."""
    return [*SIZES, *sorted(path.stem for path in _FOLDER.glob("*.toml"))]


def titles() -> dict[str, str]:
    """Of each shipped suite; read from the one line that has it, since to parse all suites takes a quarter second."""
    found = {size: _title_of(size) for size in SIZES}
    for path in sorted(_FOLDER.glob("*.toml")):
        with open(path, encoding="utf-8") as file:
            title = next(line for line in file if line.startswith("title = "))
        found[path.stem] = title.partition('"')[2].rpartition('"')[0]
    return found


def _title_of(size: str) -> str:
    return f"The {size} sizes of every primitive"


def studies() -> list[str]:
    """The shipped suites that name arms."""
    return sorted(path.stem for path in (_FOLDER / "studies").glob("*.toml"))


def study(name_or_path: str | os.PathLike[str]) -> StudyFile:
    """What a suite says of a study, no arms where it is none. Raises as :func:`read` does."""
    suite = _load(name_or_path, None)
    return StudyFile(suite.title, suite.arms, suite.pairs, suite.seed, suite.beside, suite.published, suite.captured)


def references() -> dict[str, list[Path]]:
    """The shipped results files by the device that made them, the first word of their names."""
    found: dict[str, list[Path]] = {}
    for path in sorted((_FOLDER / "reference").iterdir()):
        if path.name.endswith(SUFFIXES):
            found.setdefault(path.name.partition("-")[0], []).append(path)
    return found


def describe(name_or_path: str | os.PathLike[str]) -> Contents:
    """What a suite holds. Raises as :func:`read` does."""
    suite = _load(name_or_path, None)
    counts: dict[str, dict[str | None, int]] = {}
    for row in suite.rows:
        of_sets = counts.setdefault(row.primitive, Counter())
        of_sets[row.labels.get("set")] += math.prod(map(len, row.fields.values()))
    return Contents(suite.title, {primitive: dict(of_sets) for primitive, of_sets in counts.items()})


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
    suite = _load(name_or_path, set, only or ())
    if not suite.rows:
        suite = _load(name_or_path, set)  # all of it, of which the error tells
    given = {field: values for field, values in (overrides or {}).items() if values}
    return [Entry(problem, row.labels) for row in _kept(suite, only or (), set) for problem in problems(row, given)]


def _kept(suite: Suite, only: Sequence[str], set_name: str | None) -> list[Row]:
    for primitive in only:
        problem_class(primitive)  # a misspelt primitive is not an empty selection
    kept = [
        row for row in suite.rows if (not only or row.primitive in only) and set_name in (None, row.labels.get("set"))
    ]
    if not kept:
        asked = [*only, *([] if set_name is None else [f"set {set_name!r}"])]
        raise InvalidRequest(f"{suite.source}: no entry of {', '.join(asked)}: it holds {cut(_sets(suite))}")
    return kept


def _sets(suite: Suite) -> str:
    """The sets of each primitive, in words."""
    sets: dict[str, dict[str, None]] = {}
    for row in suite.rows:
        name = row.labels.get("set")
        sets.setdefault(row.primitive, {})["without a set" if name is None else repr(name)] = None
    return "; ".join(f"{primitive} {', '.join(of)}" for primitive, of in sets.items())


def _load(name_or_path: str | os.PathLike[str], set_name: str | None, only: Collection[str] = ()) -> Suite:
    """The whole suite, each entry checked; for small, medium and large the rows of that set alone. only: of which
    primitives a shipped one is read, as it is known to be right; all where empty.
    """
    source = os.fspath(name_or_path)
    if source.endswith(SUFFIXES):
        raise InvalidRequest(
            f"{source}: a results file, and no suite: `primbench show` and `report` read it, --resume goes on with it"
        )
    if source in SIZES:
        if set_name not in (None, source):
            raise InvalidRequest(f"suite {source} with set {set_name!r}: {source} is itself a set, of sizes")
        sizes = parse(source, _FOLDER / "sizes.toml", is_shipped=True, only=only)
        return Suite(source, _title_of(source), [row for row in sizes.rows if row.labels.get("set") == source])
    files = _files()
    if source in files:
        return parse(source, files[source], is_shipped=True, only=only)
    try:
        return parse(source, source)
    except FileNotFoundError:
        if source.endswith(".toml"):
            shipped_words = "those that are shipped are named without .toml, as `primbench list suites` has them"
            raise FileError(f"suite {source!r}: no such file; {shipped_words}") from None
        known = [*names(), *studies()]
        raise InvalidRequest(
            f"suite {source!r}: {near(source, known)}there are {', '.join(known)}, and no such file; "
            "the path of a suite of your own ends in .toml"
        ) from None


def _files() -> dict[str, Path]:
    """Of the shipped suites, by their names."""
    found = {name: _FOLDER / f"{name}.toml" for name in names()}
    return found | {name: _FOLDER / "studies" / f"{name}.toml" for name in studies()}
