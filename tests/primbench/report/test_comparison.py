"""What `primbench compare` prints and exports: verdicts with what stands behind them, and what explains them."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

import pytest
from msgspec.structs import replace

from primbench.compare.comparison import ArmComparison, CaseComparison, Comparison, Differing, Explanation, Mean, Mixed
from primbench.compare.judgement import SINGLE, TOO_BUSY, decided
from primbench.compare.ratio import Estimate, LeftOut, Slowed, Verdict
from primbench.environment import fingerprint
from primbench.environment.difference import Change, difference
from primbench.registry import build
from primbench.report import comparison as report
from primbench.spec.case import Case
from primbench.spec.naming import name_of
from primbench.system.meaning import FactId

from .exports import exports_of, text_of

text = text_of(report.document)


HERE = fingerprint.collect(gpus=False)
to_csv, to_markdown, to_json = exports_of(report.document)


def case(primitive: str = "gemm", **parameters: Any) -> Case:
    sizes = {"gemm": {"m": 64, "n": 32, "k": 16}, "memcpy": {"bytes": 2**26}}[primitive]
    found = build(primitive, sizes | parameters).parameters()
    return Case(primitive=primitive, parameters=found, backend="numpy", device="cpu")


SLOWER = Estimate(
    metric="batch_s", primary=True, judges=True, pairs=8, baseline_s=1e-3, arm_s=1.1e-3, ratio=1.1,
    interval=(1.09, 1.11),
    interval90=(1.092, 1.108), margin=0.01, q=0.001, outcome="slower", minimum_detectable=1.012,
)  # fmt: skip
EQUIVALENT = replace(
    SLOWER,
    ratio=1.0,
    arm_s=1e-3,
    interval=(0.997, 1.003),
    interval90=(0.998, 1.002),
    is_equivalent=True,
    outcome="equivalent",
)
INCONCLUSIVE = replace(
    SLOWER, ratio=1.01, interval=(0.98, 1.04), interval90=(0.985, 1.035), outcome="inconclusive", pairs_needed=21
)
TAIL = replace(SLOWER, metric="wall_p99_s", primary=False, judges=False, margin=0.05)
MEAN = replace(INCONCLUSIVE, metric="batch_mean_s", primary=False)
ABOUT: Verdict = "different-about-the-margin"
EXPLAINED = Explanation(
    parts=["everything on the CPU"],
    evidence=["held back by the CPU quota for 40.0% of its time in podman, 0.0% in host"],
    causes=["in podman alone: the CPU quota grants 0.5 of the 2 CPUs that threads may run on (cpu-quota)"],
    noise=["the CPU was slow beside 20.0% of the samples in podman, 0.0% in host"],
    next_experiment="primbench study --arm host --arm podman:cpus=0.5 --arm podman --primitive gemm",
    about=[FactId("limits", "cpu_quota")],
)  # fmt: skip


def arm(*cases: CaseComparison, **changes: Any) -> ArmComparison:
    fields: dict[str, Any] = {
        "name": "podman", "arm": None, "effect": "container effect", "differences": {}, "mean": None,
        "cases": list(cases),
    }  # fmt: skip
    return ArmComparison(**fields | changes)


def compared(*estimates: Estimate, **changes: Any) -> CaseComparison:
    fields: dict[str, Any] = {"case": case(), "estimates": list(estimates)}
    return decided(CaseComparison(**fields | changes))


def comparison(*cases: CaseComparison, **changes: Any) -> Comparison:
    own = {name: changes.pop(name) for name in ("effect", "differences", "differing", "mean") if name in changes}
    fields: dict[str, Any] = {"baseline": "host", "paired": True, "arms": [arm(*cases, **own)]}
    return Comparison(**fields | changes)


def lines(found: Comparison) -> list[str]:
    """Below the answer."""
    _, _, rest = text(found).partition("\n\n")
    return [" ".join(line.split()) for line in rest.splitlines()]


def test_a_study_that_ended_in_its_first_arm_is_a_sentence() -> None:
    assert "Nothing was compared.\n" == to_markdown(comparison()) == text(comparison())


def test_a_row_has_the_baseline_the_ratio_and_the_verdict() -> None:
    title, columns, row, *_ = lines(comparison(compared(SLOWER)))
    assert "podman against host numpy cpu (8 pairs; ratio of times, with its 95 % interval)" == title
    assert "case metric host podman ratio verdict" == columns
    assert "gemm m=64 n=32 k=16 float32 batch 1.00 ms 1.10 ms 1.100 [1.090, 1.110] > slower" == row


@pytest.mark.parametrize(
    ("estimate", "words"),
    [
        (EQUIVALENT, "equivalent, within 1.0%"),
        (replace(EQUIVALENT, outcome="different-but-small"), "different but small, within 1.0%"),
        (INCONCLUSIVE, "inconclusive: needs about 21 pairs, these find 1.2%"),
        (
            replace(INCONCLUSIVE, interval=(1.002, 1.03), q=0.125),
            "inconclusive: may be chance among all that was compared (q 12.5%), needs about 21 pairs",
        ),
        (replace(INCONCLUSIVE, pairs_needed=201), "inconclusive: needs more than 200 pairs, these find 1.2%"),
        (replace(INCONCLUSIVE, pairs_needed=None), "inconclusive: needs a few pairs more, these find 1.2%"),
        (replace(INCONCLUSIVE, pairs_needed=None, reason="because"), "inconclusive: because, these find 1.2%"),
        (
            replace(
                INCONCLUSIVE,
                interval=None,
                minimum_detectable=None,
                pairs_needed=None,
                reason="a single process tells of no scatter",
            ),
            "1.010 ? inconclusive: a single process tells of no scatter",
        ),
    ],
)
def test_a_verdict_says_what_stands_behind_it(estimate: Estimate, words: str) -> None:
    assert any(line.endswith(f" {words}") for line in lines(comparison(compared(estimate))))


def test_a_case_has_one_verdict_in_the_row_of_the_metric_that_decided() -> None:
    wall = replace(EQUIVALENT, metric="wall_s", primary=False)
    first, second, *rest = lines(comparison(compared(EQUIVALENT, TAIL, wall)))[2:]
    assert first.endswith(" float32 wall p99 1.00 ms 1.10 ms 1.100 [1.090, 1.110] > slower, by wall p99")
    assert "batch 1.00 ms 1.00 ms 1.000 [0.997, 1.003] as long, within 1.0%" == second
    assert not any(line.startswith("wall 1.00") for line in rest)
    first, second, *_ = lines(comparison(compared(SLOWER, TAIL)))[2:]
    assert first.endswith(" float32 batch 1.00 ms 1.10 ms 1.100 [1.090, 1.110] > slower")
    assert "wall p99 1.00 ms 1.10 ms 1.100 [1.090, 1.110] takes longer" == second


@pytest.mark.parametrize(
    ("primary", "mean", "words"),
    [
        (EQUIVALENT, replace(MEAN, outcome="slower", ratio=4.9), "slower, by the mean"),
        (INCONCLUSIVE, replace(MEAN, outcome="slower", ratio=4.9), "slower, by the mean"),
        (replace(SLOWER, outcome="faster"), replace(MEAN, outcome="slower", ratio=4.9), "slower, by the mean"),
        (SLOWER, replace(MEAN, outcome="slower", ratio=4.9), "slower"),
        (EQUIVALENT, replace(MEAN, ratio=4.9), "inconclusive, by the mean: needs about 21 pairs, these find 1.2%"),
        (EQUIVALENT, replace(MEAN, outcome="equivalent"), "equivalent, within 1.0%"),
        (EQUIVALENT, replace(MEAN, outcome=ABOUT), "different, about the margin of 1.0%, by the mean"),
        (replace(SLOWER, outcome=ABOUT), replace(MEAN, outcome="slower"), "slower, by the mean"),
    ],
)
def test_the_verdict_is_the_same_in_every_output(primary: Estimate, mean: Estimate, words: str) -> None:
    found = comparison(compared(primary, mean))
    assert 1 == len(re.findall(f"  [<>=~?] {re.escape(words)}\n", text(found)))
    assert words in to_markdown(found)
    (case,) = json.loads(to_json(found))["arms"][0]["cases"]
    rows = [*csv.DictReader(io.StringIO(to_csv(found)))]
    decided_by = "batch_mean_s" if "by the mean" in words else "batch_s"
    verdict = ABOUT if "about the" in words else words.partition(",")[0]
    expected = (verdict, decided_by)
    assert {expected} == {(each["verdict"], each["decided_by"]) for each in (case, *rows)}


def test_equivalence_at_full_speed_shows_what_was_left_out() -> None:
    slowed = Slowed(baseline=0.123, arm=0.31, may_be_alike=True, are_alike=False)
    left_out = LeftOut(slowed=slowed, ratio=1.08, interval=(0.99, 1.17))
    found = replace(EQUIVALENT, outcome="equivalent-at-full-speed", left_out=left_out)
    assert lines(comparison(compared(found, slowed=slowed)))[2].endswith(
        " equivalent at full speed, within 1.0% (the CPU slow beside 12.3% | 31.0% of samples; with these 1.080 "
        "[0.990, 1.170])"
    )
    (row,) = csv.DictReader(io.StringIO(to_csv(comparison(compared(found, slowed=slowed)))))
    shown = [row[name] for name in ("verdict", "ratio_of_all", "interval_of_all_low", "slowed_arm")]
    assert ["equivalent-at-full-speed", "1.08", "0.99", "0.31"] == shown


def test_a_machine_that_was_too_busy_is_the_first_line() -> None:
    busy = replace(SLOWER, is_too_busy=True, outcome="inconclusive", reason=TOO_BUSY)
    found = comparison(compared(busy, waited=(0.62, 0.5)), compared(EQUIVALENT), compared(busy, waited=(0.7, 0.4)))
    first, *_ = shown = lines(found)
    assert first.startswith(
        "TOO BUSY TO TELL in 2 of 3 cases: something else took the CPUs; host waited for one during "
    )
    assert "host waited for one during 62.0% of its time, podman during 50.0%, in gemm m=64" in first
    assert 2 == len([line for line in shown if line.endswith(" inconclusive: too busy to tell")])


def test_a_side_that_was_not_one_place_is_the_first_line() -> None:
    change = Change(field=FactId("machine", "kernel"), kind="differs", a="6.1", b="6.8")
    first, *_ = lines(comparison(compared(SLOWER), mixed={"podman": [Mixed(change, 3, 8)]}))
    assert first.startswith("NOT ONE PLACE: podman ran with machine.kernel 6.1, in 3 of 8 processes 6.8. ")


@pytest.mark.parametrize(("paired", "more"), [(True, "--pairs 8"), (False, "--processes 8, better still as a study")])
def test_one_process_a_side_is_the_first_line(paired: bool, more: str) -> None:
    single = replace(SLOWER, interval=None, interval90=None, outcome="inconclusive", reason=SINGLE, ratio=1.2)
    far = compared(replace(single, ratio=0.1), case=case(k=17))
    first, *_ = lines(comparison(compared(single), far, compared(SLOWER), paired=paired))
    assert first.startswith("ONE PROCESS A SIDE CANNOT TELL in 2 of 3 cases, ")
    assert "podman took 0.100 times as long as host in gemm m=64 n=32 k=17 float32 on numpy cpu; " in first
    assert more in first


def test_an_arm_that_measured_nothing_is_a_line_below_the_answer() -> None:
    gone, shown = "runc skipped: not installed (8 of 8)", compared(SLOWER)
    empty = arm(*(compared(reason=gone) for _ in range(3)), name="runc")
    dead = arm(compared(reason="crun failed: a (8 of 8)"), compared(reason="crun failed: b (8 of 8)"), name="crun")
    found = comparison(arms=[empty, arm(shown), dead], notes=["the end"])
    for written in (text(found), to_markdown(found)):
        answer, *rest = written.splitlines()
        assert answer.endswith("; runc, crun not compared.")
        assert [
            f"! runc is not compared with host: {gone}",
            "! crun is not compared with host: crun failed: a (8 of 8); crun failed: b (8 of 8)",
            "",
        ] == rest[:3]
        assert "the end" == rest[-1]
        assert (1, 3) == (written.count("against host"), written.count("not compared"))


def test_what_fails_more_often_on_one_side_is_not_equivalent() -> None:
    failed = {"reason": "podman failed: died (3 of 8)", "fails_more": "podman"}
    (row,) = [line for line in lines(comparison(compared(EQUIVALENT, **failed))) if "[0.997" in line]
    assert row.endswith("inconclusive: fails more often in podman (!)")
    (row,) = [line for line in lines(comparison(compared(SLOWER, **failed))) if "[1.090" in line]
    assert row.endswith("slower (!)")


def test_backends_that_differ_stand_in_the_rows() -> None:
    other = compared(SLOWER, case=replace(case(), backend="numba"))
    title, _, first, second, *_ = lines(comparison(compared(SLOWER), other))
    assert "numpy" not in title
    assert ("float32 on numpy cpu batch" in first, "float32 on numba cpu batch" in second) == (True, True)


def test_what_was_not_measured_has_its_reason_below_once() -> None:
    dead = compared(reason="podman failed: died (8 of 8)")
    shown = lines(comparison(dead, dead, compared(SLOWER, reason="podman failed: died (1 of 8)")))
    assert shown[2].endswith(" - - - not compared (!)")
    assert shown[4].endswith(" slower (!)")
    name = name_of(case())
    assert [
        f"! {name} and 1 more: podman failed: died (8 of 8)",
        f"! {name}: podman failed: died (1 of 8)",
        "3 cases: 2 not compared, 1 slower",
    ] == shown[5:8]
    assert not any("effect" in line for line in lines(comparison(dead))), "there is none where nothing was compared"


def test_the_baseline_against_itself_is_the_first_line_and_a_column() -> None:
    quiet = replace(SLOWER, noise=(0.998, 1.002))
    again = arm(compared(EQUIVALENT), name="host (again)")
    first, _, _, columns, row, *_ = lines(comparison(compared(quiet), again=again))
    assert "host against itself: equivalent in all 1 cases; both runs are the baseline." == first
    assert "case metric host podman ratio noise verdict" == columns
    assert row.endswith("1.100 [1.090, 1.110] [0.998, 1.002] > slower")


def test_a_baseline_that_differs_from_itself_is_said_first() -> None:
    again = arm(compared(EQUIVALENT), compared(SLOWER), name="host (again)")
    first = lines(comparison(compared(INCONCLUSIVE), again=again))[0]
    assert first.startswith("NOT VALID in 1 of 2 cases: host differs from itself, by 1.100 [1.090")
    again = arm(compared(EQUIVALENT), compared(INCONCLUSIVE), name="host (again)")
    first = lines(comparison(compared(INCONCLUSIVE), again=again))[0]
    words = "equivalent in 1 of 2 cases and shown to differ in none; both runs are the baseline."
    assert f"host against itself: {words}" == first


def test_a_baseline_that_differs_from_itself_by_less_than_matters_is_valid() -> None:
    small = replace(SLOWER, ratio=1.001, interval=(1.0005, 1.0015), is_equivalent=True)
    again = arm(compared(EQUIVALENT), compared(small), name="host (again)")
    first = lines(comparison(compared(EQUIVALENT), again=again))[0]
    words = "equivalent in all 2 cases; both runs are the baseline (in 1, which differ by less than matters, the first"
    assert f"host against itself: {words} alone)." == first


def test_the_baseline_against_itself_alone_is_a_table() -> None:
    found = comparison(arms=[], again=arm(compared(EQUIVALENT), name="host (again)"))
    assert "host (again) against host" in text(found)
    assert "equivalent, within 1.0%" in text(found)


def test_the_mean_has_its_interval_over_pairs() -> None:
    mean = Mean(ratio=1.0312, interval=(1.02, 1.042), cases=2, pairs=7)
    found = comparison(compared(SLOWER), compared(SLOWER), mean=mean)
    assert "geometric mean of 2 cases: 1.031 [1.020, 1.042], over 7 pairs" in lines(found)
    found = replace(found, paired=False, arms=[replace(found.arms[0], mean=replace(mean, pairs=1))])
    assert "geometric mean of 2 cases: 1.031 [1.020, 1.042], over 1 process a side" in lines(found)


def test_a_mean_that_includes_slow_samples_says_so() -> None:
    mean = Mean(ratio=1.06, interval=(0.9, 1.2), cases=2, pairs=7, of_all_samples=True)
    assert "geometric mean of 2 cases, slow samples included: 1.060 [0.900, 1.200], over 7 pairs" in lines(
        comparison(compared(SLOWER), compared(SLOWER), mean=mean)
    )


@pytest.mark.parametrize(("ratio", "shown"), [(1.05, False), (1.75, True), (0.5, True)])
def test_a_mean_that_is_far_off_and_not_told_is_shown(ratio: float, shown: bool) -> None:
    for primary, is_told in ((EQUIVALENT, True), (INCONCLUSIVE, False)):
        found = text(comparison(compared(primary, replace(MEAN, ratio=ratio))))
        assert (shown and is_told) == (f"  batch mean  1.00 ms  1.10 ms  {ratio:.3f} " in found)


def many(*others: CaseComparison) -> Comparison:
    """Of 80 products, half of them 0.8 % longer, a quarter 5 %, and a quarter 20 to 28 %; and of others."""
    single = replace(
        SLOWER, interval=None, interval90=None, minimum_detectable=None, outcome="inconclusive", reason=SINGLE
    )
    ratios = [1.008 if k % 2 else 1.05 if k % 4 else 1.2 + k / 1000 for k in range(1, 81)]
    cases = [compared(replace(single, ratio=ratio), case=case(k=k)) for k, ratio in enumerate(ratios, 1)]
    return comparison(*cases, *others)


def test_many_cases_are_summed_up_by_primitive_and_those_that_differ_most_shown() -> None:
    found = many(compared(EQUIVALENT, case=case("memcpy")), compared(case=case(k=99), reason="podman failed: died"))
    shown = lines(found)[2:]
    assert shown[0].endswith("cases by how far the ratio of their times is from 1)")
    mean = math.exp(
        (40 * math.log(1.008) + 20 * math.log(1.05) + sum(math.log(1.2 + k / 1000) for k in range(4, 81, 4))) / 80
    )
    assert [
        "primitive cases within 1% within 3% within 10% geometric mean verdicts",
        f"gemm 81 40 40 60 {mean:.3f} 80 inconclusive, 1 not compared",
        "memcpy 1 1 1 1 1.000 1 equivalent",
        f"all 82 41 41 61 {mean ** (80 / 81):.3f} 80 inconclusive, 1 equivalent, 1 not compared",
        "",
        "the 10 that differ most",
        "case metric host podman ratio verdict",
    ] == shown[1:8]
    assert [f"{1.2 + k / 1000:.3f} ? inconclusive" for k in range(80, 43, -4)] == [
        line.partition(" ms ")[2].partition(" ms ")[2] for line in shown[8:18]
    ]
    assert "inconclusive in 80 cases: a single process tells of no scatter" in shown
    assert 1 == " ".join(shown).count(SINGLE)


def test_every_row_is_shown_where_that_is_asked_for() -> None:
    found = many()
    shown = text(found, every_row=True)
    assert (80, 1) == (shown.count("  ? inconclusive\n"), shown.count(SINGLE))
    assert shown.splitlines()[2].endswith("ratio of times, with its 95 % interval)")
    assert 80 == len([*csv.DictReader(io.StringIO(to_csv(found)))])
    few = replace(found, arms=[replace(found.arms[0], cases=found.arms[0].cases[:60])])
    assert text(few) == text(few, every_row=True)
    assert 60 == text(few).count(f"inconclusive: {SINGLE}")


def test_effects_are_called_what_they_are() -> None:
    assert "a difference is a container effect: the libraries are of the same builds" in lines(
        comparison(compared(SLOWER))
    )
    assert any("of an unknown kind" in line for line in lines(comparison(compared(SLOWER), effect=None)))
    one, other = (
        replace(HERE, software=replace(HERE.software, packages={"numpy": numpy, **dict.fromkeys("abcdefghi", numpy)}))
        for numpy in ("2.0", "1.0")
    )
    found = comparison(compared(SLOWER), effect="stack effect", differences={"numpy cpu": difference(one, other)})
    assert not any("the machines differ" in line for line in lines(found))
    other = replace(other, machine=replace(other.machine, cpu_model="another"))
    found = comparison(compared(SLOWER), effect="stack effect", differences={"numpy cpu": difference(one, other)})
    assert f"the machines differ, too; host | podman: machine.cpu_model {HERE.machine.cpu_model} | another" in lines(
        found
    )
    of_machines = lines(replace(found, arms=[replace(arm, effect="machine effect") for arm in found.arms]))
    assert any(line.startswith("a difference is a machine effect, none of the place alone; ") for line in of_machines)
    assert any(line.startswith("the libraries differ, too; host | podman: software.packages.a") for line in of_machines)
    alike = lines(comparison(compared(SLOWER), effect="machine effect", differences={}))
    assert any(line.endswith("host | podman: two that are alike in all that is recorded") for line in alike)
    (line,) = [line for line in lines(found) if "stack effect" in line]
    assert "a difference is a stack effect, none of the place alone; host | podman:" in line
    assert "software.packages.a 2.0 | 1.0" in line
    assert line.endswith("; and 2 more")


def test_whatever_differs_is_told_once() -> None:
    found = comparison(
        compared(replace(SLOWER, outcome="slower"), explanation=EXPLAINED),
        differing=[
            Differing(words="how it is told", about=FactId("limits", "cpu_quota"), layer="limits", is_known=True),
            Differing(
                words="memory_limit_bytes is none in host and 1 GiB in podman",
                about=FactId("limits", "memory_limit_bytes"),
                layer="limits",
                is_known=True,
            ),
            Differing(
                words="cpu_model is a in host and b in podman",
                about=FactId("machine", "cpu_model"),
                layer="machine",
                is_known=True,
            ),
            *(Differing(words=f"thing {number}", about=FactId("arm", f"thing{number}")) for number in range(9)),
        ],
        effect="machine effect",
    )
    assert [
        "differs: memory_limit_bytes is none in host and 1 GiB in podman",
        f"differs, effect unknown: {'; '.join(f'thing {number}' for number in range(8))}; and 1 more",
    ] == lines(found)[-2:]


def test_an_explanation_has_numbers_causes_noise_and_the_next_command() -> None:
    shown = lines(comparison(compared(SLOWER, explanation=EXPLAINED)))
    assert [
        f"gemm m=64 n=32 k=16 float32 on numpy cpu: everything on the CPU moved: {EXPLAINED.evidence[0]}",
        f"can cause it: {EXPLAINED.causes[0]}",
        f"or what others on the machine did to gemm m=64 n=32 k=16 float32 on numpy cpu: {EXPLAINED.noise[0]}",
        f"next: {EXPLAINED.next_experiment}",
    ] == shown[-4:]


def test_the_worst_case_is_explained_first_and_says_what_is_next() -> None:
    def of(ratio: float, estimate: Estimate, words: str) -> CaseComparison:
        explanation = replace(EXPLAINED, evidence=[words], next_experiment=f"study of the {words}")
        return compared(replace(estimate, ratio=ratio), explanation=explanation)

    faster = replace(SLOWER, outcome="faster")
    cases = [
        of(0.41, faster, "faster"),
        of(1.0, EQUIVALENT, "waiting"),
        of(1.1, SLOWER, "bad"),
        of(4.9, SLOWER, "worst"),
    ]
    shown = lines(comparison(*cases))
    explained = [line.rpartition(" ")[2] for line in shown if line.startswith("gemm") and " moved" in line]
    assert (["worst", "bad", "faster", "waiting"], "next: study of the worst") == (explained, shown[-1])


def test_waiting_without_a_verdict_is_said() -> None:
    waited = replace(EXPLAINED, parts=[])
    assert any(
        line.endswith(f"on numpy cpu: no difference is certain: {EXPLAINED.evidence[0]}")
        for line in lines(comparison(compared(EQUIVALENT, explanation=waited)))
    )


def test_no_known_cause_is_said() -> None:
    bare = replace(EXPLAINED, evidence=[], causes=[], noise=[], next_experiment=None)
    shown = lines(comparison(*[compared(SLOWER, explanation=bare)] * 7))
    assert ["and 2 more cases: --json has all", "no known cause in what differs between the places"] == shown[-2:]


def test_names_have_sizes_and_what_is_unusual() -> None:
    assert "gemm m=64 n=32 k=16 float32 trans_a=True on numpy cpu" == name_of(case(trans_a=True))
    assert "memcpy 64MiB h2h pageable on numpy cpu" == name_of(case("memcpy", direction="h2h"))


def test_two_files_are_called_unpaired_and_notes_follow() -> None:
    shown = lines(comparison(compared(SLOWER), paired=False, notes=["two files are unpaired"]))
    assert "unpaired, processes a side: at least 8" in shown[0]
    assert "two files are unpaired" == shown[-1]


def test_csv_has_every_estimate_in_seconds() -> None:
    again = arm(compared(EQUIVALENT), name="host (again)")
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison(compared(SLOWER, TAIL), again=again)))))
    assert [("podman", "batch_s"), ("podman", "wall_p99_s"), ("host (again)", "batch_s")] == [
        (row["arm"], row["metric"]) for row in rows
    ]
    assert ("0.001", "1.1", "1.09", "1.11", "slower", "64", "") == tuple(
        rows[0][name] for name in ("baseline_s", "ratio", "interval_low", "interval_high", "verdict", "m", "noise_low")
    )


def test_json_and_markdown() -> None:
    found = comparison(compared(SLOWER))
    document = json.loads(to_json(found))
    assert [1.09, 1.11] == document["arms"][0]["cases"][0]["estimates"][0]["interval"]
    assert "| verdict" in to_markdown(found)
    assert "slower" in to_markdown(found)
