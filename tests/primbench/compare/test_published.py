"""What was published of a case, beside what it takes here."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import Comparison
from primbench.compare.pairs import compare
from primbench.measurement import Measurement, Samples
from primbench.registry import build
from primbench.report.comparison import document
from primbench.results.file import Results
from primbench.spec.case import Case
from primbench.spec.published import Claim, ClaimedValue, Published

from ..report.exports import text_of

text = text_of(document)


SHOWN = Claim(
    id="shown",
    says="training",
    first=ClaimedValue(place="native", mean=83.0, runs=1),
    second=ClaimedValue(place="Singularity", mean=110.39, std=0.85, runs=100),
    caution="other libraries",
)
OTHER = Claim(says="the image has 4.91 GB")
PUBLISHED = Published(source="somebody 2019", claims=[SHOWN, OTHER])
TIMES_S = {"host": [1.0, 2.0, 3.0], "podman": [2.0, 2.0, 5.0]}


def case(size: int, **labels: str) -> Case:
    problem = build("gemm", {"m": size, "n": 4, "k": 4})
    return Case(primitive="gemm", parameters=problem.parameters(), backend="numpy", device="cpu", labels=labels)


@pytest.fixture
def compared(made_study: Callable[..., Results]) -> Comparison:
    def measured(arm: str, case: Case, pair: int) -> Measurement:
        return Measurement(
            batch_s=Samples(samples_s=TIMES_S[arm], calls_per_sample=1, taken_by="host clock", stopped="count")
        )

    made = made_study(["host", "podman"], [case(4, id="shown"), case(8)], measured)
    study = made.header.study
    assert study is not None
    return compare(replace(made, header=replace(made.header, study=replace(study, published=PUBLISHED))))


def test_the_statistics_of_papers_are_of_all_samples(compared: Comparison) -> None:
    assert compared.published is not None
    shown, other = compared.published.claims
    assert (OTHER, []) == (other.claim, other.cases)
    ((host, podman),) = (each.elapsed for each in shown.cases)
    pairs = host.samples // 3
    assert pairs > 1
    assert ("host", 2.0, 1.0, 3.0, 0.0) == (host.arm, host.mean_s, host.min_s, host.max_s, host.overhead)
    assert host.std_s == pytest.approx(statistics.stdev(TIMES_S["host"] * pairs))
    assert ("podman", 3.0, 0.5) == (podman.arm, podman.mean_s, podman.overhead)


def test_claims_stand_above_what_is_found_here(compared: Comparison) -> None:
    lines = text(compared).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Published, and the same here"))
    assert lines[first].endswith("(somebody 2019)")
    published, native, singularity, host, podman, unseen = lines[first + 2 : first + 8]
    assert published.split() == ["published", "1.330", "training"]
    assert native.split() == ["native", "1", "83.0", "s", "-", "-", "-"]
    assert singularity.split()[:3] == ["Singularity", "100", "110"]
    assert "gemm m=4 n=4 k=4 float32" in host
    assert "host" in host
    assert podman.split()[:2] == ["podman", str(len(TIMES_S["podman"]) * 8)]
    assert podman.endswith("not reproduced with equal stacks"), "the median is that of the host"
    assert host.split()[-1] not in podman, "of the baseline itself nothing was claimed"
    assert unseen.endswith("the image has 4.91 GB; not measured here")
    assert "! training: other libraries" in lines
