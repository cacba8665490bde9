"""DeepBench's published times; the files in published/, and what to know before comparing in its README.md."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import primbench.suites as suites
from primbench.errors import InvalidRequest, near
from primbench.problem import Problem, Value
from primbench.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

_FOLDER = Path(__file__).parent / "published"
_SETS = ("training", "inference_server", "inference_device")
_ROW = ("id", "direction", "size_in_sheet")
# Fields that may differ from the suite's entry: the published times are told apart by dtype, and the rest is how the
# same problem lies in memory and is summed.
_FREE = ("dtype", "accumulate", "layout", "in_place")

Key = tuple[str, frozenset[tuple[str, Value]]]


class Caution(NamedTuple):
    """What to know before comparing. primitive: that it is about, "" for all; dtypes: likewise, empty for all."""

    primitive: str
    dtypes: frozenset[str]
    words: str

    def concerns(self, primitives: Set[str], dtypes: Set[object]) -> bool:
        """Whether one of these is among those it is about."""
        return (not self.primitive or self.primitive in primitives) and (not self.dtypes or bool(self.dtypes & dtypes))


CAUTIONS = (
    Caution(
        "gemm", frozenset(),
        "theirs are column-major: the very call is ours with m and n, and trans_a and trans_b, swapped",
    ),
    Caution(
        "gemm", frozenset({"float16"}),
        "float16: DeepBench's program asks for sums in float16, its sheet names wider ones",
    ),
    Caution("rnn", frozenset(), "theirs skip the products with the input, which ours compute: half of the flop"),
    Caution(
        "", frozenset({"float16", "int8"}),
        "their float16 and int8 inputs were zeros, which took up to 15 % less time on a V100",
    ),
    Caution("", frozenset({"int8"}), "some of their int8 sizes were padded to multiples of 4"),
    Caution("allreduce", frozenset(), "theirs is the fastest of several libraries, and synchronized after every call"),
)  # fmt: skip


@dataclass(frozen=True)
class Time:
    """size_in_sheet: the size that the published sheet prints where it is not the entry's, as in "n=6574"."""

    id: str
    time_s: float
    size_in_sheet: str


@dataclass(frozen=True)
class Sheet:
    """Where the times of a device, set and dtype come from. arithmetic: in DeepBench's words."""

    set: str
    dtype: str
    arithmetic: str
    libraries: str


@dataclass(frozen=True)
class Published:
    """All that is published of a device. times: by id, direction ("" where the primitive has none) and dtype."""

    device: str
    sheets: list[Sheet]
    times: dict[tuple[str, str, str], Time]

    def time(self, problem: Problem, id: str | None) -> Time | None:  # noqa: A002 - the word in the files
        """The time of a problem of DeepBench; of the entry with that id first, where several are the same problem."""
        fields = problem.parameters()
        ids = sorted(_ids().get(_key(problem), []), key=lambda each: each != id)
        keys = ((each, str(fields.get("direction", "")), str(fields.get("dtype"))) for each in ids)
        return next((self.times[key] for key in keys if key in self.times), None)


def nearest_metric(primitive: str, *, on_cpu: bool) -> str:
    """Our metric that is nearest to theirs: back-to-back calls; of an all-reduce, single calls waited for."""
    if primitive == "allreduce":
        return "wall_s"
    return "batch_s" if on_cpu else "stream_s"


def devices() -> list[str]:
    return sorted({row["device"] for row in _rows("sheets")})


def read(name: str) -> Published:
    """The published times of the device whose name has all the words of ``name``: "V100" or "NVIDIA V100".

    Raises InvalidRequest naming the devices there are.
    """
    asked = set(name.casefold().split())
    found = [device for device in devices() if asked and asked <= set(device.casefold().split())]
    if len(found) != 1:
        of = f"it may be {' or '.join(found)}" if found else f"{near(name, devices())}there are {', '.join(devices())}"
        raise InvalidRequest(f"published:{name}: {of}")
    return Published(found[0], _sheets(found[0]), _times(found[0]))


def _sheets(device: str) -> list[Sheet]:
    return [
        Sheet(row["set"], row["dtype"], row["arithmetic"], _libraries(row))
        for row in _rows("sheets")
        if row["device"] == device
    ]


def _libraries(row: dict[str, str]) -> str:
    named = {"CUDA": row["cuda"], "cuDNN": row["cudnn"], "driver": row["driver"]}
    return ", ".join([f"{name} {version}" for name, version in named.items() if version] + [row["other"]]).strip(", ")


def _times(device: str) -> dict[tuple[str, str, str], Time]:
    found = {}
    for name in _SETS:
        for row in _rows(name):
            for column, time_ms in row.items():
                of, _, dtype = column.rpartition(" ")
                if column not in _ROW and of == device and time_ms:
                    time = Time(row["id"], parse_duration(f"{time_ms}ms"), row["size_in_sheet"])
                    found[row["id"], row["direction"], dtype] = time
    return found


def _rows(name: str) -> Iterator[dict[str, str]]:
    with open(_FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@functools.cache
def _ids() -> dict[Key, list[str]]:
    found: dict[Key, list[str]] = {}
    for entry in suites.read("deepbench"):
        found.setdefault(_key(entry.problem), []).append(entry.labels["id"])
    return found


def _key(problem: Problem) -> Key:
    fields = problem.parameters()
    return problem.primitive, frozenset((name, value) for name, value in fields.items() if name not in _FREE)
