"""The step of a job that an arm becomes; steps themselves are in tests/slurm/test_arms.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from primbench.errors import InvalidRequest
from primbench.runtimes.afar import arm_there
from primbench.runtimes.slurm import OPTIONS, REACHED_BY, launch, step
from primbench.runtimes.table import check
from primbench.spec.arm import format_arm, parse_arm


def test_a_step_is_on_one_node_and_its_command_stands_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    arm = parse_arm("slurm:n2,python=/opt/python3,nice=5")
    assert "slurm:n2,python=/opt/python3,nice=5" == format_arm(arm) == arm.name
    made = launch(arm, tmp_path, ["python3", "-P", "-m", "primbench.workers.worker"], gpus=False)
    assert ["srun", *OPTIONS, "--nodelist=n2", "/opt/python3", "-c"] == made.worker[:-1]
    assert b"primbench.workers.worker" in made.first


def test_an_image_is_that_of_pyxis_unless_a_runtime_there_is_named() -> None:
    """What pyxis makes of these options nothing here shows: the distribution does not have it."""
    alone = parse_arm("slurm:n2,image=docker://mine,name=a")
    assert ["--container-image=docker://mine", "--no-container-entrypoint"] == step(alone)[-4:-2]
    assert parse_arm("host:name=a") == arm_there(alone, REACHED_BY)
    inner = parse_arm("slurm:n2,runtime=podman,image=mine,name=a")
    assert "--nodelist=n2" == step(inner)[-1]
    assert parse_arm("podman:image=mine,name=a") == arm_there(inner, REACHED_BY)


@pytest.mark.parametrize("words", ["slurm", "slurm:n[1-3]", "slurm:n1+n2", "slurm:node=-w", "slurm:n1,config=/x"])
def test_what_is_no_node_is_refused(words: str) -> None:
    with pytest.raises(InvalidRequest, match=r"of which machine\? .* slurm:NODE$|node '.*': the name of one|no config"):
        check(parse_arm(words))
