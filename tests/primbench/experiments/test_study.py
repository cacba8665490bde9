"""The plan of a study: what is balanced, what is the same, what a seed and a file reproduce."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison
from primbench.compare.judgement import decided
from primbench.compare.ratio import Estimate
from primbench.compare.settled import unsettled
from primbench.errors import BackendUnavailable, InvalidRequest
from primbench.experiments.budget import Budget
from primbench.experiments.study import LEAST_PAIRS, Block, check_arms, check_build, plan, to_run, whole_pairs
from primbench.results.file import Results
from primbench.results.record import Record, Worker
from primbench.results.writer import header
from primbench.spec.arm import Arm
from primbench.spec.case import Case
from primbench.spec.method import Method
from primbench.spec.placement import Placement
from primbench.spec.study import AGAIN, Study, with_itself
from primbench.workers.session import Session

HOST, PODMAN, DOCKER = (Arm(name=name, runtime=name) for name in ("host", "podman", "docker"))


def gemm(size: int, backend: str = "numpy") -> Case:
    return Case(primitive="gemm", parameters={"m": size, "n": size, "k": size}, backend=backend, device="cpu")


def allreduce(ranks: int) -> Case:
    return Case(
        primitive="allreduce", parameters={"bytes": 1024, "ranks": ranks}, backend="numpy", device="cpu"
    )  # fmt: skip


CASES = [gemm(16), gemm(32), gemm(64), gemm(16, "torch"), gemm(32, "torch"), allreduce(2)]


def one_by_one(blocks: Iterable[Block]) -> list[Case]:
    """As they are run where processes follow one another."""
    return [case for block in blocks for cases in block.by_arm for case in cases]


def order_of(blocks: Iterable[Block]) -> list[list[str]]:
    """The arms of each pair, as those of one backend follow each other."""
    ours = [case for case in one_by_one(blocks) if case.backend == "numpy" and case.ranks == 1]
    return [
        [arm for arm, _ in groupby(case.arm for case in of_pair)]
        for _, of_pair in groupby(ours, key=lambda case: case.process)
    ]


def test_two_arms_stand_as_abba_or_baab_and_both_occur() -> None:
    orders = order_of(plan([HOST, PODMAN], CASES, range(40), seed=0))
    assert all(one == other[::-1] for one, other in zip(orders[::2], orders[1::2], strict=True))
    assert {"host", "podman"} == {first for first, _ in orders[::2]}


@pytest.mark.parametrize("arms", [[HOST, PODMAN], [HOST, PODMAN, DOCKER]], ids=len)
@pytest.mark.parametrize("seed", range(5))
def test_every_arm_stands_equally_early_in_two_pairs(arms: list[Arm], seed: int) -> None:
    orders = order_of(plan(arms, CASES, range(12), seed))
    for one, other in zip(orders[::2], orders[1::2], strict=True):
        places = Counter({name: place for place, name in enumerate(one)})
        places.update({name: place for place, name in enumerate(other)})
        assert {len(arms) - 1} == set(places.values())


def test_three_arms_have_more_than_one_order_and_its_mirror() -> None:
    assert len({tuple(order) for order in order_of(plan([HOST, PODMAN, DOCKER], CASES, range(40), 0))}) > 2


@pytest.mark.parametrize("seed", range(8))
def test_the_baseline_is_known_before_another_arm_runs(seed: int) -> None:
    """On every backend, and however it is drawn later."""
    found = plan([PODMAN, HOST, DOCKER], CASES, range(20), seed)
    known = set()
    for case in one_by_one(found):
        known |= {case.backend} if case.arm == "podman" else set()
        assert case.backend in known
    assert {"podman", "host", "docker"} == {order[0] for order in order_of(found)}


def test_every_arm_runs_every_case_once_a_pair_in_the_same_order() -> None:
    found = one_by_one(plan([HOST, PODMAN, DOCKER], CASES, range(6), seed=3))
    for pair in range(6):
        of_arms = [
            [replace(case, arm="", process=0) for case in found if (case.process, case.arm) == (pair, arm.name)]
            for arm in (HOST, PODMAN, DOCKER)
        ]
        assert of_arms[0] == of_arms[1] == of_arms[2]
        assert sorted(case.key() for case in CASES) == sorted(case.key() for case in of_arms[0])
    assert 6 * 3 * len(CASES) == len(found)


def test_what_starts_processes_on_gpus_has_workers_of_its_own_in_containers_that_are_handed_them() -> None:
    """A program is a CPU's case: a container without GPUs would find none."""
    program = Case(primitive="program", parameters={"network": "snn", "gpu": True}, backend="torch", device="cpu")
    blocks = plan([HOST, PODMAN], [gemm(16, "torch"), program, gemm(32, "torch")], range(1), seed=0)
    sees = [[case.sees_gpus() for case in block.by_arm[0]] for block in blocks]
    assert [[False, False], [True]] == sorted(sees, key=len, reverse=True)


def test_cases_that_take_no_turns_follow_one_another_in_a_process_of_their_own() -> None:
    """For each of them the processes that take turns would end, and begin again."""
    loading = Case(
        primitive="model",
        parameters={"network": "snn", "data": "disk", "loader_workers": 4},
        backend="torch",
        device="cpu",
    )
    cases = [gemm(16, "torch"), loading, gemm(32, "torch"), replace(loading, labels={"id": "other"})]
    for block in plan([HOST, PODMAN], cases, range(4), seed=0):
        assert 1 == len({case.why_alone() for cases in block.by_arm for case in cases})
        assert [2, 2] == [len(cases) for cases in block.by_arm]


def test_cases_are_shuffled_pair_by_pair() -> None:
    found = one_by_one(plan([HOST, PODMAN], CASES, range(10), seed=0))
    orders = {tuple(case.key() for case in of_pair(found, pair)) for pair in range(10)}
    assert len(orders) > 3


def of_pair(found: Iterable[Case], pair: int) -> list[Case]:
    return [replace(case, process=0) for case in found if case.process == pair and case.arm == "host"]


def test_an_arm_serves_each_backend_with_one_process_a_pair() -> None:
    found = one_by_one(plan([HOST, PODMAN], CASES, range(3), seed=1))
    starts = [key for key, _ in groupby((case.arm, case.process, case.backend, case.ranks) for case in found)]
    assert len(set(starts)) == len(starts)


def test_processes_of_a_pair_follow_each_other_backend_by_backend() -> None:
    found = one_by_one(plan([HOST, PODMAN], CASES, range(3), seed=1))
    starts = [key for key, _ in groupby((case.process, case.backend, case.ranks, case.arm) for case in found)]
    assert all(one[:3] == other[:3] for one, other in zip(starts[::2], starts[1::2], strict=True))


def test_the_seed_makes_the_plan() -> None:
    once = plan([HOST, PODMAN], CASES, range(10), seed=7)
    assert once == plan([HOST, PODMAN], CASES, range(10), seed=7)
    assert once != plan([HOST, PODMAN], CASES, range(10), seed=8)


def test_a_pair_does_not_depend_on_how_many_there_are() -> None:
    every = plan([HOST, PODMAN], CASES, range(10), seed=7)
    assert every[: len(every) // 2] == plan([HOST, PODMAN], CASES, range(5), seed=7)


def test_an_arm_that_places_its_workers_says_where_cases_run() -> None:
    placed = Arm(name="node 1", placement=Placement(numa_node=1))
    given = replace(gemm(16), placement=Placement(threads=2))
    found = {case.arm: case.placement for case in one_by_one(plan([HOST, placed], [given], [0], seed=0))}
    assert {"host": Placement(threads=2), "node 1": Placement(numa_node=1)} == found


def test_with_itself_has_the_first_arm_again_under_another_name() -> None:
    arms = with_itself([HOST, PODMAN])
    assert [HOST, PODMAN, replace(HOST, name="host" + AGAIN)] == arms
    check_arms(arms)


@pytest.mark.parametrize(
    ("arms", "reason"),
    [
        ([], "a study compares two arms or more, there is none"),
        ([HOST], "there is host alone: name another with --arm, or add --self"),
        ([HOST, PODMAN, HOST], "2 arms are called host"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(arms: list[Arm], reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        check_arms(arms)


def study(pairs: int, *, until_settled: bool = False, arms: int = 2) -> Study:
    return Study(
        arms=[HOST, PODMAN, DOCKER][:arms], cases=[gemm(16), gemm(32)], pairs=pairs, until_settled=until_settled
    )


def nothing(of: Study) -> Results:
    return Results(header=replace(header(["primbench", "study"], {}), study=of), workers=[], records=[])


def ended(case: Case, worker: int | None = 0, reason: str | None = None) -> Record:
    return Record(
        case=case,
        status="ok" if reason is None else "skipped",
        reason=reason,
        worker=worker,
        started_utc="2026-01-01T00:00:00+00:00",
        duration_s=2.5,
    )


def run_all(blocks: Iterator[Block], found: Results, absent: str | None = None) -> list[Block]:
    """As a session would run them. absent: an arm that cannot start."""
    ran = []
    for block in blocks:
        for case in one_by_one([block]):
            found.add(ended(case, None, "no such runtime") if case.arm == absent else ended(case))
        ran.append(block)
    return ran


def all_of(found: Results) -> list[Case]:
    assert found.header.study is not None
    return found.header.study.cases


def left_of(
    asked: Study,
    found: Results,
    unsettled: Callable[[Results], Sequence[Case]] = all_of,
    budget: Budget | None = None,
) -> Iterator[Block]:
    return to_run(asked, found, unsettled=unsettled, budget=budget or Budget(None, found.records))


def test_all_pairs_are_run() -> None:
    asked = study(3)
    found = nothing(asked)
    assert plan(asked.arms, asked.cases, range(3), 0) == run_all(left_of(asked, found), found)


def test_a_study_goes_on_where_it_stopped_and_leaves_the_pair_that_was_cut_off() -> None:
    asked = study(3)
    found = nothing(asked)
    for case in one_by_one(plan(asked.arms, asked.cases, range(2), 0))[:-1]:
        found.add(ended(case))
    assert [0] == whole_pairs(asked, found.records)
    rest = run_all(left_of(asked, found), found)
    assert plan(asked.arms, asked.cases, [2, 3], 0) == rest
    assert [0, 2, 3] == whole_pairs(asked, found.records)
    assert [] == run_all(left_of(asked, found), found)


def test_it_ends_when_it_is_settled_and_not_before_there_are_pairs_enough() -> None:
    asked = study(40, until_settled=True)
    found, looks = nothing(asked), []

    def unsettled(so_far: Results) -> list[Case]:
        looks.append(len(whole_pairs(asked, so_far.records)))
        return asked.cases[: 7 - looks[-1]]

    run_all(left_of(asked, found, unsettled), found)
    assert [LEAST_PAIRS, 6, 7] == looks
    assert list(range(7)) == whole_pairs(asked, found.records)


def test_processes_of_a_pair_that_may_follow_are_named_where_verdicts_are_looked_at_first() -> None:
    asked = study(LEAST_PAIRS + 2, until_settled=True)
    found = nothing(asked)
    following = []
    for block in left_of(asked, found):
        run_all(iter([block]), found)
        following.append([(case.arm, case.process) for case in block.following])
    pairs = (LEAST_PAIRS, LEAST_PAIRS + 1)
    assert following[: LEAST_PAIRS - 1] == (LEAST_PAIRS - 1) * [[]]
    assert [sorted(each) for each in following[LEAST_PAIRS - 1 :]] == [
        *([("host", pair), ("podman", pair)] for pair in pairs), [],
    ]  # fmt: skip


def test_only_what_is_not_settled_goes_on() -> None:
    asked = study(40, until_settled=True)
    found = nothing(asked)
    run_all(left_of(asked, found, lambda found: [gemm(32)] if len(found.records) < 7 * 4 else []), found)
    counts = Counter((record.case.parameters["m"], record.case.arm) for record in found.records)
    assert {(16, "host"): 5, (16, "podman"): 5, (32, "host"): 9, (32, "podman"): 9} == counts
    assert list(range(9)) == whole_pairs(asked, found.records)
    found.records.pop()
    assert list(range(8)) == whole_pairs(asked, found.records), "the last one was cut off"
    assert list(range(5)) == whole_pairs(replace(asked, until_settled=False), found.records)


@pytest.mark.parametrize("budget_s", [75.0, 56.0])
def test_a_pair_of_fewer_cases_is_begun_where_it_ends_in_time(budget_s: float) -> None:
    """By what each case of a whole pair took, as no pair of so few has been run before the first one."""
    asked = study(40, until_settled=True)
    found, now = nothing(asked), [0.0]
    for block in left_of(asked, found, lambda found: [gemm(32)], Budget(budget_s, found.records, lambda: now[0])):
        run_all(iter([block]), found)
        now[0] += 5 * len(block.by_arm[0])
    assert budget_s // 5 * 5 == now[0]


def test_it_never_runs_more_pairs_than_were_asked_for() -> None:
    asked = study(6, until_settled=True)
    found = nothing(asked)
    run_all(left_of(asked, found), found)
    assert list(range(6)) == whole_pairs(asked, found.records)


@pytest.mark.parametrize("least_pairs", [0, 5])
def test_no_pair_is_begun_that_would_outlast_the_budget_but_those_without_which_nothing_is_known(
    least_pairs: int,
) -> None:
    asked = study(40)
    found, now = nothing(asked), [0.0]
    budget = Budget(35.0, found.records, lambda: now[0], least_pairs=least_pairs)
    for block in left_of(asked, found, all_of, budget):
        assert all(map(budget.may_begin, zip(*block.by_arm, strict=True)))
        run_all(iter([block]), found)
        now[0] += 10  # one block a pair
    assert list(range(least_pairs or 3)) == whole_pairs(asked, found.records)


def test_a_budget_binds_from_the_first_pair() -> None:
    """Of two blocks the second would begin too late: products of another backend, which have workers of their own."""
    asked = replace(study(40), cases=[gemm(16), replace(gemm(32), backend="torch")])
    found, now = nothing(asked), [0.0]
    budget = Budget(12.0, found.records, lambda: now[0])
    for block in left_of(asked, found, all_of, budget):
        assert all(map(budget.may_begin, zip(*block.by_arm, strict=True)))
        run_all(iter([block]), found)
        now[0] += 10
    assert 2 == len(found.records), "one case in both arms"
    assert 2 == len(budget.left_out)
    assert not {record.case.key() for record in found.records} & {case.key() for case in budget.left_out}


@pytest.mark.parametrize("arms", [[HOST, PODMAN], with_itself([HOST, PODMAN])])
def test_with_one_place_left_there_is_no_further_pair(arms: list[Arm]) -> None:
    asked = replace(study(8), arms=arms)
    found = nothing(asked)
    run_all(left_of(asked, found), found, absent="podman")
    assert [0] == whole_pairs(asked, found.records)


def test_a_place_is_set_beside_itself_where_nothing_else_is_asked_about() -> None:
    asked = replace(study(3), arms=with_itself([HOST]))
    found = nothing(asked)
    run_all(left_of(asked, found), found)
    assert [0, 1, 2] == whole_pairs(asked, found.records)


def test_without_the_baseline_there_is_no_further_pair() -> None:
    asked = study(8, arms=3)
    found = nothing(asked)
    run_all(left_of(asked, found), found, absent=HOST.name)
    assert [0] == whole_pairs(asked, found.records)


def test_without_the_baseline_a_study_is_not_gone_on_with() -> None:
    asked = study(8, arms=3)
    found = nothing(asked)
    for case in one_by_one(plan(asked.arms, asked.cases, range(2), 0)):
        found.add(ended(case))
    run_all(left_of(asked, found), found, absent=HOST.name)
    assert [0, 1, 2] == whole_pairs(asked, found.records)


def test_a_baseline_that_fails_once_ends_nothing() -> None:
    asked = study(3, arms=3)
    found = nothing(asked)
    for case in (case for block in left_of(asked, found) for case in one_by_one([block])):
        found.add(ended(case, None if (case.arm, case.process) == (HOST.name, 1) else 0))
    assert [0, 1, 2] == whole_pairs(asked, found.records)


@pytest.mark.parametrize(
    ("failing", "pairs"),
    [({HOST.name, "podman"}, 2), ({"podman"}, 2), (set(), 5)],
    ids=["both arms fail", "one of two fails", "none fails"],
)
def test_nothing_follows_two_pairs_that_fail_alike(failing: set[str], pairs: int) -> None:
    asked = replace(study(5), arms=[HOST, PODMAN])
    found = nothing(asked)
    for case in (case for block in left_of(asked, found) for case in one_by_one([block])):
        found.add(ended(case, 0, "its operator has no such kernel" if case.arm in failing else None))
    assert [*range(pairs)] == whole_pairs(asked, found.records)


def test_other_failures_each_time_end_nothing() -> None:
    asked = replace(study(4), arms=[HOST, PODMAN])
    found = nothing(asked)
    for case in (case for block in left_of(asked, found) for case in one_by_one([block])):
        is_lucky = case.arm == "podman" and case.process % 2 == 0
        found.add(ended(case, 0, None if is_lucky else "out of memory"))
    assert [0, 1, 2, 3] == whole_pairs(asked, found.records)


def test_the_others_go_on_without_an_arm() -> None:
    asked = study(4, arms=3)
    found = nothing(asked)
    run_all(left_of(asked, found), found, absent="podman")
    assert [0, 1, 2, 3] == whole_pairs(asked, found.records)


@pytest.fixture(scope="module")
def worker() -> Worker:
    """A real one of the host."""
    with Session(arms={"host": HOST}) as session:
        found, _ = session.run([replace(gemm(4), method=Method(dry_run=True), arm="host")])
    assert isinstance(found, Worker)
    return found


def of_torch(worker: Worker, arm: Arm, **versions: str) -> Worker:
    """It as a worker of another arm would be. versions: as torch tells them on a GPU."""
    usual = {"torch": "2.13.0+cu130", "git": "abc", "cuda (torch build)": "13.0", "cudnn": "91900", "nccl": "2.27.7"}
    return replace(worker, arm=arm, backend="torch", device="cuda:0", versions=usual | versions)


def with_host(worker: Worker, asked: Study) -> Results:
    found = nothing(asked)
    found.add(worker)
    found.add(of_torch(worker, HOST))
    return found


IMAGE = Arm(name="podman", runtime="podman", image="mine")
OTHER_BUILDS = [
    (HOST, {"torch": "2.12.1+cu130"}, "torch 2.12.1+cu130, and 2.13.0+cu130 in host when the study was begun: "),
    (PODMAN, {"torch": "2.12.1+cu130"}, "torch 2.12.1+cu130, and 2.13.0+cu130 in host: .*; let both have the same env"),
    (IMAGE, {"torch": "2.12.1+cu130"}, "; build mine on a base without torch: `primbench image` takes"),
    (IMAGE, {"torch": "2.13.0+cpu"}, "torch 2.13.0+cpu, and .*; install torch from the same index in both, or"),
    (IMAGE, {"cuda (torch build)": "12.8"}, "torch for CUDA 12.8, and 13.0 in host: "),
    (IMAGE, {"git": "def"}, "torch of commit def, and abc in host: "),
]


@pytest.mark.parametrize(("arm", "versions", "reason"), OTHER_BUILDS)
def test_a_framework_of_another_build_is_refused(
    worker: Worker, arm: Arm, versions: dict[str, str], reason: str
) -> None:
    asked = study(2)
    with pytest.raises(BackendUnavailable, match=reason.replace("+", r"\+")) as refusal:
        check_build(asked, with_host(worker, asked), of_torch(worker, arm, **versions))
    assert "or measure it all the same by `primbench study --other-builds`" in str(refusal.value)
    other = replace(asked, other_builds=True)
    check_build(other, with_host(worker, other), of_torch(worker, arm, **versions))


def test_other_differences_of_the_stack_are_no_reason_to_refuse(worker: Worker) -> None:
    asked = study(2)
    check_build(asked, with_host(worker, asked), of_torch(worker, PODMAN, cudnn="92000", nccl="2.28.3"))


def test_a_backend_is_compared_with_itself_on_the_same_device(worker: Worker) -> None:
    asked = study(2)
    with_numpy = replace(worker, arm=PODMAN, versions=worker.versions | {"numpy": "1.0"})
    check_build(asked, nothing(asked), with_numpy)
    check_build(asked, with_host(worker, asked), replace(with_numpy, backend="cupy", device="cuda:0"))
    check_build(asked, with_host(worker, asked), replace(of_torch(worker, PODMAN, torch="2.9.0"), device="cpu"))
    with pytest.raises(BackendUnavailable, match=r"^numpy 1\.0, and .* in host: "):
        check_build(asked, with_host(worker, asked), with_numpy)


def estimate(outcome: Any, q: float, metric: str = "wall_s", **fields: Any) -> Estimate:
    primary = metric == "wall_s"
    return Estimate(
        metric=metric,
        primary=primary,
        judges=fields.get("judges", primary),
        pairs=8,
        baseline_s=1.0,
        arm_s=1.0,
        ratio=fields.get("ratio", 1.0),
        margin=0.01,
        q=q,
        outcome=outcome,
    )


def compared(*estimates: Estimate, **fields: Any) -> CaseComparison:
    return decided(CaseComparison(case=gemm(16), estimates=list(estimates), **fields))


ALIKE = estimate("equivalent", 0.9)


def mean(ratio: float) -> Estimate:
    return estimate("inconclusive", 0.9, "wall_mean_s", judges=True, ratio=ratio)


@pytest.mark.parametrize(
    ("cases", "settled"),
    [
        ([], False),
        ([compared()], False),
        ([compared(ALIKE)], True),
        ([compared(estimate("different-but-small", 0.03))], True),
        ([compared(ALIKE), compared(estimate("inconclusive", 0.9))], False),
        ([compared(ALIKE, estimate("inconclusive", 0.9, "stream_s"))], True),
        ([compared(ALIKE, mean(1.05))], True),
        ([compared(ALIKE, mean(1.75))], False),
        ([compared(estimate("slower", 0.03))], False),
        ([compared(estimate("slower", 0.004), estimate("slower", 0.03, "wall_mean_s", judges=True, ratio=4.0))], True),
        ([compared(estimate("slower", 0.004)), compared(estimate("faster", 0.001))], True),
        ([compared(ALIKE, estimate("slower", 0.03, "stream_s"))], False),
        ([compared(ALIKE, fails_more="podman")], True),  # more pairs do not take a failure back
        ([compared(estimate("inconclusive", 0.9), fails_more="podman")], False),
    ],
)
def test_a_difference_settles_only_what_would_be_so_after_many_looks(
    cases: list[CaseComparison], settled: bool
) -> None:
    arm = ArmComparison(name="podman", arm=PODMAN, effect=None, differences={}, cases=cases, mean=None)
    comparison = Comparison(baseline="host", paired=True, arms=[arm])
    assert settled == (not unsettled(comparison, [gemm(16)]))
