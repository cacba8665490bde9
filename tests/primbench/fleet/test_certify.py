"""Certificates: one measured here, and made-up fleets of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench.cli import certifying
from primbench.fleet.member import Gpus
from primbench.fleet.soak import drift
from primbench.measurement.readings import GpuProcess, GpuReading, HostReading, NeighbourProcess
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Line
from primbench.spec.fleet import Member

from .test_fleet import as_node, longer, with_limits, with_output

SHORT = """
launch = [{ call = "getppid", device = "cpu", set = "host" }]
files = [{ bytes = 65_536, what = "read", device = "cpu", set = "host" }]
gemm = [
  { m = 64, n = 64, k = 64, device = "cpu", set = "cpu" },
  { m = 64, n = 64, k = 64, device = "cpu", set = "soak" },
]
"""
HEALTHY = " ".join(["float32[100]", *"0123456789abcdef"])
Change = Callable[[Results], Results]


@pytest.fixture(scope="session")
def certified(invoke: Callable[..., Result], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """What was measured here by a short suite, and what was printed."""
    folder = tmp_path_factory.mktemp("certified")
    (folder / "short.toml").write_text(SHORT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifying, "SUITE", str(folder / "short.toml"))
        patch.setattr(certifying, "ROUND_S", 0.02)
        asked = ("--data", folder, "--for", "30s", "--report", folder / "page.html", "--json", folder / "all.json")
        patch.setattr(certifying, "MOST_ROUNDS", 2)
        return folder, invoke("certify", folder / "fleet", *asked)


@pytest.fixture
def made(certified: tuple[Path, Result], tmp_path: Path) -> Callable[..., Path]:
    """``made(changes, slow)``: the same of eight nodes, what else becomes of some, and what takes them longer."""
    results = results_file.read(next((certified[0] / "fleet/host").iterdir()))

    def make(
        changes: Mapping[str, Change] = MappingProxyType({}),
        slow: Mapping[tuple[str, str], float] = MappingProxyType({}),
        name: str = "fleet",
    ) -> Path:
        dice = random.Random(name)
        (tmp_path / name / "host").mkdir(parents=True)
        for rank in range(8):
            node = f"n{rank + 1}"
            member = Member(node=node, rank=rank, of=8, launcher="srun", job="7.0", nodes="n[1-8]")
            changed = as_node(with_output(HEALTHY)(results), member, changes.get(node))
            lines = [results_file.encode(changed.header).decode()]
            lines += [results_file.encode(each).decode() for each in changed.workers]
            lines += [
                longer(text, dice.lognormvariate(0, 0.005) * slow.get((node, each.case.primitive), 1.0)) + "\n"
                for each in changed.records
                for text in [results_file.encode(each).decode()]
            ]
            (tmp_path / name / "host" / f"{node}.jsonl").write_text("".join(lines))
        return tmp_path / name

    return make


def judged(invoke: Callable[..., Result], folder: Path, *more: object) -> tuple[dict[str, set[str]], Any]:
    """Member -> why it is not fit."""
    result = invoke("certify", folder, "--read", "--json", "-", *more)
    told = json.loads(result.stdout)
    wrong = {each["member"]: {one["why"] for one in each["reasons"]} for each in told["members"] if each["reasons"]}
    assert bool(wrong) == bool(result.exit_code)
    return wrong, told


def test_a_node_is_measured_and_its_page_is_written(certified: tuple[Path, Result]) -> None:
    folder, result = certified
    told = json.loads((folder / "all.json").read_text())
    assert ["host"] == [*told["parts"]]
    assert 2 == told["soaked"][0]["rounds"]
    cases = [each["case"]["primitive"] for each in told["parts"]["host"]["cases"]]
    assert {"launch", "files", "gemm"} == {*cases}
    assert result.stdout.startswith(("Fit: ", "Not fit: "))
    assert not told["are_times_judged"]
    assert ("but for speed" in result.stdout) == told["is_fit"], "one node by itself is set beside nothing"
    assert "Signed: " in (folder / "page.html").read_text()


def test_a_quota_a_slow_disk_and_a_flipped_bit_are_found_each_and_named(
    invoke: Callable[..., Result], made: Callable[..., Path]
) -> None:
    held = with_limits(cpu_quota=0.5, cpu_period_s=0.1, periods=100, throttled_periods=90, throttled_s=4.0)
    changes = {"n2": held, "n7": with_output(HEALTHY.replace("7", "8"))}
    wrong, told = judged(invoke, made(changes, {("n2", "launch"): 1.4, ("n5", "files"): 3.0, ("n7", "gemm"): 2.0}))
    here = wrong.get("n1", set())  # what doctor calls a problem of this machine, all of them have
    assert {"n2", "n5", "n7"} == {name for name, why in wrong.items() if why - here}
    assert ({"slow", "place"} <= wrong["n2"], "slow" in wrong["n5"]) == (True, True)
    assert {"slow", "output"} <= wrong["n7"]
    words = {each["member"]: " ".join(one["words"] for one in each["reasons"]) for each in told["members"]}
    assert ("quota" in words["n2"], "files" in words["n5"], "gemm" in words["n7"]) == (True, True, True)


def test_a_node_is_set_beside_a_population(
    invoke: Callable[..., Result], made: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not invoke("certify", made(name="before"), "--read", "--save-as", "healthy").stderr
    one = made(slow={("n1", "launch"): 1.3}, name="now") / "host"
    for number in range(2, 9):
        (one / f"n{number}.jsonl").unlink()
    text = results_file.read(one / "n1.jsonl")
    alone = replace(text, header=replace(text.header, member=Member(node="n1", rank=0, of=1)))
    lines: list[Line] = [alone.header, *alone.workers, *alone.records]
    (one / "n1.jsonl").write_bytes(b"".join(map(results_file.encode, lines)))
    wrong, told = judged(invoke, one.parent, "--against", "healthy")
    assert "slow" in wrong["n1"]
    slow = [each for each in told["placed"] if each["is_slow"]]
    assert {("launch", 1.0, 8)} == {(each["case"]["primitive"], each["percentile"], each["members"]) for each in slow}
    assert "there is healthy" in invoke("certify", one.parent, "--read", "--against", tmp_path / "absent").stderr
    with (one / "n1.jsonl").open("ab") as file:
        file.write(b'{"kind":')
    soak = one.parent / "soak"
    soak.mkdir()
    (soak / "n2.jsonl").touch()
    (soak / "n3.jsonl").write_text((one / "n1.jsonl").read_text().replace('"started_utc":"2', '"started_utc":"x'))
    died, _ = judged(invoke, one.parent)
    assert "unmeasured" in died["n1"]
    assert [{"missing"}] * 2 == [died["n2.jsonl"], died["n3.jsonl"]]
    refused = invoke("certify", one.parent, "--read", "--save-as", "../healthy")
    assert (2, "") == (refused.exit_code, refused.stdout), "said before minutes of measuring"


def test_who_else_holds_a_gpu_makes_it_unfit(invoke: Callable[..., Result], made: Callable[..., Path]) -> None:
    """No GPU is here: readings are made up."""

    def with_neighbour(results: Results) -> Results:
        reading = GpuReading(foreign_processes=[GpuProcess(pid=2**22 + 1)], ecc_errors_uncorrected=1)
        records = [
            replace(each, measurement=each.measurement and replace(each.measurement, gpu=reading))
            for each in results.records
        ]
        return replace(results, records=records)

    wrong, _ = judged(invoke, made({"n4": with_neighbour}))
    assert {"neighbour", "memory errors"} == wrong["n4"] - wrong.get("n1", set())


def test_who_keeps_its_cpus_busy_makes_a_node_unfit_and_is_named(
    invoke: Callable[..., Result], made: Callable[..., Path]
) -> None:
    def beside(others_s: float, *others: str) -> Change:
        named = [NeighbourProcess(pid=7 + number, name=each, cpu_time_s=1.0) for number, each in enumerate(others)]
        reading = HostReading(
            duration_s=1.0, cpu_time_s=1.0, voluntary_switches=0, involuntary_switches=0, cpus=2, others_s=others_s,
            stolen_s=0.0, others=named,
        )  # fmt: skip
        return lambda results: replace(
            results,
            records=[
                replace(each, measurement=each.measurement and replace(each.measurement, host=reading))
                for each in results.records
            ],
        )

    quiet = {f"n{number}": beside(0.05) for number in range(1, 9)}
    wrong, told = judged(invoke, made(quiet | {"n4": beside(1.5, "71 (stress)", "72 (stress)")}))
    assert ["n4"] == [name for name, why in wrong.items() if "busy CPUs" in why]
    (reason,) = [one for each in told["members"] for one in each["reasons"] if one["why"] == "busy CPUs"]
    assert "had 75.0% or more" in reason["words"]
    assert reason["words"].endswith("71 (stress), 72 (stress)")


def test_each_gpu_is_a_member_and_meets_each_other_one_once(tmp_path: Path) -> None:
    own = Member(node="n", rank=2, of=3)
    steps = certifying.shares(tmp_path, own, Gpus((0, 1, 2, 3), 4), None, 60.0)
    names = [sorted(each.member.name for each in at_once) for _, at_once in steps]
    assert [["n"], *([f"n:gpu{number}"] for number in range(4)), [f"n:gpu{number}" for number in range(4)]] == names[:6]
    pairs = [pair for each in names[6:9] for pair in each]
    assert (6, 2) == (len({*pairs}), len(names[6]))
    assert [f"n:gpu{number}" for number in range(4)] == names[9]
    alone = certifying.shares(tmp_path, Member(node="n", rank=0, of=1), Gpus((0,), 1), None, None)
    assert ["n", "n:gpu0"] == [each.member.name for _, at_once in alone for each in at_once], "it is alone anyway"


def test_a_gpu_that_cannot_be_measured_is_not_fit(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This machine may have no GPU: two that there are not, each alone, both at once, and between them."""
    entries = [f'{{ call = "kernel", device = "cuda", set = "{name}" }}' for name in ("gpu", "link")]
    host = '[{ bytes = 65_536, what = "read", device = "cpu", set = "host" }]'
    (tmp_path / "short.toml").write_text(f"launch = [{', '.join(entries)}]\nfiles = {host}\n")
    monkeypatch.setattr(certifying, "SUITE", str(tmp_path / "short.toml"))
    monkeypatch.setattr(certifying, "visible_gpus", lambda: Gpus((97, 98), 99))
    result = invoke("certify", tmp_path / "fleet", "--json", tmp_path / "all.json")
    members = {each["member"]: each["reasons"] for each in json.loads((tmp_path / "all.json").read_text())["members"]}
    wrong = {name: {each["why"] for each in reasons} for name, reasons in members.items()}
    node = min(wrong, key=len)
    gpus = [f"{node}:gpu97", f"{node}:gpu98", f"{node}:gpu97+gpu98"]
    assert (1, [{"unmeasured"}] * 3) == (result.exit_code, [wrong[each] for each in gpus])


def test_a_drift_is_told_with_its_interval() -> None:
    dice = random.Random(0)
    steady = [(10.0 * number, dice.lognormvariate(0, 0.002)) for number in range(30)]
    hot = [(at, time_s * (1 + 0.1 * at / 290)) for at, time_s in steady]
    assert not drift("n", steady, 0.02).wrong
    found = drift("n", hot, 0.02)
    assert found.slope == pytest.approx(0.1, abs=0.01)
    assert found.wrong
    assert drift("n", hot[:3], 0.02).interval is None
