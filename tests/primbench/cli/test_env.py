"""`primbench env`."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from click.testing import Result

from primbench.cli.env import lines
from primbench.environment import Environment


def test_json_is_an_environment(invoke: Callable[..., Result]) -> None:
    result = invoke("env", "--json")
    assert 0 == result.exit_code
    assert msgspec.json.decode(result.stdout, type=Environment).python_version in result.stdout


def test_text_shows_every_field_and_the_reason_for_what_is_missing(invoke: Callable[..., Result]) -> None:
    found = msgspec.json.decode(invoke("env", "--json").stdout, type=Environment)
    shown = invoke("env").stdout.splitlines()
    for name in found.__struct_fields__:
        assert any(line.startswith(f"{name}:") for line in shown), name
    assert {f"  {name}: {reason}" for name, reason in found.missing.items()} <= set(shown)


def test_lists_and_tables_are_indented_and_unknown_is_a_dash() -> None:
    assert ["a: -"] == lines("a", None) == lines("a", {}) == lines("a", [])
    assert ["cpus: 0, 1"] == lines("cpus", [0, 1])
    assert ["ecc: False"] == lines("ecc", False)
    assert ["n: 0"] == lines("n", 0)
    assert ["gpus:", "  0:", "    name: H200", "    ecc: -"] == lines("gpus", [{"name": "H200", "ecc": None}])
