"""Pairs of real workers on this machine's CPUs: who takes turns, who does not and why, and what becomes of failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from primbench.experiments import pairs
from primbench.experiments.pairs import run
from primbench.experiments.sharing import Shares
from primbench.experiments.study import Block, check_build, plan
from primbench.measurement.readings import Turns
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Line, Record, Worker
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.spec.study import IN_TURN, Study
from primbench.system.cgroups import cgroup_folders
from primbench.workers.session import Session

QUICK = Method(min_time_s=0.001, max_time_s=0.01)
CPUS = sorted(os.sched_getaffinity(0))
two_cpus = pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs that this process may use")


def case(primitive: str, **parameters: int | float | str | bool) -> Case:
    return Case(primitive=primitive, parameters=parameters, backend="numpy", device="cpu", method=QUICK)


LAUNCH = case("launch", call="dispatch")
COPY = case("memcpy", bytes=65536, direction="h2h")
GEMM = case("gemm", m=8, n=8, k=8)
HERE, THERE = Arm(name="here"), Arm(name="there", variables={"THERE": "yes"})


class Ran:
    """What became of a study. announced: the cases that were shown, before they ran."""

    def __init__(self, asked: Study) -> None:
        self.found = Results(header=replace(header(["primbench", "study"], {}), study=asked), workers=[], records=[])
        self.told: list[str] = []
        self.announced: list[Case] = []

    @property
    def records(self) -> list[Record]:
        return self.found.records

    @property
    def statuses(self) -> list[tuple[str, str]]:
        return [(each.case.arm, each.status) for each in self.records]

    @property
    def started(self) -> list[str]:
        return [worker.arm.name for worker in self.found.workers if worker.arm]

    @property
    def why_alone(self) -> set[str]:
        """The reason of each case that was timed; "" for those in turn."""
        return {each.measurement.missing.get("turns", "") for each in self.records if each.measurement is not None}


def ran(
    arms: Sequence[Arm],
    cases: Sequence[Case],
    *,
    count: int = 1,
    blocks: Callable[[Sequence[Block]], Iterable[Block]] = iter,
    admit: Callable[[Ran, Worker], None] = lambda ran, worker: None,
    announce: Callable[[Ran, Case], None] = lambda ran, case: ran.announced.append(case),
    share: Callable[[Case], Shares] = lambda case: {},
    **fields: Any,
) -> Ran:
    """A study of so many pairs, by real workers. blocks: what is done with those planned. fields: Study's."""
    asked = Study(arms=list(arms), cases=list(cases), pairs=count, **({"pairing": IN_TURN} | fields))
    done = Ran(asked)
    with Session(arms={arm.name: arm for arm in arms}) as session:
        lines = run(
            session,
            asked,
            blocks(plan(arms, cases, range(count), asked.seed)),
            tell=done.told.append,
            announce=lambda case: announce(done, case),
            admit=lambda worker: admit(done, worker),
            share=share,
        )
        for line in lines:
            done.found.add(line)
    assert not [worker.pid for worker in done.found.workers if psutil.pid_exists(worker.pid)]
    return done


@pytest.fixture(scope="module")
def in_turn() -> Ran:
    return ran([HERE, THERE], [LAUNCH, COPY], count=2)


def turns_of(record: Record) -> Turns:
    assert record.measurement is not None
    assert record.measurement.turns is not None
    return record.measurement.turns


def test_arms_take_turns_case_by_case_in_an_order_that_is_mirrored(in_turn: Ran) -> None:
    assert 8 * ["ok"] == [each.status for each in in_turn.records]
    blocks = plan([HERE, THERE], [LAUNCH, COPY], range(2), 0)
    planned = [case for block in blocks for group in zip(*block.by_arm, strict=True) for case in group]
    assert planned == [each.case for each in in_turn.records] == in_turn.announced
    orders = [[each.case.arm for each in in_turn.records if each.case.process == pair] for pair in range(2)]
    assert [["here", "there"] * 2, ["there", "here"] * 2] == orders
    assert [] == in_turn.told


def test_what_a_metric_is_worth_is_what_all_processes_sample_it() -> None:
    long = replace(LAUNCH, method=replace(LAUNCH.method, max_time_s=5.0, min_time_s=4.0, max_noise=0.9))
    found = ran([HERE, THERE], [long], share=lambda case: {"batch_s": 0.03})
    for each in found.records:
        assert {"batch_s": 0.03} == turns_of(each).shares_s
        assert each.measurement is not None
        assert each.measurement.batch_s is not None
        samples = each.measurement.batch_s
        assert sum(samples.samples_s) * samples.calls_per_sample < 2 < long.method.min_time_s


def test_a_record_says_how_its_process_took_turns_and_on_which_cpu(in_turn: Ran) -> None:
    for each in in_turn.records:
        turns = turns_of(each)
        assert turns.count > 6
        assert turns.waited_s > 0
        assert turns.uncounted_s > 0
        assert turns.cpu in CPUS
    for _, pair in groupby(in_turn.records, key=lambda each: each.case.process):
        assert 1 == len({turns_of(each).cpu for each in pair})
    assert {""} == in_turn.why_alone


def test_a_pair_is_two_new_processes(in_turn: Ran) -> None:
    assert ["here", "there", "there", "here"] == in_turn.started
    assert 4 == len({worker.pid for worker in in_turn.found.workers})
    assert [0, 1, 0, 1, 2, 3, 2, 3] == [each.worker for each in in_turn.records]


def test_it_is_kept_in_a_results_file(in_turn: Ran, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lines: list[Line] = [in_turn.found.header, *in_turn.found.workers, *in_turn.records]
    path.write_bytes(b"".join(results_file.encode(line) for line in lines))
    assert in_turn.records == results_file.read(path).records


@two_cpus
def test_pairs_are_not_all_on_the_same_cpu(in_turn: Ran) -> None:
    found = pairs._Pairs(None, in_turn.found.header.study, print, print, print, dict, bool)  # type: ignore[arg-type]
    found.workers = {("here", "numpy", "cpu"): in_turn.found.workers[0]}
    cpus = [found._cpu([replace(LAUNCH, arm="here", process=pair)]) for pair in range(40)]
    assert set(CPUS[:2]) <= set(cpus) or len(CPUS) > 2 < len(set(cpus))
    assert cpus == [found._cpu([replace(LAUNCH, arm="here", process=pair)]) for pair in range(40)]


def test_processes_that_start_while_verdicts_are_looked_at_serve_the_pair_that_follows() -> None:
    begun: list[int] = []
    parents: list[int | None] = []
    of_others = psutil.Process().children()

    def looked_at(planned: Sequence[Block]) -> Iterator[Block]:
        first, second = planned
        yield first._replace(following=[cases[0] for cases in second.by_arm])
        begun.extend(each.pid for each in psutil.Process().children() if each not in of_others)
        yield second

    done = ran(
        [HERE, THERE], [LAUNCH], count=2, blocks=looked_at,
        admit=lambda _, worker: parents.append(psutil.Process(worker.pid).ppid()),
    )  # fmt: skip
    assert [("here", "ok"), ("there", "ok"), ("there", "ok"), ("here", "ok")] == done.statuses
    assert 4 == len(done.found.workers)
    assert begun == parents[2:]


def test_processes_follow_one_another_where_that_is_asked_for() -> None:
    done = ran([HERE, THERE], [LAUNCH, COPY], pairing="one-after-the-other")
    assert ["here", "here", "there", "there"] == [each.case.arm for each in done.records]
    assert {"the study's --pairing is one-after-the-other"} == done.why_alone
    assert {None} == {each.measurement and each.measurement.turns for each in done.records}


@pytest.mark.parametrize(
    ("pairing", "records"),
    [pytest.param("in-turn", [0, 0], id="together"), pytest.param("one-after-the-other", [0, 2], id="one by one")],
)
def test_processes_that_take_no_turns_start_together_and_end_when_they_are_done(
    monkeypatch: pytest.MonkeyPatch, pairing: str, records: list[int]
) -> None:
    """records: how many there are when each worker has started."""
    monkeypatch.setattr(type(GEMM.problem()), "why_alone", lambda self: "it loads ahead")
    alive: list[list[bool]] = []

    def announce(done: Ran, _: Case) -> None:
        alive.append([psutil.pid_exists(worker.pid) for worker in done.found.workers])

    started: list[int] = []
    cases = [GEMM, replace(GEMM, parameters=GEMM.parameters | {"m": 16})]
    done = ran(
        [HERE, THERE], cases, pairing=pairing, admit=lambda done, _: started.append(len(done.records)),
        announce=announce,
    )  # fmt: skip
    assert 4 * ["ok"] == [each.status for each in done.records]
    assert records == started
    together = [[True, True], [True, True], [True, True], [False, True]]
    assert (together if pairing == "in-turn" else [[], [True], [True], [False, True]]) == alive


def test_what_is_skipped_beside_processes_that_wait_is_tried_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product for whose size there is no memory is skipped in any case, and the next arm's has to start anew."""
    huge = replace(GEMM, parameters=dict.fromkeys("mnk", 1 << 20))
    monkeypatch.setattr(type(GEMM.problem()), "why_alone", lambda self: "it loads ahead")
    done = ran([HERE, THERE], [huge])
    assert [("here", "skipped"), ("there", "skipped")] == done.statuses
    assert ["here", "there", "there"] == done.started


def test_a_case_that_goes_on_between_calls_takes_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(GEMM.problem()), "why_alone", lambda self: "it loads ahead")
    done = ran([HERE, THERE], [GEMM, LAUNCH])
    assert 4 * ["ok"] == [each.status for each in done.records]
    why = {each.case.primitive: each.measurement.missing.get("turns") for each in done.records if each.measurement}
    assert {"gemm": "it loads ahead", "launch": None} == why


ON_THE_FIRST, ON_THE_LAST = (
    Arm(name=name, placement=Placement(cpus=(cpu,))) for name, cpu in (("first", CPUS[0]), ("last", CPUS[-1]))
)


@pytest.mark.parametrize(
    ("arms", "cases", "reason"),
    [
        pytest.param([HERE, replace(THERE, placement=Placement(threads=1))], [GEMM], "", id="a library's threads"),
        pytest.param([HERE, THERE], [case("allreduce", bytes=64, ranks=2)], "", id="ranks", marks=two_cpus),
        pytest.param(
            [ON_THE_FIRST, ON_THE_LAST],
            [LAUNCH],
            "there is no CPU that all arms may use",
            id="CPUs apart",
            marks=two_cpus,
        ),
        pytest.param([HERE, ON_THE_LAST], [LAUNCH], "", id="CPUs that overlap"),
        pytest.param(
            [HERE, replace(THERE, affinity=(CPUS[0],))],
            [LAUNCH],
            f"there has affinity={CPUS[0]}, which turns on one CPU would not show",
            id="an affinity",
        ),
    ],
)
def test_who_takes_turns_and_why_not(arms: list[Arm], cases: list[Case], reason: str) -> None:
    done = ran(arms, cases)
    assert [(arm.name, "ok") for arm in arms] == done.statuses
    assert {reason} == done.why_alone
    assert {not reason} == {bool(each.measurement and each.measurement.turns) for each in done.records}
    if arms[1] is ON_THE_LAST and not reason:
        assert {CPUS[-1]} == {turns_of(each).cpu for each in done.records}


def test_an_arm_that_cannot_be_had_is_skipped_with_the_reason_told_once_and_tried_once_more_alone() -> None:
    """The arms ask for a memory node that no machine has, and for a Python that does not start."""
    nowhere = Arm(name="nowhere", placement=Placement(numa_node=4095))
    broken = Arm(name="broken", variables={"PYTHONHOME": "/nonexistent"})
    done = ran([HERE, nowhere, broken, THERE], [LAUNCH, COPY], count=2)
    of = {arm: {status for name, status in done.statuses if name == arm} for arm, _ in done.statuses}
    assert {"here": {"ok"}, "there": {"ok"}, "nowhere": {"skipped"}, "broken": {"skipped"}} == of
    assert 16 == len(done.records)
    assert {""} == done.why_alone, "those that are there take turns without it"
    told = dict(sentence.split(" runs nothing with numpy on cpu: ") for sentence in done.told)
    assert {"nowhere", "broken"} == set(told)
    assert "4095" in told["nowhere"]
    assert told["broken"].startswith("worker died of exit status 1: Fatal Python error: ")
    assert set(told.items()) == {(each.case.arm, each.reason) for each in done.records if each.status == "skipped"}
    assert {"here", "there"} == set(done.started)


def test_an_arm_that_cannot_be_had_ends_none_of_those_that_wait_for_their_time() -> None:
    done = ran([HERE, Arm(name="bound", affinity=(4000,)), THERE], [LAUNCH])
    assert {("here", "ok"), ("bound", "skipped"), ("there", "ok")} == {*done.statuses}
    assert {"bound has affinity=4000, which turns on one CPU would not show"} == done.why_alone


def test_a_worker_that_is_not_admitted_runs_no_case_and_is_kept_in_the_file() -> None:
    """As if the NumPy of the second arm were another."""

    def admit(done: Ran, worker: Worker) -> None:
        other = {"numpy": "1.0"} if worker.arm == THERE else {}
        assert done.found.header.study is not None
        check_build(done.found.header.study, done.found, replace(worker, versions=worker.versions | other))
        assert worker.arm == HERE

    done = ran([HERE, THERE], [LAUNCH, COPY], count=2, admit=admit)
    assert {("here", "skipped"), ("there", "skipped")} == set(done.statuses), "one arm is nothing to compare"
    assert ["here", "there", "here"] == done.started
    (sentence,) = done.told
    assert sentence.startswith("there runs nothing with numpy on cpu: numpy 1.0, and ")


AT_START = """
import os, sys
if "primbench.workers.worker" in sys.orig_argv:
    import fcntl
    lock = open(os.environ["LOCK"], "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("the device serves another process", file=sys.stderr)
        os._exit(3)
    if os.path.exists(os.environ["LOCK"] + " is broken"):
        print("the device is broken", file=sys.stderr)
        os._exit(3)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (tmp_path / "sitecustomize.py").write_text(AT_START)
    return tmp_path / "device"


def with_lock(name: str, lock: Path) -> Arm:
    """Where a worker starts only while no other one has the lock."""
    return Arm(name=name, variables={"PYTHONPATH": str(lock.parent), "LOCK": str(lock)})


def test_arms_that_start_alone_and_not_beside_each_other_follow_one_another(lock: Path) -> None:
    done = ran([with_lock("one", lock), with_lock("other", lock)], [LAUNCH, COPY], count=2)
    assert 8 * ["ok"] == [each.status for each in done.records]
    (reason,) = done.why_alone
    why = " starts alone, and not beside other arms: worker died of exit status 3: the device serves another process"
    assert why in reason
    assert reason.startswith(("one ", "other "))
    assert ["one", "one", "other", "other", "other", "other", "one", "one"] == [arm for arm, _ in done.statuses]
    assert [] == done.told


@pytest.mark.parametrize(("pairing", "count"), [("in-turn", 3), ("one-after-the-other", 2)])
def test_a_worker_that_does_not_come_up_after_others_did_is_a_failure_and_no_absence(
    lock: Path, pairing: str, count: int
) -> None:
    broken = Path(f"{lock} is broken")

    def in_the_second_pair(blocks: Iterable[Block]) -> Iterator[Block]:
        for pair, block in enumerate(blocks):
            broken.touch() if pair == 1 else broken.unlink(missing_ok=True)
            yield block

    done = ran([HERE, with_lock("there", lock)], [LAUNCH], count=count, blocks=in_the_second_pair, pairing=pairing)
    assert {("here", "ok")} == {each for each in done.statuses if each[0] == "here"}
    there = [(each.status, each.reason) for each in done.records if each.case.arm == "there"]
    reason = "worker died of exit status 3: the device is broken: --verbose shows all that it said"
    assert [("ok", None), ("failed", reason), ("ok", None)][:count] == there
    assert [] == done.told


def test_under_a_cpu_quota_each_has_it_to_itself(group: Callable[[str, dict[str, str]], Path], tmp_path: Path) -> None:
    """A group of this test's own, in which the whole study is."""
    folder = group("cpu", {"cpu.cfs_period_us": "50000", "cpu.cfs_quota_us": "40000"})
    if not (cgroup_folders("cpu")[0] / "tasks").exists():
        pytest.skip("needs control groups of v1: those of v2 must be delegated to root here")
    path, suite = tmp_path / "results.jsonl", tmp_path / "launch.toml"
    suite.write_text('launch = [{ call = "dispatch" }]\n')
    asked = (suite, "--arm", "host", "--self", "--backend", "numpy", "--device", "cpu")
    times = ("--pairs", "1", "--min-time", "1ms", "--max-time", "10ms", "--fail-on", "never")
    subprocess.run(
        [sys.executable, "-P", "-m", "primbench", "study", *asked, *times, "-o", path],
        check=True, capture_output=True, preexec_fn=lambda: (folder / "tasks").write_text(f"{os.getpid()}"),
    )  # fmt: skip
    found = results_file.read(path)
    reasons = {each.measurement.missing["turns"] for each in found.records if each.measurement}
    assert {"host has a quota of 0.8 CPUs, which processes that wait for others would not use up"} == reasons
