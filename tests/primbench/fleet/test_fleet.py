"""Made-up fleets: the records of one node, measured here, with other names and other times."""

from __future__ import annotations

import gzip
import itertools
import json
import lzma
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import Result
from msgspec.structs import replace

from primbench import __version__
from primbench.measurement import Measurement, Samples
from primbench.measurement.outputs import Output
from primbench.results import file as results_file
from primbench.results.file import Results
from primbench.results.record import Line
from primbench.spec.fleet import Member

Measured = tuple[Path, Result]
MadeFleet = Callable[..., Path]


def longer(text: str, times: float) -> str:
    """A line of a results file with all samples so many times as long."""
    line = json.loads(text)
    for value in (line.get("measurement") or {}).values():
        if isinstance(value, dict) and "samples_s" in value:
            value["samples_s"] = [each * times for each in value["samples_s"]]
    return json.dumps(line)


def as_node(results: Results, member: Member, change: Callable[[Results], Results] | None) -> Results:
    made = replace(results, header=replace(results.header, member=member))
    return change(made) if change else made


@pytest.fixture
def made_fleet(measured: Measured, tmp_path: Path) -> MadeFleet:
    """``made_fleet(times)``: a folder with a file a node, n1 and so on, whose times are so many times those measured.

    changes: node -> what else becomes of its results. seed: of half a percent of scatter, another for another fleet.
    """
    results = results_file.read(measured[0])

    def make(
        times: list[float],
        changes: Mapping[str, Callable[[Results], Results]] = MappingProxyType({}),
        seed: int = 0,
        of: int | None = None,
    ) -> Path:
        folder = tmp_path / f"fleet-{seed}"
        folder.mkdir()
        dice = random.Random(seed)
        for rank, each in enumerate(times):
            node = f"n{rank + 1}"
            count = of or len(times)
            member = Member(node=node, rank=rank, of=count, launcher="srun", job="7.0", nodes=f"n[1-{count}]")
            made = as_node(results, member, changes.get(node))
            scattered = each * dice.lognormvariate(0, 0.005)
            first = results_file.encode(made.header).decode()
            rest = [results_file.encode(line).decode() for line in made.workers]
            rest += [results_file.encode(line).decode() for line in made.records]
            text = first + "".join(f"{longer(line, scattered)}\n" for line in rest)
            (folder / f"{node}-{rank}.jsonl").write_text(text)
        return folder

    return make


def with_limits(**limits: Any) -> Callable[[Results], Results]:
    """What its workers saw, with other limits."""

    def change(results: Results) -> Results:
        workers = [
            replace(each, environment=replace(each.environment, limits=replace(each.environment.limits, **limits)))
            for each in results.workers
        ]
        return replace(results, workers=workers)

    return change


def found(invoke: Callable[..., Result], *arguments: object) -> tuple[dict[str, Any], int]:
    result = invoke("fleet", *arguments, "--json", "-")
    return json.loads(result.stdout), result.exit_code


def test_nothing_stands_out_in_a_healthy_fleet(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    result = invoke("fleet", made_fleet([1.0] * 8))
    assert (0, "Nothing stands out among 8 nodes.") == (result.exit_code, result.stdout.splitlines()[0])
    assert "> " not in result.stdout


def test_cases_that_scatter_too_much_are_counted(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    """Of three nodes none can stand out in what takes each of them ten times as long as the one before."""

    def scattered(times: float) -> Callable[[Results], Results]:
        def change(results: Results) -> Results:
            samples = Samples(samples_s=[1e-3 * times] * 9, calls_per_sample=9, taken_by="host clock", stopped="count")
            first, *others = results.records
            return replace(results, records=[replace(first, measurement=Measurement(batch_s=samples)), *others])

        return change

    result = invoke("fleet", made_fleet([1.0] * 3, {f"n{rank + 1}": scattered(10.0**rank) for rank in range(3)}))
    answer = "Nothing stands out among 3 nodes; too few for the scatter of 1 of 2 cases."
    assert (0, answer) == (result.exit_code, result.stdout.splitlines()[0])


def between_nodes(fleet: Path, links: Path, nodes: int) -> None:
    """What was made as nodes becomes what was measured between the nodes of a fleet, pair by pair."""
    (fleet / "links").mkdir()
    ends = itertools.combinations(range(1, nodes + 1), 2)
    for (one, other), path in zip(ends, sorted(links.iterdir(), key=lambda path: path.stat().st_mtime_ns), strict=True):
        found = results_file.read(path)
        member = Member(node=f"n{one}", peer=f"n{other}", rank=one, of=nodes * (nodes - 1) // 2, job="7.0")
        lines: list[Line] = [replace(found.header, member=member), *found.workers, *found.records]
        (fleet / f"links/{one}-{other}.jsonl").write_bytes(b"".join(map(results_file.encode, lines)))


def test_a_slow_link_is_named_by_both_of_its_nodes(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    fleet = made_fleet([1.0] * 4)
    between_nodes(fleet, made_fleet([1, 1, 1, 1, 9, 1], seed=1), 4)
    told, code = found(invoke, fleet)
    assert (1, [], ["n2+n4"]) == (code, told["unhealthy"], [each["node"] for each in told["links"]["unhealthy"]])
    text = invoke("fleet", fleet).stdout
    assert "Nothing stands out among 4 nodes. 6 links: slower: n2+n4, " in text.splitlines()[0]
    assert "every link of" not in text
    (fleet / "links/1-2.jsonl").unlink()
    assert "; missing: 1 that nothing names." in invoke("fleet", fleet).stdout.splitlines()[0]


def test_files_of_nodes_and_links_count_where_they_are_compressed(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    fleet = made_fleet([1.0] * 4)
    between_nodes(fleet, made_fleet([1.0] * 6, seed=1), 4)
    for number, path in enumerate([*fleet.glob("*.jsonl"), *fleet.glob("links/*.jsonl")]):
        module, suffix = ((gzip, ".gz"), (lzma, ".xz"))[number % 2]
        Path(f"{path}{suffix}").write_bytes(module.compress(path.read_bytes()))
        path.unlink()
    told = invoke("fleet", fleet).stdout.splitlines()[0]
    assert "Nothing stands out among 4 nodes. Nothing stands out among 6 links." == told


def test_a_node_whose_links_are_all_slow_is_named(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    fleet = made_fleet([1.0] * 7)
    pairs = list(itertools.combinations(range(7), 2))
    of_two = {number for number, pair in enumerate(pairs) if 2 in pair}
    between_nodes(fleet, made_fleet([9 if number in of_two else 1 for number in range(21)], seed=1), 7)
    assert "every link of n3 is slow: rather its own adapter" in invoke("fleet", fleet).stdout


def test_a_value_may_be_any_word(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    fleet, _ = found(invoke, made_fleet([1, 1, 1.4, 1, 1, 1], {"n3": with_limits(scheduling="unknown")}))
    (node,) = fleet["unhealthy"]
    assert ("limits.scheduling", "unknown") in [(each["field"], each["value"]) for each in node["unlike"]]


def test_a_slow_node_is_named_with_what_is_different_there(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    folder = made_fleet([1, 1, 1.4, 1, 1, 1], {"n3": with_limits(cpu_quota=0.5, cpu_period_s=0.1)})
    fleet, code = found(invoke, folder)
    assert 1 == code
    (node,) = fleet["unhealthy"]
    assert "n3" == node["node"]
    assert {0, 1} == {each["case"] for each in node["outlying"]}
    assert all(1.3 < each["ratio"] < 1.5 for each in node["outlying"])
    assert ("limits.cpu_quota", 0.5, None, 5) in [
        (each["field"], each["value"], each["usual"], each["nodes"]) for each in node["unlike"]
    ]
    assert "other CPUs" in node["likely"] or "quota" in node["likely"], node
    text = invoke("fleet", folder).stdout
    assert text.startswith("6 nodes: slower: n3, 1.")
    both = made_fleet([1, 1, 1.4, 1, 1.6, 1, 1, 1], seed=1)
    assert invoke("fleet", both).stdout.startswith("8 nodes: slower: n5, n3: n5 1.")
    assert "\nn3: can cause it: " in text
    assert "not alike: limits.cpu_quota none on most nodes, 0.5 on n3" in text


def test_machines_of_one_name_are_told_apart_and_so_is_what_they_were_measured_by(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    """n3 calls itself n2, as where all are called localhost, and has an earlier primbench."""

    def other(results: Results) -> Results:
        header = results.header
        assert header.member is not None
        machine = replace(header.environment.machine, boot_id="another")
        there = replace(header.environment, machine=machine)
        workers = [
            replace(each, environment=replace(each.environment, primbench_version="0.0.9")) for each in results.workers
        ]
        named = replace(header, member=replace(header.member, node="n2", nodes=""), environment=there)
        return replace(results, header=named, workers=workers)

    folder = made_fleet([1.0] * 5, {"n3": other})
    fleet, _ = found(invoke, folder)
    assert (["n1", "n2-1", "n2-2", "n4", "n5"], []) == (fleet["nodes"], fleet["notes"])
    assert f"not alike: primbench_version {__version__} on most nodes, 0.0.9 on n2-2" in invoke("fleet", folder).stdout


def with_cpu(model: str) -> Callable[[Results], Results]:
    """Another model of CPU, as header and workers have it."""

    def change(results: Results) -> Results:
        here = results.header.environment
        there = replace(here, machine=replace(here.machine, cpu_model=model))
        workers = [replace(each, environment=there) for each in results.workers]
        return replace(results, header=replace(results.header, environment=there), workers=workers)

    return change


def test_nodes_of_two_kinds_are_judged_each_among_their_own(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    """Half of the nodes have a CPU that is twice as fast; a node that is 12 % slow for its kind is one of these."""
    kinds = {f"n{number}": with_cpu("Quick CPU") for number in range(9, 17)}
    folder = made_fleet([2.0] * 8 + [1.0] * 7 + [1.12], kinds)
    fleet, code = found(invoke, folder)
    assert (1, ["n16"]) == (code, [each["node"] for each in fleet["unhealthy"]])
    (slow,) = fleet["unhealthy"]
    quick = next(each["name"] for each in fleet["kinds"] if each["cpu"] == "Quick CPU")
    assert {quick} == {each["kind"] for each in slow["outlying"]}
    assert all(1.09 < each["ratio"] < 1.15 for each in slow["outlying"])
    assert [(8, True), (8, True)] == [(len(each["nodes"]), each["is_enough"]) for each in fleet["kinds"]]
    assert {"A", "B"} == {each["kind"] for case in fleet["cases"] for each in case["metrics"]}
    text = invoke("fleet", folder).stdout
    assert "16 nodes: slower: n16, 1.1" in text
    assert f"times as long as kind {quick} in " in text
    assert f"\nkind {quick}: Quick CPU: 8 nodes (n10, n11, n12, n13 and 4 more), judged among themselves" in text
    assert "not alike: machine.cpu_model " in text, "no value is that of most"
    assert " on 8 of 16 nodes, " in text


def with_driver(version: str) -> Callable[[Results], Results]:
    def change(results: Results) -> Results:
        here = results.header.environment
        there = replace(here, devices=replace(here.devices, driver_version=version))
        return replace(results, header=replace(results.header, environment=there))

    return change


def test_half_of_a_fleet_with_another_driver_is_a_kind_and_the_slow_one_of_each_is_found(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    drivers = {f"n{number}": with_driver("580.1" if number > 8 else "570.2") for number in range(1, 17)}
    folder = made_fleet([1.0] * 7 + [1.2] + [1.1] * 7 + [1.32], drivers)
    fleet, code = found(invoke, folder)
    assert (1, {"n8", "n16"}) == (code, {each["node"] for each in fleet["unhealthy"]})
    text = invoke("fleet", folder).stdout
    assert re.search(
        r"\nkind B: .*driver 580\.1: 8 nodes .*, judged among themselves; 1\.\d+ times as long as kind A", text
    )
    before = made_fleet([1.0] * 8 + [1.3] * 7 + [1.0], drivers, seed=1)
    changes = found(invoke, folder, "--against", before)[0]["against"]["changes"]
    assert {("A", "n8"), ("B", "n16")} == {(each["kind"], node) for each in changes for node in each["changed"]}


def test_a_kind_with_too_few_nodes_says_so_and_stays_beside_all(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    folder = made_fleet([1.0] * 8 + [1.0, 1.5], {f"n{number}": with_cpu("Other CPU") for number in (9, 10)})
    fleet, code = found(invoke, folder)
    assert (1, ["n10"]) == (code, [each["node"] for each in fleet["unhealthy"]])
    assert [(8, True), (2, False)] == [(len(each["nodes"]), each["is_enough"]) for each in fleet["kinds"]]
    text = invoke("fleet", folder).stdout
    assert "kind B: Other CPU: 2 nodes (n10, n9), fewer than 3, so beside all nodes" in text
    healthy = made_fleet([1.0] * 10, {f"n{number}": with_cpu("Other CPU") for number in (9, 10)}, seed=1)
    assert invoke("fleet", healthy).stdout.startswith("Nothing stands out among 10 nodes of 2 kinds.")


def test_what_is_written_alike_is_told_of_no_node(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    """Kernels keep a little more or less of the memory for themselves; an older file may have no list for none."""
    changes = {f"n{rank}": with_limits(shm_bytes=2**38 + rank * 2**20, io_limits=[]) for rank in range(1, 6)}
    changes["n5"] = with_limits(shm_bytes=2**38 + 5 * 2**20, io_limits=None)
    fleet, _ = found(invoke, made_fleet([1, 1, 1, 1, 1.6], changes))
    assert [] == fleet["varied"]
    (node,) = fleet["unhealthy"]
    assert ("n5", []) == (node["node"], node["unlike"])
    later = {name: with_limits(shm_bytes=2**38, io_limits=[]) for name in changes}
    since, _ = found(invoke, made_fleet([1.0] * 5, later, seed=1), "--against", made_fleet([1.0] * 5, changes, seed=2))
    assert [] == since["against"]["altered"]


def test_a_difference_below_the_margin_is_none(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    _, code = found(invoke, made_fleet([1, 1, 1, 1, 1, 1, 1, 1.005]))
    assert 0 == code


def test_the_mean_of_a_single_sample_is_no_second_test(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    def once(results: Results) -> Results:
        samples = Samples(samples_s=[1.0], calls_per_sample=1, taken_by="host clock", stopped="count")
        measured = [replace(each, measurement=Measurement(batch_s=samples)) for each in results.records]
        return replace(results, records=[each for each in measured if each.status == "ok"])

    fleet, _ = found(invoke, made_fleet([1.0] * 8, {f"n{number}": once for number in range(1, 9)}))
    assert {"batch_s"} == {each["metric"] for case in fleet["cases"] for each in case["metrics"]}


def test_noise_of_a_nodes_own_samples_makes_it_no_outlier(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    """Every other sample of one node is three times as long: its median is anywhere in between."""

    def with_samples(times: list[float]) -> Callable[[Results], Results]:
        def change(results: Results) -> Results:
            samples = Samples(samples_s=times, calls_per_sample=1, taken_by="host clock", stopped="count")
            records = [replace(each, measurement=Measurement(batch_s=samples)) for each in results.records]
            return replace(results, records=[each for each in records if each.status == "ok"])

        return change

    nodes = {f"n{number}": with_samples([1.0] * 30) for number in range(1, 9)}
    fleet, code = found(invoke, made_fleet([1.0] * 8, nodes | {"n2": with_samples([1.0, 3.0] * 15)}, seed=1))
    assert {"n2"} == {each["slowest"] for case in fleet["cases"] for each in case["metrics"] if each["primary"]}
    assert {"batch_mean_s"} == {each["metric"] for each in fleet["unhealthy"][0]["outlying"]}
    once = with_samples([1.0] * 29 + [100.0])
    fleet, code = found(invoke, made_fleet([1.0] * 8, nodes | {"n2": once}, seed=2))
    assert (0, []) == (code, fleet["unhealthy"])
    assert any(each["ratio"] > 4 for case in fleet["cases"] for each in case["metrics"])


def test_missing_nodes_are_named_as_slurm_names_them(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    folder = made_fleet([1.0] * 5)
    (folder / "n4-3.jsonl").unlink()
    result = invoke("fleet", folder)
    assert (1, "4 nodes: missing: n4.") == (result.exit_code, result.stdout.splitlines()[0])
    junit = invoke("fleet", folder, "--junit", "-").stdout
    assert 'name="n4"' in junit
    assert 'tests="5" failures="1"' in junit


def test_missing_nodes_that_nothing_names_are_counted(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    folder = made_fleet([1.0] * 3, of=5)
    for path in folder.iterdir():
        path.write_text(path.read_text().replace('"nodes":"n[1-5]"', '"nodes":""', 1))
    fleet, code = found(invoke, folder)
    assert ([], 2, 1) == (fleet["missing"], fleet["unnamed"], code)


def test_a_damaged_or_half_written_file_costs_its_node_alone(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    folder = made_fleet([1.0] * 5)
    (folder / "n1-0.jsonl").write_text("no results\n")
    half = (folder / "n2-1.jsonl").read_text()
    (folder / "n2-1.jsonl").write_text("".join(half.splitlines(keepends=True)[:3])[:-30])
    fleet, code = found(invoke, folder)
    assert (1, 4, ["n1-0.jsonl"]) == (code, len(fleet["nodes"]), list(fleet["unreadable"]))
    (node,) = fleet["unhealthy"]
    assert ("n2", {"0", "1"}) == (node["node"], set(node["unmeasured"]))
    assert "cut off" in node["damage"]
    assert {3} == {each["nodes"] for case in fleet["cases"] for each in case["metrics"]}


def test_a_case_that_fails_on_one_node_is_told_with_its_reason(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    def failing(results: Results) -> Results:
        first, *others = results.records
        return replace(results, records=[replace(first, status="failed", reason="it burns", measurement=None), *others])

    folder = made_fleet([1.0] * 4, {"n2": failing})
    fleet, code = found(invoke, folder)
    assert (1, [("n2", {"0": "failed: it burns"})]) == (
        code,
        [(each["node"], each["unmeasured"]) for each in fleet["unhealthy"]],
    )
    assert "n2: gemm m=16 n=24 k=8 float32 on numpy cpu: failed: it burns\n" in invoke("fleet", folder).stdout


def test_a_case_that_no_node_has_is_no_nodes_fault(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    fleet, code = found(invoke, made_fleet([1.0] * 4))
    (left_out,) = [case for case in fleet["cases"] if case["reason"]]
    assert (0, "bfloat16") == (code, left_out["case"]["parameters"]["dtype"])


def test_a_node_measured_again_replaces_its_file(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    folder = made_fleet([1, 1, 2, 1, 1])
    later = (folder / "n1-0.jsonl").read_text().replace('"node":"n1"', '"node":"n3"', 1)
    later = later.replace('"job":"7.0"', '"job":"8.0"', 1).replace('"of":5', '"of":1', 1).replace("n[1-5]", "n3", 1)
    (folder / "n3-0.jsonl").write_text(later.replace('"started_utc":"2', '"started_utc":"9', 1))
    fleet, code = found(invoke, folder)
    assert (0, ["n3-2.jsonl: replaced by a later file of its node"]) == (code, fleet["notes"])
    (folder / "n3-0.jsonl").write_text(re.sub(r'"boot_id":"[^"]+"', '"boot_id":"7"', later.replace('"2', '"9', 1)))
    (note,) = found(invoke, folder)[0]["notes"]
    assert "of another boot: it was restarted between the two, or two machines have this name" in note


def test_too_few_nodes_say_so(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    result = invoke("fleet", made_fleet([1.0, 1.5]))
    assert (0, "2 nodes: too few, or too unlike, to tell a slow one.") == (
        result.exit_code,
        result.stdout.splitlines()[0],
    )
    assert "? too few nodes" in result.stdout
    assert "0.0%" not in result.stdout


def test_an_earlier_fleet_shows_the_node_that_changed(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    before, now = made_fleet([1, 1, 1.05, 1, 1, 1, 1, 1], seed=1), made_fleet([1, 1, 1.05, 1, 1, 1.3, 1, 1], seed=2)
    fleet, code = found(invoke, now, "--against", before)
    primary = fleet["against"]["changes"][0]
    assert (1, ["n6"]) == (code, list(primary["changed"]))
    assert 0.98 < primary["ratio"] < 1.02
    text = invoke("fleet", now, "--against", before).stdout
    assert "> n6 1." in text
    assert text.splitlines()[0].endswith(f"; slower than in {before.name}: n6.")
    assert "since then" not in text


def test_what_nodes_have_otherwise_than_earlier_is_told(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    fewer = with_limits(cpus_allowed=[0])
    before = made_fleet([1] * 5, dict.fromkeys(["n2", "n3", "n4", "n5"], with_limits(cpu_quota=0.5)), seed=1)
    now = made_fleet([1] * 5, {"n1": fewer}, seed=2)
    text = invoke("fleet", now, "--against", before).stdout
    told = re.findall(r"since then: limits\.(\S+) .*, on (.*)$", text, re.MULTILINE)
    assert [("cpu_quota", "n2, n3, n4, n5"), ("cpus_allowed", "n1")] == told


@pytest.mark.parametrize(("now", "verdict"), [([1.0] * 16, "= not slower"), ([0.9, 1.0, 1.15], "? undecided")])
def test_what_is_not_told_of_a_fleet_since_earlier_is_not_called_alike(
    now: list[float], verdict: str, invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    before = made_fleet([1.0] * len(now), seed=1)
    text = invoke("fleet", made_fleet(now, seed=2), "--against", before).stdout
    _, _, changes = text.partition(" against ")
    assert 2 == changes.count(f"  {verdict}\n")


def test_a_fleet_that_became_slower_as_a_whole_fails(invoke: Callable[..., Result], made_fleet: MadeFleet) -> None:
    before, now = made_fleet([1] * 6, seed=1), made_fleet([1.2] * 6, seed=2)
    assert 0 == found(invoke, now)[1]
    fleet, code = found(invoke, now, "--against", before)
    assert (1, {}) == (code, fleet["against"]["changes"][0]["changed"])
    text = invoke("fleet", now, "--against", before).stdout
    assert "> all are slower" in text
    assert f"6 nodes: slower than in {before.name}: all." == text.splitlines()[0]
    assert 'tests="7" failures="1"' in invoke("fleet", now, "--against", before, "--junit", "-").stdout
    for path in before.iterdir():
        path.write_text(re.sub(r'"max_time_s": ?[0-9.]+', '"max_time_s":9.0', path.read_text()))
    text = invoke("fleet", now, "--against", before).stdout
    assert re.search(r"that were measured otherwise in \S+ are not compared: max_time_s 9\.0, now [0-9.]+\n", text)
    for path in before.iterdir():
        path.write_text(path.read_text().replace('"node":"n', '"node":"old', 1))
    result = invoke("fleet", now, "--against", before)
    assert (1, True) == (result.exit_code, "nothing to compare: " in result.stdout), "what was asked is not known"
    assert f"6 nodes: nothing in common with {before.name}." == result.stdout.splitlines()[0]


def test_what_is_no_fleet_is_refused(refusal: Callable[..., str], tmp_path: Path) -> None:
    assert "No such file or directory" in refusal("fleet", tmp_path / "absent")
    assert "holds no results file of a node" in refusal("fleet", tmp_path)


def with_output(digest: str) -> Callable[[Results], Results]:
    """What its calls gave."""

    def change(results: Results) -> Results:
        output = Output(digest=digest, calls={digest: 8})
        records = [
            replace(each, measurement=each.measurement and replace(each.measurement, output=output))
            for each in results.records
        ]
        return replace(results, records=records)

    return change


def test_a_node_whose_outputs_are_wrong_in_a_bit_is_told_and_one_that_sums_otherwise_is_not(
    invoke: Callable[..., Result], made_fleet: MadeFleet
) -> None:
    usual = " ".join(["float32[100]", *"0123456789abcdef"])
    changes = {f"n{number}": with_output(usual) for number in range(1, 9)}
    changes |= {"n3": with_output(usual.replace("7", "8")), "n5": with_output(usual[:13] + usual[:12:-1])}
    folder = made_fleet([1.0] * 8, changes)
    told, status = found(invoke, folder)
    assert (1, ["n3"]) == (status, [each["node"] for each in told["unhealthy"]])
    deviations = told["unhealthy"][0]["deviations"]
    assert {("n3", 1, 16, 6)} == {
        tuple(each[name] for name in ("place", "parts", "of_parts", "others")) for (each,) in deviations.values()
    }
    said = invoke("fleet", folder).stdout
    assert "8 nodes: wrong in a few bits: n3." in said
    assert "n3: gemm" in said or "this node gave" in said
