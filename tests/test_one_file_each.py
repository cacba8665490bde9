"""What there are several of is added in one file each, and used everywhere: commands, causes, backends."""

from __future__ import annotations

import json
import lzma
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "tests/primbench/fixtures/launches-one-after-the-other.jsonl.xz"
CAUSE = '''"""A cause of its own."""

from primbench.doctor.cause import Cause, Finding, Hindrance, Suspect, of

RANK = 99


def few_turns(place):
    """Whether turns are many."""
    yield Finding(severity="note", summary=f"{place.environment.limits.open_files} turns")


def fewer_turns(beside):
    one, other = (each.used[0].environment.limits.turns for each in (beside.baseline, beside.side))
    if one != other:
        words = f"{beside.side.name} has {other} turns, {beside.baseline.name} {one}"
        yield Suspect(words, at_least=1.0, title="few turns")


def out_of_turn(whole, job):
    yield Hindrance(share=0.5, summary=f"{job.pid} is out of turn", evidence=["turns"], effect="waits", study=None)


CAUSES = (
    Cause("turns-left", slows=("launch",), upstream=-1, reads=of("limits", "open_files"), here=few_turns,
          between=fewer_turns, in_job=out_of_turn),
)
'''
BACKEND = '''"""As NumPy."""

from primbench.backends.numpy import Numpy

RANK = 25
MODULES = ("numpy",)
DEVICES = ("cpu",)
INSTALL = "pip install numpy"
LACKS: dict[str, tuple[str, ...]] = {}
BUILD = {"numpy": "plain numpy"}


class Plain(Numpy):
    name = "plain"


def open(device):
    return Plain()


def threads(framework):
    return 7
'''

RUNTIME = '''"""A session of its own, and no container."""

from functools import partial

from primbench.runtimes.invocation import Invocation, client, variables
from primbench.runtimes.runtime import RefusalWords, Runtime, Signs


def launch(arm, folder, command, *, gpus):
    mark = {"SESSION_OF_ITS_OWN": "1"}
    return Invocation(worker=["setsid", "--wait", *command], environment=variables(arm, folder) | mark)


RUNTIME = Runtime(
    rank=5,
    mechanisms=frozenset({"surroundings"}),
    found=partial(client, "setsid", "--version"),
    launch=launch,
    signs=Signs(variables=("SESSION_OF_ITS_OWN",)),
    refusals=(RefusalWords("failed to execute", lambda arm: "have it installed"),),
)
'''
FORMAT = '''"""Values between tabs."""

RANK = 15
WRITES = "values between tabs"


def write(document):
    rows = list(document.rows())
    return "".join("\\t".join(map(str, line)) + "\\n" for line in [rows[0], *(row.values() for row in rows)])
'''
FACT = """    turns: Annotated[Whole | None, _limit("How many turns it may have at once.",
        "RLIMIT_SIGPENDING", _turns, "cpus")] = UNREAD
    missing:"""
READING = """

def _turns(root: Path, pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_SIGPENDING)[0]
"""
SETTING = """    Setting(
        "sealed", "sealed_off", Literal["yes"] | None, "That no program gets more rights than it has.", "yes",
        parse=OneOf("yes"), process=lambda _: _ignore(prctl(38, 1)),  # PR_SET_NO_NEW_PRIVS
        shows=(("confinement", "no_new_privileges"),),
        unlike=lambda asked, found, seen: None if found else "that they do",
        moves=("start-up",),
    ),
    _rlimit("core","""
COMMAND = '''"""`primbench greet`: Say a word."""

from dataclasses import dataclass

from primbench.cli.options import Exports
from primbench.cli.request import RequestCommand, argument, option, part

RANK = 15


@dataclass(frozen=True, kw_only=True)
class Greet:
    name: str = argument(metavar="NAME")
    times: int = option("--times", type=int, default=2, help="How often.")
    tone: str | None = option("--tone", is_rare=True, shell_complete=lambda *_: ["kind"], help="How.")
    exports: Exports = part(Exports)


def _greet(asked: Greet) -> None:
    print(asked.name * asked.times, asked.tone, dict(asked.exports.files))


command = RequestCommand("greet", Greet, _greet, help="Say a word to NAME.")
'''
SUITE = """gemm = [{ m = 16, n = 16, k = 16 }]
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "primbench", folder / "primbench", ignore=shutil.ignore_patterns("reference"))
    (folder / "primbench/causes/own.py").write_text(CAUSE)
    (folder / "primbench/backends/plain.py").write_text(BACKEND)
    (folder / "primbench/runtimes/session.py").write_text(RUNTIME)
    (folder / "primbench/report/formats/tsv.py").write_text(FORMAT)
    (folder / "primbench/cli/greet.py").write_text(COMMAND)
    limits = folder / "primbench/environment/limits.py"
    limits.write_text(limits.read_text().replace("    missing:", FACT, 1) + READING)
    settings = folder / "primbench/spec/settings/process.py"
    settings.write_text(settings.read_text().replace('    _rlimit("core",', SETTING, 1))
    return folder


def python(tree: Path, *arguments: str, status: int = 0, is_silent: bool | None = None) -> str:
    """is_silent: whether nothing comes by the standard error; None: nothing where all is well."""
    found = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    is_silent = status == 0 if is_silent is None else is_silent
    assert (status, is_silent) == (found.returncode, found.stderr == ""), found.stderr
    return found.stdout


def test_a_cause_is_looked_for_in_one_place(tree: Path) -> None:
    document = json.loads(python(tree, "-m", "primbench", "doctor", "--json", "-"))
    (found,) = [each for each in document["findings"] if each["check"] == "turns-left"]
    assert (["limits.open_files"], ["launch"]) == (found["about"], found["distorts"])


def test_a_cause_is_told_between_two_places(tree: Path, study: Path) -> None:
    found = " ".join(python(tree, "-m", "primbench", "compare", str(study), status=1).split())  # something is slower
    assert "; likely few turns" in found
    assert "docker-profile has 5 turns, host 7" in found


def test_a_cause_is_told_of_a_job(tree: Path) -> None:
    job = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        watched = python(tree, "-m", "primbench", "watch", str(job.pid), "--for", "2s", "-o", "-")
    finally:
        job.kill()
        job.wait()
    found = [json.loads(line) for line in watched.splitlines()]
    (told,) = [each for each in found if each["kind"] == "hindrance" and each["cause"] == "turns-left"]
    assert (f"{job.pid} is out of turn", ["launch"]) == (told["summary"], told["distorts"])


def test_a_cause_is_told_of_a_node_of_a_fleet(tree: Path) -> None:
    (tree / "suite.toml").write_text(SUITE)
    how = ("--backend", "numpy", "--device", "cpu", "--max-time", "10ms", "-q")
    python(tree, "-m", "primbench", "run", "suite.toml", *how, "-o", "alone.jsonl")
    header, *rest = [json.loads(line) for line in (tree / "alone.jsonl").read_text().splitlines()]
    (tree / "fleet").mkdir()
    for rank in range(6):
        for line in rest:
            if line["kind"] == "worker":
                line["environment"]["limits"]["turns"] = 7 if rank else 5
            if line["kind"] == "record":
                line["later"] = None  # on a busy machine it has the limits as they are here
        header["member"] = {
            "node": f"n{rank}",
            "rank": rank,
            "of": 6,
            "launcher": "srun",
            "job": "7",
            "nodes": "n[0-5]",
        }
        lines = [header, *(line if rank else slower(line) for line in rest)]
        (tree / f"fleet/n{rank}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    told = python(tree, "-m", "primbench", "fleet", "fleet", status=1, is_silent=True)
    assert "likely few turns" in " ".join(told.split())


def slower(line: dict[str, Any]) -> dict[str, Any]:
    """Twice the times, where it is a record."""
    times = {name: value for name, value in (line.get("measurement") or {}).items() if name.endswith("_s")}
    longer = {
        name: value | {"samples_s": [2 * each for each in value["samples_s"]]}
        for name, value in times.items()
        if isinstance(value, dict) and "samples_s" in value
    }
    return line | ({"measurement": line["measurement"] | longer} if longer else {})


def test_a_backend_is_listed_by_its_rank_and_known_by_its_build(tree: Path) -> None:
    listed = re.findall(r"^  (\w+) ", python(tree, "-m", "primbench", "list", "backends"), re.MULTILINE)
    assert ["torch", "cupy", "plain", "numba", "numpy"] == listed
    asked = (
        "from primbench.backends import build_of, open_backend; "
        "print(build_of('plain'), open_backend('plain', 'cpu').name)"
    )
    assert "{'numpy': 'plain numpy'} plain\n" == python(tree, "-c", asked)
    asked = (
        "import numpy; from primbench.environment import fingerprint; "
        "print(fingerprint.collect(gpus=False).software.threads['plain'])"
    )
    assert "7\n" == python(tree, "-c", asked)


@pytest.fixture(scope="module")
def study(tree: Path) -> Path:
    """A recorded one, in which containers were given other turns and took twice as long."""
    lines = [json.loads(line) for line in lzma.decompress(STUDY.read_bytes()).splitlines()]
    for line in lines:
        if line["kind"] == "record" and not line["case"]["arm"].startswith("host"):
            for metric in ("enqueue_s", "wall_s"):
                times = line["measurement"][metric]
                times["samples_s"] = [2 * each for each in times["samples_s"]]
        if line["kind"] == "worker":
            line["environment"]["limits"]["turns"] = 7 if line["arm"]["name"].startswith("host") else 5
    path = tree / "study.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_a_field_is_told_where_two_places_are_set_beside_each_other(tree: Path, study: Path) -> None:
    environments: dict[int, object] = {}
    for line in map(json.loads, study.read_text().splitlines()):
        if line["kind"] == "worker":
            environments.setdefault(line["environment"]["limits"]["turns"], line["environment"])
    for turns, environment in environments.items():
        (tree / f"{turns}.json").write_text(json.dumps(environment))
    assert "turns" in python(tree, "-m", "primbench", "env", "diff", "7.json", "5.json")
    asked = (
        "from primbench.doctor.against import compare; from primbench.doctor.place import read; "
        "print([each.cause for each in compare(read('7.json'), read('5.json'), 'there') if 'turns' in str(each)])"
    )
    assert "['against-cpus']\n" == python(tree, "-c", asked)
    older = json.loads((tree / "5.json").read_text())
    del older["limits"]["turns"]
    (tree / "older.json").write_text(json.dumps(older))
    found = " ".join(python(tree, "-m", "primbench", "env", "diff", "7.json", "older.json").split())
    assert "limits.turns 7 unknown (the primbench that looked did not read it yet)" in found


def test_a_fact_is_read_shown_and_described(tree: Path) -> None:
    held_to, _ = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    shown = python(tree, "-m", "primbench", "env")
    assert [f"turns {held_to} RLIMIT_SIGPENDING"] == [
        " ".join(line.split()) for line in shown.splitlines() if "turns" in line
    ]
    page = python(tree, "-m", "primbench", "help", "environment").replace("\\_", "_")
    (row,) = [line for line in page.splitlines() if line.startswith("| limits.turns ")]
    told = ["limits.turns", "How many turns it may have at once.", "", "limits", "other CPUs", "any change"]
    assert [*told, "RLIMIT_SIGPENDING"] == [each.strip() for each in row.strip("|").split("|")]


def test_a_fact_is_told_where_it_changes_while_a_case_runs_and_of_a_job_that_is_watched(tree: Path) -> None:
    asked = (
        "import resource as r; from primbench.environment import fingerprint; "
        "from primbench.environment.later import later; told = fingerprint.collect(gpus=False); "
        "r.setrlimit(r.RLIMIT_SIGPENDING, (5, 7)); found = later(told); "
        "print(found.limits.turns, found.of(told).limits.turns)"
    )
    assert "5 5\n" == python(tree, "-c", asked)
    sleeps = "import resource as r, time; r.setrlimit(r.RLIMIT_SIGPENDING, (5, 7)); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", sleeps], stdout=subprocess.PIPE) as job:
        try:
            assert job.stdout is not None
            assert job.stdout.readline()
            watched = python(tree, "-m", "primbench", "watch", str(job.pid), "--for", "300ms", "-o", "-")
        finally:
            job.kill()
    assert 5 == json.loads(watched.splitlines()[0])["limits"]["turns"]


def test_a_field_is_a_cause_in_a_comparison(tree: Path, study: Path) -> None:
    found = python(tree, "-m", "primbench", "compare", str(study), status=1)  # something is slower
    assert "other CPUs: turns is 7 in" in " ".join(found.split())


def test_a_runtime_starts_the_workers_of_an_arm(tree: Path) -> None:
    (tree / "suite.toml").write_text(SUITE)
    arms = ("--arm", "host", "--arm", "session:env.OMP_NUM_THREADS=1,name=apart")
    how = ("--backend", "numpy", "--device", "cpu", "--pairs", "1", "--max-time", "10ms", "-q")
    assert "apart" in python(
        tree, "-m", "primbench", "study", "suite.toml", *arms, *how, "--fail-on", "never", "-o", "started.jsonl"
    )
    lines = [json.loads(line) for line in (tree / "started.jsonl").read_text().splitlines()]
    assert {("host", "ok"), ("apart", "ok")} == {
        (line["case"]["arm"], line["status"]) for line in lines if line["kind"] == "record"
    }
    (worker,) = [line for line in lines if line["kind"] == "worker" and line["arm"]["name"] == "apart"]
    assert "1" == worker["environment"]["software"]["variables"]["OMP_NUM_THREADS"]
    assert "SESSION_OF_ITS_OWN is set (session)" in str(worker["environment"]["confinement"]["runtime"]["evidence"])


@pytest.fixture(scope="module")
def arms(tree: Path) -> str:
    """What is said of runtimes, each of which is tried for it."""
    return python(tree, "-m", "primbench", "arms")


def test_a_runtime_is_listed_by_its_rank_and_tried(arms: str) -> None:
    rows = re.findall(r"^([a-z]+) .* (yes|no)\b", arms, re.MULTILINE)
    assert [("host", "yes"), ("session", "yes")] == rows[:2]


def test_what_a_runtime_cannot_set_is_refused(tree: Path) -> None:
    asked = (
        "from primbench.runtimes.refusals import refusal; from primbench.runtimes.table import check, known; "
        "from primbench.spec.arm import parse_arm; print(refusal(parse_arm('session', known()), 'failed to execute')); "
        "check(parse_arm('session:cpus=2'))"
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", asked],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "failed to execute: have it installed\n" == found.stdout
    assert "session has no cpus of its own; there is one in host, docker" in found.stderr


def test_a_format_is_an_option_and_is_written(tree: Path, study: Path) -> None:
    for command in ("show", "compare"):
        shown = python(tree, "-m", "primbench", command, "--help-all")
        listed = re.findall(r"^  --(csv|tsv|markdown|json) ", shown, re.MULTILINE)
        assert ["csv", "tsv", "markdown", "json"] == listed
        assert "values between tabs; - is" in " ".join(shown.split())
    columns, *rows = (
        line.split("\t") for line in python(tree, "-m", "primbench", "show", str(study), "--tsv", "-").splitlines()
    )
    assert {"primitive", "wall_s"} <= set(columns)
    assert {"launch"} == {row[columns.index("primitive")] for row in rows}


def test_a_command_is_listed_helped_completed_and_run(tree: Path) -> None:
    listed = re.findall(r"^  (run|greet|capture)  +(.*)", python(tree, "-m", "primbench", "--help"), re.MULTILINE)
    assert ["run", "greet", "capture"] == [name for name, _ in listed]
    assert ("greet", "Say a word.") in listed
    assert ["times"] == re.findall("--(times|tone) ", python(tree, "-m", "primbench", "greet", "--help"))
    assert ["times", "tone"] == re.findall("--(times|tone) ", python(tree, "-m", "primbench", "greet", "--help-all"))
    assert "aa kind {'csv': 'x.csv'}\n" == python(
        tree, "-m", "primbench", "greet", "a", "--tone", "kind", "--csv", "x.csv"
    )
    page = python(tree, "-m", "primbench", "help", "commands")
    assert "## primbench greet" in page
    assert "--tone" in page.partition("## primbench greet")[2].partition("## primbench ")[0]
    asked = {"_PRIMBENCH_COMPLETE": "bash_complete", "COMP_CWORD": "3", "COMP_WORDS": "primbench greet --tone "}
    completing = f"import os, runpy; os.environ.update({asked!r}); runpy.run_module('primbench', run_name='__main__')"
    assert "plain,kind\n" == python(tree, "-c", completing)


def test_a_setting_is_listed_completed_and_explained(tree: Path, arms: str) -> None:
    asked = (
        "import primbench.runtimes.table as table; from primbench.cli.completing import complete_arm\n"
        "for words in ('host:se', 'host:cpus=2,sealed=', 'docker:sealed'): print(*complete_arm(None, None, words))\n"
        "print(*(name for name in table.known() if 'sealed_off' in table.known()[name].settings))"
    )
    begun, valued, none, runtimes = (line.split() for line in python(tree, "-c", asked).splitlines())
    assert "host:sealed=" in begun
    assert ["host:cpus=2,sealed=yes"] == valued
    assert [] == none
    assert {"host", "crun"} <= {*runtimes}
    assert "sealed" in arms.partition("\nsession")[0]
    page = python(tree, "-m", "primbench", "help", "settings")
    assert "| sealed | That no program gets more rights than it has. | sealed=yes | host, " in page


def test_a_setting_is_applied_and_read_back(tree: Path) -> None:
    (tree / "suite.toml").write_text(SUITE)
    arms = ("--arm", "host", "--arm", "host:sealed=yes")
    how = ("--backend", "numpy", "--device", "cpu", "--pairs", "1", "--max-time", "10ms", "-q", "--fail-on", "never")
    told = python(tree, "-m", "primbench", "study", "suite.toml", *arms, *how, "-o", "sealed.jsonl")
    assert "host:sealed=yes" in told
    lines = (tree / "sealed.jsonl").read_text().splitlines()
    workers = [line for line in map(json.loads, lines) if line["kind"] == "worker"]
    found = {each["arm"]["sealed_off"]: each["environment"]["confinement"]["no_new_privileges"] for each in workers}
    assert found.pop(None) is False, "of who runs this test"
    assert {"yes": True} == found


def test_a_setting_that_was_not_applied_is_an_error_of_the_arm(tree: Path) -> None:
    asked = (
        "from primbench.spec.arm import parse_arm; from primbench.workers.applied import mismatch, outside; "
        "from primbench.workers.process import WorkerProcess; from primbench.workers.protocol import Start; "
        "host, sealed = map(parse_arm, ('host', 'host:sealed=yes')); "
        "worker = WorkerProcess(Start(backend='numpy', device='cpu'), arm=host); "
        "print(mismatch(sealed, sealed.placement, worker.ready, outside())); worker.end()"
    )
    assert python(tree, "-c", asked).startswith("sealed=yes: the worker found that they do: ")
