"""What to do about what is proven, by places of which one was found here, and the other is the same but for a fact."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from primbench.environment.fingerprint import Environment, collect
from primbench.experiments.why.conclusion import Contribution, Proof, Role
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.mending import Mend, mends
from primbench.experiments.why.rounds import RatioInterval
from primbench.runtimes.table import known
from primbench.spec.arm import parse_arm


@pytest.fixture(scope="module")
def here() -> Environment:
    found = collect(gpus=False)
    return replace(found, software=replace(found.software, variables={}, preloads={}))


def _proof(*, ratio: float = 1.5, role: Role | None = "adds") -> Proof:
    """Of the first difference."""
    harms = RatioInterval(ratio=ratio, low=ratio, high=ratio)
    one = Contribution(difference=0, role=role, added=None, alone=None, share=None)
    first = frozenset([0])
    return Proof(
        differences=first, base=frozenset(), harms=harms, heals=harms, contributions=(one,), share=None, pairs=4
    )


def _mends(fast: str, slow: str, *places: Environment | None, **proven: Any) -> list[Mend]:
    mixtures = Mixtures(*(parse_arm(each, known()) for each in (fast, slow)))
    return [*mends([_proof(**proven)], mixtures, *(places or (None, None)))]


def _with(here: Environment, **variables: str) -> Environment:
    return replace(here, software=replace(here.software, variables=variables))


def test_it_is_what_doctor_advises_of_the_same_fact(here: Environment) -> None:
    slow = _with(here, PYTHONMALLOC="debug", PYTHONDEVMODE="1")
    (found,) = _mends("host", "host:env.PYTHONMALLOC=debug", here, slow)
    assert (0, "variables", ["unset PYTHONMALLOC"]) == (found.difference, found.cause, found.fix)


def test_what_is_so_in_both_places_is_no_advice(here: Environment) -> None:
    both = _with(here, PYTHONMALLOC="debug")
    (found,) = _mends("host", "host:env.PYTHONMALLOC=debug", both, both)
    assert found.cause is None


def test_what_only_follows_from_a_setting_is_not_what_is_mended(here: Environment) -> None:
    """A filter that refuses io_uring makes all system calls longer, which to allow io_uring would not change."""
    free, refused = (
        replace(here, confinement=replace(here.confinement, io_uring=each)) for each in ("allowed", "ENOSYS")
    )
    (found,) = _mends("runc:seccomp=unconfined", "runc:seccomp=docker", free, refused)
    assert (None, "have seccomp=unconfined") == (found.cause, found.advice)


@pytest.mark.parametrize(
    ("fast", "slow", "advice"),
    [
        ("host", "host:env.A=1", "unset A"),
        ("host:env.A=2", "host:env.A=1", "have env.A=2"),
        ("host:env.A=2", "host", "have env.A=2"),
        ("host:env.A=2", "host:unset=A", "have env.A=2"),
        ("host", "host:unset=A", "leave A as it is"),
        ("host", "host:first.PATH=/opt/a", "leave out first.PATH=/opt/a"),
        ("host:env.PATH=/bin", "host:env.PATH=/bin:/opt/a", "take /opt/a out of PATH"),
        ("host", "host:umask=0077", "leave out umask=0077"),
        ("host:umask=0022", "host:umask=0077", "have umask=0022"),
        ("host", "host:threads=1", "leave out threads=1"),
        ("runc", "runc:cap-drop=SYS_NICE", "leave out cap-drop=SYS_NICE"),
        ("runc:seccomp=unconfined", "runc:seccomp=docker", "have seccomp=unconfined"),
    ],
)
def test_else_it_is_what_the_fast_place_has(fast: str, slow: str, advice: str) -> None:
    assert [(None, advice)] == [(each.cause, each.advice) for each in _mends(fast, slow)]


def test_nothing_is_mended_that_makes_a_place_faster() -> None:
    for proven in ({"ratio": 0.8}, {"role": "takes away"}):
        assert not _mends("host", "host:umask=0077", **proven)
