"""`primbench why` end to end, between places on this machine itself that differ in little."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from primbench.experiments.why.measuring import FIRST_PAIR, LOOK_PAIRS, Measuring
from primbench.results import file as results_file

Invoke = Callable[..., Result]
Refusal = Callable[..., str]
PLACES = ("host", "host:umask=0077,threads=1")
CASE = ("--primitive", "gemm -m 4 -n 4 -k 4", "--backend", "numpy", "--device", "cpu")
QUICK = ("--max-time", "10ms", "--min-time", "1ms")


@pytest.fixture(scope="module")
def asked(invoke: Invoke, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """An inquiry that had time for nothing but what is measured in any case."""
    path = tmp_path_factory.mktemp("why") / "why.jsonl"
    return path, invoke("why", *PLACES, *CASE, *QUICK, "--time-budget", "1ms", "-o", path)


def test_the_answer_comes_first_then_each_ingredient_then_what_to_type(asked: tuple[Path, Result]) -> None:
    _, result = asked
    assert result.exit_code in (0, 1), result.output
    answer, *rest = result.stdout.splitlines()
    assert answer.startswith("gemm m=4 n=4 k=4")
    assert ["umask=0077", "threads=1"] == [line.split()[1] for line in rest if line[:1] in "12" and line]
    assert f"again: primbench why {' '.join(PLACES)} --primitive" in result.stdout
    assert "is there a difference" in result.stderr


def test_its_file_has_every_pair_of_places_that_it_made(asked: tuple[Path, Result]) -> None:
    path, _ = asked
    found = results_file.read(path)
    assert found.header.study is not None
    assert (True, list(PLACES)) == (found.header.study.why, [arm.name for arm in found.header.study.arms])
    by_pair: dict[int, set[str]] = {}
    for record in found.records:
        by_pair.setdefault(record.case.process, set()).add(record.case.arm)
        assert record.case.method.check is (record.case.process < LOOK_PAIRS)
    assert {*range(LOOK_PAIRS), FIRST_PAIR} <= by_pair.keys()
    assert all({*PLACES} == by_pair[number] for number in range(LOOK_PAIRS))


def test_the_same_comes_of_the_file(asked: tuple[Path, Result], invoke: Invoke) -> None:
    path, first = asked
    before = path.read_bytes()
    again = invoke("why", "--resume", path, "--time-budget", "1ms", "--json", "-", "-q")
    assert first.stdout.startswith(json.loads(again.stdout)["headline"])
    assert (before, first.exit_code) == (path.read_bytes(), again.exit_code)
    assert invoke("compare", path, "--fail-on", "never").exit_code == 0


def test_what_is_known_is_told_where_it_is_cut_off(
    asked: tuple[Path, Result], invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is raised in place of being typed, at the first round."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Measuring, "observe", interrupted)
    result = invoke("why", "--resume", asked[0], "-q")
    assert result.exit_code == 130
    assert "cut off before all was asked" in result.stdout.splitlines()[0]


def test_a_study_is_not_gone_on_with_and_is_none_of_those(asked: tuple[Path, Result], refusal: Refusal) -> None:
    path, _ = asked
    assert "of `primbench why`: go on with `primbench why --resume`" in refusal("study", "--resume", path)
    reference = Path(__file__).parents[3] / "suites/reference/studies/h200-host-docker-podman-cupy.jsonl.xz"
    assert reference.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("host",), "two places are asked about"),
        (PLACES, "of which case?"),
        (("host", "host:name=again", *CASE), "no setting is different"),
        (("host", "ssh:there", *CASE), "nothing lies between the two"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments: tuple[str, ...], words: str, refusal: Refusal) -> None:
    assert words in refusal("why", *arguments)


def test_another_place_is_not_what_a_file_was_begun_with(asked: tuple[Path, Result], refusal: Refusal) -> None:
    assert "--resume: a study goes on with" in refusal("why", "host", "host:threads=2", "--resume", asked[0])


@pytest.mark.quiet
def test_what_makes_python_slow_is_named(invoke: Invoke, tmp_path: Path) -> None:
    """Among things that change nothing."""
    slow = "host:umask=0077,nofile=4096,env.A=1,env.PYTHONMALLOC=debug"
    case = ("--primitive", "files --bytes 4KiB", "--device", "cpu")
    result = invoke("why", "host", slow, *case, "-o", tmp_path / "why.jsonl", "--json", "-")
    found = json.loads(result.stdout)
    (proof,) = found["conclusion"]["proofs"]
    assert ["env.PYTHONMALLOC=debug"] == [found["ingredients"][number] for number in proof["differences"]]
    assert result.exit_code == 1


def test_what_asked_this_of_containers_before_names_it(refusal: Refusal) -> None:
    assert "ablate is another command now: primbench why host docker" in refusal("ablate", "--runtime", "docker")
