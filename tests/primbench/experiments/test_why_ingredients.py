"""What tells two arms apart, one thing after the other, and the arms in between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from primbench.errors import InvalidRequest
from primbench.experiments.why.frame import framed
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import KNOWN, UNLIKELY, USUAL, weights
from primbench.spec.arm import Arm, parse_arm, words_of
from primbench.spec.case import Case
from primbench.spec.settings.confinement import USUAL_CAPABILITIES
from primbench.system.capabilities import capabilities

from ..spec.test_arm import any_arm

POSSIBLE = {name.removeprefix("CAP_") for name in capabilities(Path("/"), kept="CapBnd")}
GIVEN = {*USUAL_CAPABILITIES}


def between(fast: str, slow: str) -> Mixtures:
    return Mixtures(parse_arm(fast), parse_arm(slow))


# Two arms -> the ingredients in words, and the arm with the first of them alone.
DIFFERENT = {
    ("host", "host:nice=5,env.A=1,threads=1"): (["nice=5", "env.A=1", "threads=1"], "host:nice=5"),
    ("host:env.A=1,unset=B", "host:env.A=2,env.B=3"): (["env.A=2", "env.B=3"], "host:unset=B,env.A=2"),
    ("host:env.A=1,cpus=1.5", "host"): (["no cpus=1.5", "no env.A=1"], "host:env.A=1"),
    ("runc:ipc=host", "runc:ipc=private,shm=1GiB,root=overlay"): (
        ["shm=1GiB, ipc=private", "root=overlay"],
        "runc:shm=1GiB,ipc=private",
    ),
    ("runc:cap-drop=KILL", "runc:cap-drop=SYS_NICE+CHOWN"): (
        ["no cap-drop=KILL", "cap-drop=SYS_NICE", "cap-drop=CHOWN"],
        "runc",
    ),
    ("host:mount=/a:/d", "host:mount=/b:/d+/x:/e,tmpfs=/f"): (
        ["mount=/b:/d", "mount=/x:/e", "tmpfs=/f"],
        "host:mount=/b:/d",
    ),
    ("host", "host:first.PATH=/a:/b,env.LD_PRELOAD=/x.so"): (
        ["first.PATH=/a", "first.PATH=/b", "env.LD_PRELOAD=/x.so"],
        "host:first.PATH=/a",
    ),
}


@pytest.mark.parametrize("places", DIFFERENT, ids=" ".join)
def test_each_thing_that_differs_is_an_ingredient(places: tuple[str, str]) -> None:
    mixtures = between(*places)
    found = [each.words for each in mixtures.ingredients]
    assert DIFFERENT[places] == (found, words_of(mixtures.arm(frozenset([0]))))


def test_entries_of_a_list_are_ingredients_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    mixtures = between("host", "host:env.PYTHONPATH=/a:/mine:/b")
    assert ["env.PYTHONPATH=/a", "env.PYTHONPATH=/b"] == [each.words for each in mixtures.ingredients]
    assert {"PYTHONPATH": "/mine:/b"} == mixtures.arm(frozenset([1])).variables
    mixtures = between("host:env.PYTHONPATH=/mine:/a", "host")
    assert ["no env.PYTHONPATH=/a"] == [each.words for each in mixtures.ingredients]


def test_entries_in_another_order_are_one_ingredient() -> None:
    assert ["env.PATH=/b:/a"] == [
        each.words for each in between("host:env.PATH=/a:/b", "host:env.PATH=/b:/a").ingredients
    ]


def one_by_one(fast: str, slow: str) -> Mixtures:
    frame = framed(parse_arm(fast), parse_arm(slow), lambda arm: None)
    return Mixtures(frame.base, frame.whole)


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        (("runc:cap-add=ALL", "runc"), {f"no cap-add={name}" for name in POSSIBLE - GIVEN}),
        (("docker", "docker:cap-drop=ALL,cap-add=CHOWN"), {f"cap-drop={each}" for each in GIVEN - {"CHOWN"}}),
        (("podman", "podman:cap-drop=ALL"), {f"cap-drop={each}" for each in POSSIBLE}),
        (("runc:cap-add=ALL,cap-drop=KILL", "runc:cap-add=ALL"), {"no cap-drop=KILL"}),
    ],
)
def test_all_capabilities_are_as_many_ingredients(places: tuple[str, str], moved: set[str]) -> None:
    found = {each.words for each in one_by_one(*places).ingredients}
    assert moved == found - {"cap-add=CHOWN"}


def test_they_share_what_one_ingredient_weighs() -> None:
    ingredients = one_by_one("runc:cap-add=ALL,seccomp=unconfined", "runc:seccomp=docker").ingredients
    case = Case(primitive="launch", parameters={"call": "getppid"}, backend="numpy", device="cpu")
    filtering, *names = weights(ingredients, case)
    assert len(POSSIBLE - GIVEN) == len(names)
    assert pytest.approx([KNOWN] * 2) == [filtering, sum(names)]
    dropped = one_by_one("runc", "runc:cap-drop=ALL").ingredients
    starting = Case(primitive="startup", parameters={"what": "numpy"}, backend="numpy", device="cpu")
    assert pytest.approx([KNOWN / len(GIVEN)] * len(GIVEN)) == weights(dropped, starting)


@pytest.mark.parametrize("seed", range(40))
def test_all_ingredients_together_make_the_slow_arm(seed: int) -> None:
    """Whatever it is: by the same way as any subset."""
    dice = random.Random(seed)
    fast, slow = (replace(any_arm(dice), runtime="runc", image=None, fuse_overlay=(), preload=None) for _ in "ab")
    mixtures = Mixtures(fast, slow)
    found: Arm = mixtures.mixed(mixtures.all, slow.name)
    assert (slow, fast) == (found, mixtures.mixed(frozenset(), fast.name))
    assert mixtures.all == frozenset(range(len({each.words for each in mixtures.ingredients})))


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (("host", "podman"), "the runtimes are host and podman"),
        (("ssh:a", "ssh:b"), "host is a and b"),
        (("podman:image=a", "podman:image=b"), "image is a and b"),
    ],
)
def test_between_two_machines_or_images_lies_no_setting(places: tuple[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        between(*places)


def test_what_is_known_to_slow_a_case_is_likelier_than_what_nothing_reads() -> None:
    ingredients = between(
        "host", "host:nice=5,umask=0077,env.PYTHONMALLOC=debug,env.OMP_NUM_THREADS=1,env.A=1"
    ).ingredients
    case = Case(primitive="gemm", parameters={}, backend="numpy", device="cpu")
    likely = dict(zip((each.words for each in ingredients), weights(ingredients, case), strict=True))
    assert [KNOWN, UNLIKELY, KNOWN, UNLIKELY] == [
        likely[each] for each in ("nice=5", "umask=0077", "env.PYTHONMALLOC=debug", "env.A=1")
    ]
    assert {*likely.values()} <= {KNOWN, USUAL, UNLIKELY}
