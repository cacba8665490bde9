"""`primbench show --schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

if TYPE_CHECKING:
    from click.testing import Result


def test_schema_is_valid_and_describes_every_line_of_a_results_file(
    invoke: Callable[..., Result], measured: tuple[Path, Result]
) -> None:
    schema = json.loads(invoke("show", "--schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    lines = [json.loads(line) for line in measured[0].read_text().splitlines()]
    for line in lines:
        validator.validate(line)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(lines[-1] | {"status": "fine"})
