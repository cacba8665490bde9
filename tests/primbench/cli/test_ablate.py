"""`primbench ablate` as far as it goes without a container; tests/containers starts some."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.results.file import Results, encode
from primbench.results.record import Line
from primbench.spec.case import Case

MadeStudy = Callable[..., Results]
Invoke = Callable[..., Result]
Refusal = Callable[..., str]

ARMS = ["host", "runc:cgroup=host,name=namespaces", "runc:seccomp=docker,name=seccomp"]


@pytest.fixture
def ended(made_study: MadeStudy, tmp_path: Path) -> Path:
    """The file of an ablation that is over, in which a filter costs a fifth."""

    def measured(arm: str, case: Case, pair: int) -> Measurement:
        median_s = (1.2e-3 if arm == "seccomp" else 1e-3) * (1 + 1e-3 * (1, -1, -1, 1)[(pair + len(arm)) % 4])
        samples = Samples(samples_s=[median_s] * 7, calls_per_sample=9, taken_by="host clock", stopped="noise")
        return Measurement(batch_s=samples)

    parameters = build("gemm", {"m": 64, "n": 64, "k": 64}).parameters()
    results = made_study(
        ARMS, [Case(primitive="gemm", parameters=parameters, backend="numpy", device="cpu")], measured, pairs=8
    )
    assert results.header.study is not None
    study = replace(results.header.study, title="docker by runc", notes=["left out: network: no such thing"])
    lines: list[Line] = [
        replace(results.header, study=study), *results.workers, *results.records
    ]  # fmt: skip
    path = tmp_path / "ablation.jsonl"
    path.write_bytes(b"".join(map(encode, lines)))
    return path


def test_an_ablation_that_is_over_is_shown_again(ended: Path, invoke: Invoke) -> None:
    before = ended.read_bytes()
    found = invoke("ablate", "--resume", ended, "--fail-on", "never")
    assert 0 == found.exit_code, found.output
    (row,) = [" ".join(line.split()) for line in found.stdout.splitlines() if line.split()[:1] == ["seccomp"]]
    assert row.startswith("seccomp batch 1.20 ms 1.200 [")
    assert found.stdout.endswith("left out: network: no such thing\n")
    assert before == ended.read_bytes()


def test_a_container_that_is_slower_is_what_fails(ended: Path, invoke: Invoke) -> None:
    assert 1 == invoke("ablate", "--resume", ended).exit_code


def test_an_export_takes_the_place_of_the_table(ended: Path, invoke: Invoke) -> None:
    found = invoke("ablate", "--resume", ended, "--csv", "-", "--fail-on", "never")
    assert {"host", "namespaces"} == {row["baseline"] for row in csv.DictReader(io.StringIO(found.stdout))}


@pytest.mark.parametrize(
    "option", [("--runtime", "podman"), ("--runner", "crun"), ("--no-new-privileges",), ("--cpus", "2")]
)
def test_what_an_ablation_was_begun_with_stays(ended: Path, option: tuple[str, ...], refusal: Refusal) -> None:
    assert f"{option[0]} and --resume" in refusal("ablate", "--resume", ended, *option)


def test_arms_that_somebody_else_may_have_written_are_named_again_to_a_command_that_takes_them(
    ended: Path, invoke: Invoke
) -> None:
    ended.write_bytes(ended.read_bytes().replace(b'"seccomp":"docker"', b'"seccomp":"/tmp/theirs.json"'))
    refused = invoke("ablate", "--resume", ended)
    words = shlex.split(refused.stderr.partition("name them again: primbench ")[2])
    assert (2, ["study", "--resume"]) == (refused.exit_code, words[:2]), refused.stderr
    assert 0 == invoke(*words, "--fail-on", "never").exit_code


def test_a_study_that_puts_no_container_together_is_not_gone_on_with(
    made_study: MadeStudy, tmp_path: Path, refusal: Refusal
) -> None:
    path = tmp_path / "study.jsonl"
    path.write_bytes(encode(made_study(["host", "podman", "host:cpus=0.5"], [], lambda *_: "").header))
    assert "(podman, host:cpus=0.5): go on with `primbench study`" in refusal("ablate", "--resume", path)


def test_a_runtime_that_is_not_put_together_of_parts_is_refused(refusal: Refusal) -> None:
    assert "'apptainer' is not one of 'docker', 'podman'" in refusal("ablate", "--runtime", "apptainer")


def test_without_runc_and_crun_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Refusal
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "runc is not installed; crun is not installed" in refusal("ablate", "-o", tmp_path / "results.jsonl")
    assert not (tmp_path / "results.jsonl").exists()


@pytest.mark.parametrize("cpus", ["0", "-1", "many"])
def test_a_quota_is_more_than_nothing(cpus: str, refusal: Refusal) -> None:
    assert "--cpus" in refusal("ablate", "--cpus", cpus)
