"""Who meets whom, and how two that see one folder find each other, or give each other up."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from primbench.distributed.followers import Leader
from primbench.distributed.rendezvous import join
from primbench.errors import OutputError, WorkerError
from primbench.fleet import signs
from primbench.fleet.links import Meeting, Met, number_of, own_address, pairs, partners
from primbench.fleet.signs import Patience, signs_of_life
from primbench.spec.fleet import Member


@pytest.mark.parametrize("of", [1, 2, 3, 4, 7, 8, 65])
def test_in_all_rounds_each_meets_each_once_and_in_no_round_two_at_a_time(of: int) -> None:
    met = [list(partners(number, of, of)) for number in range(of)]
    assert [sorted({*range(of)} - {number}) for number in range(of)] == list(map(sorted, met))
    assert of * (of - 1) // 2 == pairs(of, of)
    even = of % 2 == 0
    for index in range(of - 1 if even else 0):  # else each sits out one round
        assert all(number == met[met[number][index]][index] for number in range(of))
    assert len({frozenset((number, each[0])) for number, each in enumerate(met) if each}) == pairs(of, 1) or not even


@pytest.mark.parametrize(("rounds", "count"), [(1, 32), (3, 96), (63, 2016), (1000, 2016)])
def test_fewer_rounds_are_fewer_pairs(rounds: int, count: int) -> None:
    assert count == pairs(64, rounds)


@pytest.mark.parametrize(
    ("expected", "found", "variables"),
    [
        (2, Member(node="n2", rank=4, of=3, launcher="srun"), {"SLURM_NODEID": "2"}),
        (1, Member(node="a", rank=8, of=3, launcher="torchrun"), {"GROUP_RANK": "1"}),
        (
            2,
            Member(node="a", rank=8, of=3, launcher="mpirun"),
            {"OMPI_COMM_WORLD_RANK": "8", "OMPI_COMM_WORLD_SIZE": "12", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"},
        ),
        (5, Member(node="a", rank=5, of=8, task=1, launcher="srun"), {"SLURM_NODEID": "2"}),
        (0, Member(node="a", rank=0, of=1), {}),
    ],
)
def test_nodes_are_numbered_whatever_ranks_are_between(expected: int, found: Member, variables: dict[str, str]) -> None:
    assert expected == number_of(found, variables)


def test_the_own_address_is_none_that_leads_to_oneself_where_there_is_another() -> None:
    assert own_address({}) == own_address({"MASTER_ADDR": "127.0.1.1", "SLURM_LAUNCH_NODE_IPADDR": "no such host"})


def test_two_come_together_whoever_comes_first_and_know_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "links"
    later, first = (Meeting(folder, number, name=f"n{number}", results=f"n{number}.jsonl") for number in (1, 0))

    def lead() -> str:
        met = first.meet(1, 30.0)
        with Leader(met.world, met.listener):
            return met.name

    def follow() -> Met:
        met = later.meet(0, 30.0)
        join((met.world.address, met.world.port), met.world.secret, 1, 0).close()
        return met

    with ThreadPoolExecutor(2) as pool:
        led, followed = pool.submit(lead), pool.submit(follow)
        assert ("n1", "n0", None) == (led.result(60), followed.result(60).name, followed.result().listener)
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}, "secrets are in them"


def test_who_grows_nothing_is_given_up_and_who_still_measures_is_not(tmp_path: Path) -> None:
    here = Meeting(tmp_path / "links", 0, name="n0", results="n0.jsonl")
    with pytest.raises(WorkerError, match="node 1 did not come: it died, or was stopped"):
        here.meet(1, 0.1)
    busy = Meeting(tmp_path / "links", 2, name="n2", results="n2.jsonl")
    is_over = threading.Event()

    def measure() -> None:
        while not is_over.wait(0.05):
            with (tmp_path / "n2.jsonl").open("a") as file:
                file.write("{}\n")

    with ThreadPoolExecutor(3) as pool:
        pool.submit(measure)
        meeting = pool.submit(here.meet, 2, 0.8)
        try:
            with pytest.raises(TimeoutError):
                meeting.result(1.5)
            pool.submit(busy.meet, 0, 5.0).result(10)
            met = meeting.result(10)
        finally:
            is_over.set()
    assert "n2" == met.name
    assert met.listener is not None
    met.listener.close()


MEASURING = """
import sys, time
from pathlib import Path
from primbench.fleet.links import Meeting
from primbench.fleet.signs import signs_of_life
folder = Path(sys.argv[1])
with signs_of_life(folder / "n1.jsonl"):
    Meeting(folder / "links", 1, name="n1", results="n1.jsonl")
    print("here", flush=True)
    time.sleep(60)
"""


def test_who_is_killed_is_given_up_by_its_silence_and_not_by_the_time_that_a_case_may_take(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(signs, "LOST_S", 0.5)
    monkeypatch.setattr(signs, "EACH_S", 0.05)
    results = tmp_path / "n0.jsonl"
    with subprocess.Popen([sys.executable, "-c", MEASURING, tmp_path], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert b"here\n" == other.stdout.readline()
        other.kill()
        with signs_of_life(results):
            patience = Patience(60)
            assert not patience.is_over("nothing", results)
            with pytest.raises(WorkerError, match="n1 did not come: it died, or was stopped"):
                Meeting(tmp_path / "links", 0, name="n0", results=results.name).meet(1, 60)
            assert not patience.is_over("nothing", results), "who lives and hangs is given its time"
    assert ["n1.jsonl.alive"] == [each.name for each in tmp_path.glob("*.alive")]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("")
    with pytest.raises(OutputError, match=r"links: File exists: nodes cannot meet by it"):
        Meeting(tmp_path / "links", 0, name="n0", results="n0.jsonl")
