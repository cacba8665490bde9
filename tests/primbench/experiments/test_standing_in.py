"""Arms of suites, as far as they start here: with no runtime to be found, and with runc alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from primbench.errors import BackendUnavailable
from primbench.experiments.standing_in import that_start
from primbench.spec.arm import Arm
from primbench.workers.trial import why_not

HOST, DOCKER, APPTAINER = (Arm(name=name, runtime=name) for name in ("host", "docker", "apptainer"))


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that is searched for programs, and empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_arms_without_a_container_are_left_as_they_are() -> None:
    arms = [HOST, Arm(name="far", runtime="ssh", host="gpu7"), Arm(name="again", runtime="host")]
    assert (arms, []) == that_start(arms)
    assert ([HOST], []) == that_start([HOST])


@pytest.mark.usefixtures("programs")
def test_where_no_container_starts_it_is_said_what_to_install() -> None:
    with pytest.raises(BackendUnavailable) as refusal:
        that_start([HOST, DOCKER, APPTAINER])
    said = str(refusal.value)
    assert said.startswith("no container starts here: docker is left out: docker is not installed; apptainer is left")
    assert "install Podman, or runc for root, see `primbench arms`; or name other places by --arm" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: runc starts containers for root alone")
def test_runc_stands_in_for_docker_with_its_filter(programs: Path) -> None:
    if (runc := shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")) is None:
        pytest.skip("needs runc")
    (programs / "runc").symlink_to(runc)
    if (reason := why_not("runc")[0]) is not None:
        pytest.skip(f"runc starts nothing here: {reason}")
    asked = Arm(name="docker", runtime="docker", image="host", shm_bytes=2**30)
    arms, told = that_start([HOST, asked, APPTAINER])
    assert HOST == arms[0]
    (instead,) = arms[1:]
    assert ("docker-profile", "runc", "docker") == (instead.name, instead.runtime, instead.seccomp)
    assert asked.shm_bytes == instead.shm_bytes
    assert "in their place: docker-profile (runc, seccomp=docker)" == told[-1]
    assert ["docker", "apptainer"] == [sentence.partition(" is left out: ")[0] for sentence in told[:-1]]
