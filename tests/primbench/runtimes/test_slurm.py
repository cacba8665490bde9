"""The step of a job that an arm becomes; steps themselves are in tests/slurm/test_arms.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.afar import arm_there
from primbench.runtimes.slurm import OPTIONS, PASSED_ON, REACHED_BY, launch, step
from primbench.runtimes.table import check
from primbench.spec.arm import format_arm, parse_arm
from primbench.workers.process import WorkerProcess
from primbench.workers.protocol import Start


def test_a_step_is_on_one_node_and_its_command_stands_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    arm = parse_arm("slurm:n2,python=/opt/python3,nice=5")
    assert "slurm:n2,python=/opt/python3,nice=5" == format_arm(arm) == arm.name
    made = launch(arm, tmp_path, ["python3", "-P", "-m", "primbench.workers.worker"], gpus=False)
    assert ["srun", *OPTIONS, PASSED_ON, "--nodelist=n2", "/opt/python3", "-c"] == made.worker[:-1]
    assert b"primbench.workers.worker" in made.first


def test_an_image_is_that_of_pyxis_unless_a_runtime_there_is_named() -> None:
    """What pyxis makes of these options tests/containers/test_enroot.py shows where it is installed."""
    alone = parse_arm("slurm:n2,image=docker://mine,name=a")
    assert ["--container-image=docker://mine", "--no-container-entrypoint"] == step(alone)[-4:-2]
    assert f"{PASSED_ON},ENROOT_LOGIN_SHELL=no" in step(alone)
    assert parse_arm("host:name=a") == arm_there(alone, REACHED_BY)
    inner = parse_arm("slurm:n2,runtime=podman,image=mine,name=a")
    assert "--nodelist=n2" == step(inner)[-1]
    assert parse_arm("podman:image=mine,name=a") == arm_there(inner, REACHED_BY)


@pytest.mark.parametrize("words", ["slurm", "slurm:n[1-3]", "slurm:n1+n2", "slurm:node=-w", "slurm:n1,config=/x"])
def test_what_is_no_node_is_refused(words: str) -> None:
    with pytest.raises(InvalidRequest, match=r"of which machine\? .* slurm:NODE$|node '.*': the name of one|no config"):
        check(parse_arm(words))


# Of pyxis as of 2024 and enroot 4.1 in Slurm 22.05, where an image is not there.
SAID = """\
srun: error: n2: task 0: Exited with exit code 1
slurmstepd-n2: error: pyxis: child 27571 failed with error code: 1
slurmstepd-n2: error: pyxis: failed to create container filesystem
slurmstepd-n2: error: pyxis: printing enroot log file:
slurmstepd-n2: error: pyxis:     [ERROR] No such file or directory: /images/none.sqsh
slurmstepd-n2: error: pyxis: couldn't start container
slurmstepd-n2: error: spank: required plugin spank_pyxis.so: task_init() failed with rc=-1
slurmstepd-n2: error: Failed to invoke spank plugin stack
slurmstepd-n2: error: pyxis: child 27580 failed with error code: 1
"""


def test_of_all_that_pyxis_says_the_words_of_enroot_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(SAID)
    srun = tmp_path / "srun"
    srun.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    worker = WorkerProcess(Start(backend="numpy", device="cpu"), arm=parse_arm("slurm:n2,image=/images/none.sqsh"))
    told = r"pyxis: \[ERROR\] No such file or directory: /images/none\.sqsh: image=\S+ is to be a squashfs file on n2: "
    with pytest.raises(BackendUnavailable, match=told):
        worker.ready  # noqa: B018
    worker.end()
