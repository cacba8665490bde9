"""Shares of a GPU: what a stand-in for NVIDIA's daemon is told, and what is refused where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.runtimes.mps import CONTROL, PIPES
from primbench.runtimes.table import launch
from primbench.spec.arm import parse_arm

DAEMON = """#!/bin/sh
[ "$1" = -d ] || { read -r said; echo "$said" >> "$CUDA_MPS_LOG_DIRECTORY/seen"; exit; }
[ -d "$CUDA_MPS_PIPE_DIRECTORY" ] || exit 1
echo "began with $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" >> "$CUDA_MPS_LOG_DIRECTORY/seen"
sleep 2 & # as a daemon, with its streams open
"""
REFUSING = "#!/bin/sh\necho 'An instance of this daemon is already running' >&2\nexit 1\n"


def stand_in(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / CONTROL).write_text(text)
    (folder / CONTROL).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_daemon_begins_and_ends_with_the_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", DAEMON, monkeypatch)
    found = launch(parse_arm("host:mps=50%"), tmp_path, command=["true"], gpus=True)
    assert found.environment is not None
    assert str(tmp_path / "mps") == found.environment[PIPES]
    for command in (*found.before, *found.after):
        subprocess.run(command, env=found.environment, check=True, timeout=60, capture_output=True)
    assert ["began with 50", "quit -t 5"] == (tmp_path / "mps-log/seen").read_text().splitlines()


def test_what_the_daemon_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", REFUSING, monkeypatch)
    found = launch(parse_arm("host:mps=50%"), tmp_path, command=["true"], gpus=True)
    done = subprocess.run(found.before[0], env=found.environment, capture_output=True, text=True, check=False)
    assert (1, "An instance of this daemon is already running\n") == (done.returncode, done.stderr)


@pytest.mark.parametrize(("gpus", "reason"), [(True, f"{CONTROL} is not installed"), (False, "nothing here uses one")])
def test_a_share_that_cannot_be_had_is_refused(
    gpus: bool, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(InvalidRequest, match=reason):
        launch(parse_arm("host:mps=50%"), tmp_path, command=["true"], gpus=gpus)


def test_an_instance_of_a_gpu_is_refused_of_cases_on_a_cpu(tmp_path: Path) -> None:
    arm = parse_arm("host:mig=MIG-41b36a6e-5a1d-5f4b-9e6f-0c7a4c4f2b8e")
    with pytest.raises(InvalidRequest, match="of a GPU, and nothing here uses one: --device cuda"):
        launch(arm, tmp_path, command=["true"], gpus=False)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("host:mps=0%", "from 1% to 100%"),
        ("host:mps=50%,env.CUDA_MPS_PIPE_DIRECTORY=/tmp", "the arm's own service"),
        ("host:mig=GPU-1", "nvidia-smi -L"),
        ("host:mig=MIG-1,env.CUDA_VISIBLE_DEVICES=0", "which GPU"),
        ("podman:mps=50%", "podman has no mps of its own"),
    ],
)
def test_words_that_mean_no_share_are_refused(words: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidRequest, BackendUnavailable), match=reason):
        launch(parse_arm(words), tmp_path, command=["true"], gpus=True)


def test_an_instance_alone_is_seen(tmp_path: Path) -> None:
    found = launch(parse_arm("host:mig=MIG-1"), tmp_path, command=["true"], gpus=True)
    assert "MIG-1" == (found.environment or {})["CUDA_VISIBLE_DEVICES"]
