"""Places that earlier versions recorded: what they lack is unknown, never told as a difference, and never lost."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from primbench.environment.comparable import comparable
from primbench.environment.difference import difference
from primbench.environment.fingerprint import GROUPS, Environment, facts
from primbench.environment.reading import NOT_READ_YET
from primbench.system.meaning import FactId, Layer

ROOT = Path(__file__).parents[3]
FILES = [
    path
    for folder in (ROOT / "suites/reference", ROOT / "tests/primbench/fixtures")
    for path in sorted(folder.rglob("*.json*"))
    if path.suffixes[0].startswith(".json")
]


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """Environments of a file, those of one that is written by `env` too, one of each set of fields."""
    text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    lines = text.splitlines() if ".jsonl" in path.suffixes else [text]
    held = [json.loads(line) for line in lines if b'"time_utc"' in line]
    found = [line.get("environment", line) for line in held]
    places = [each for each in found if isinstance(each, dict) and "limits" in each and "time_utc" in each]
    yield from {repr([(group, sorted(each[group])) for group in GROUPS]): each for each in places}.values()


def lacking(raw: dict[str, Any]) -> set[FactId]:
    of_groups = (field for field in facts() if len(field) == 2)
    return {field for field in of_groups if field[1] not in raw[field[0]]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_recorded_place_lacks_is_no_difference(path: Path, look: Callable[..., Environment]) -> None:
    here = look()
    for raw in recorded(path):
        place = msgspec.json.decode(json.dumps(raw), type=Environment)
        found = difference(place, here)
        differing = {
            change.field[:2]
            for layer in get_args(Layer)
            for change in getattr(found, layer).changes
            if change.kind == "differs"
        }
        assert set() == differing & {field[:2] for field in lacking(raw)}
        assert [] == [each for layer in get_args(Layer) for each in getattr(difference(place, place), layer).changes]
        assert place == msgspec.json.decode(msgspec.json.encode(place), type=Environment)


def test_older_places_are_among_them() -> None:
    places = [raw for path in FILES for raw in recorded(path)]
    assert 5 < len(places)
    older = [raw for raw in places if FactId("limits", "niceness") in lacking(raw)]
    assert older
    for raw in older:
        place = msgspec.json.decode(json.dumps(raw), type=Environment)
        assert NOT_READ_YET == place.limits.missing["niceness"]
        assert NOT_READ_YET == comparable(place, place)["limits"]["missing"]["cpu_group_depth"]
