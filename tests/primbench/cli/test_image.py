"""`primbench image` where nothing is built; tests/containers/test_image.py builds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from primbench.cli.image import command
from primbench.runtimes.images.build import builders

if TYPE_CHECKING:
    import pytest
    from click.testing import Result


def test_help_names_the_runtimes_and_what_is_usual(invoke: Callable[..., Result]) -> None:
    found = invoke("image", "--help")
    assert 0 == found.exit_code
    assert "[docker|podman|apptainer|charliecloud]" in found.stdout
    assert re.search(r"\[default:\s+python:3\.\d+-slim\]", found.stdout)


def test_the_runtime_is_asked_for(refusal: Callable[..., str]) -> None:
    assert "Missing option '--runtime'. Choose from: docker, podman, apptainer" in refusal("image")
    assert "'lxc' is not one of 'docker', 'podman'" in refusal("image", "--runtime", "lxc")


def test_requests_that_cannot_be_met_are_refused_before_anything_is_built(
    refusal: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = ("image", "--runtime", "podman")
    assert f"{tmp_path}: is a folder" == refusal(*asked, "--json", tmp_path)
    assert refusal(*asked, "--extra", "trch").startswith("--extra trch: primbench 1")
    assert refusal(*asked, "--base", "").startswith("--base '': the name of an image")
    assert refusal(*asked, "--tag", "").startswith("--tag '': the name of an image")
    assert refusal(*asked).startswith("--runtime podman: podman is not installed")


def test_every_runtime_that_builds_may_be_asked_for() -> None:
    (option,) = [each for each in command.params if each.name == "runtime"]
    assert isinstance(option.type, click.Choice)
    assert list(builders()) == list(option.type.choices)
