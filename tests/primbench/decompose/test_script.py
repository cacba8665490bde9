"""Scripts that were not written for it: their steps are captured, or one line says why none was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

import primbench.suites as suites
from primbench.backends import missing, threads
from primbench.cli.capture import _counts
from primbench.decompose.profiled import STEPS
from primbench.decompose.written import CapturedStep, suite_of
from primbench.errors import PrimbenchError

from ...ports import free_port

pytestmark = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]
TRAINING = """
import sys, torch
module = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(module.parameters(), 0.1)
for number in range(int(sys.argv[1])):
    {at_each}
    module(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""
INFERENCE = """
import torch
module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
with torch.inference_mode():
    for _ in range(100):
        module(torch.ones(2, 4))
"""
SERVER = """
import sys, torch
module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
@{mode}()
def infer(x): return module(x)
def ask(): return infer(torch.ones(2, 4)).softmax(1)
for _ in range(int(sys.argv[1])):
    {at_each}
"""
POOL = "import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor(2)\nwith pool:\n    for "


def outcome(
    folder: Path, text: str, *arguments: str, number: int = 20, module: str = "", is_prefill: bool = False
) -> Any:
    """What capturing a step of a script of that text gives in the end: the step, or the error.

    module: its name, where it is one.
    """
    found = answers(folder, text, *arguments, number=number, module=module, is_prefill=is_prefill)
    assert len(found) <= 2
    return found[-1]


def answers(
    folder: Path, text: str, *arguments: str, number: int, module: str = "", is_prefill: bool = False
) -> list[Any]:
    from torch._dynamo.utils import counters

    from primbench.decompose.script import run

    script, found = folder / "own.py", list[Any]()
    script.write_text(text)
    counters.clear()  # of the process, in which other tests compile, too
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys.argv)
        patch.setattr(sys, "path", [*sys.path])
        how = {"is_module": bool(module), "is_prefill": is_prefill}
        run(module or str(script), arguments, number, found.append, **how)
    return found


def test_a_step_lies_between_two_of_the_optimizer(tmp_path: Path) -> None:
    # Milliseconds in operators and between them: of microseconds, what the profiler took and a wait for a CPU leave 0.
    text = TRAINING.format(at_each="torch.ones(1024, 1024).exp(); sum(range(200_000))")
    step = outcome(tmp_path, text, "100", number=5)
    counts = Counter((call.name, call.phase) for call in step.calls)
    assert (1, 1) == (counts["addmm", "forward"], counts["mm", "backward"])
    assert "optimizer" in {phase for _, phase in counts}
    assert 5 == len(step.laps)  # of steps 2 to 4, the first one makes what is made once; and of 6 and 7
    told = step.profiled
    assert told is not None
    assert STEPS == len(told.inside_s)
    assert STEPS == len(told.between_s)
    assert all(each > 0 for each in (*told.inside_s, *told.between_s))
    assert "exp" in told.operators_s
    assert all(each > 0 for each in told.operators_s.values())
    assert step.threads == threads()["torch"]
    assert step.of.startswith("step 5 of own.py 100, between the ends of two SGD.step()")


def test_ranges_that_a_script_names_itself_end_no_step(tmp_path: Path) -> None:
    at_each = "with torch.profiler.record_function('primbench: a step ends'): torch.ones(1024, 1024).exp()"
    step = outcome(tmp_path, TRAINING.format(at_each=at_each), "100", number=5)
    assert STEPS == len(step.profiled.inside_s)


def test_an_optimizer_made_later_takes_the_place_of_the_first_one_and_others_beside_it_end_no_step(
    tmp_path: Path,
) -> None:
    """As in scripts that make one in each iteration, whose scheduler keeps it alive."""
    text = TRAINING.format(at_each="optimizer = torch.optim.SGD(module.parameters(), 0.1)")
    kept = "    torch.optim.lr_scheduler.StepLR(optimizer, 1)\n    other.step()\n"
    other = "other = torch.optim.Adam(module.parameters())\nfor number"
    step = outcome(tmp_path, f"{text.replace('for number', other)}{kept}", "20", number=8)
    assert 1 == Counter(call.name for call in step.calls)["addmm"]
    assert step.of.startswith("step 8 of own.py 20, between the ends of two SGD.step()")


@pytest.mark.parametrize(
    ("other", "number", "lacks"),
    [
        ("Adam", 6, ""),
        ("Adam", 8, ", without a step of its Adam, which --step 6 has"),
        ("SGD", 8, ", without a step of its other SGD, which --step 6 has"),
    ],
)
def test_an_optimizer_that_makes_fewer_steps_is_named_where_the_captured_one_has_none_of_it(
    other: str, number: int, lacks: str, tmp_path: Path
) -> None:
    """As a generator's, of which a discriminator makes three steps each."""
    text = TRAINING.format(at_each="if number % 3 == 2: other.step()")
    made = f"other = torch.optim.{other}(module.parameters(), 0.1)\nfor number"
    step = outcome(tmp_path, text.replace("for number", made), "20", number=number)
    between = step.of.partition(", between the ends of two SGD.step()")[2]
    assert lacks == between


def test_steps_of_other_lengths_than_the_captured_one_are_told_apart(tmp_path: Path) -> None:
    """As of episodes in reinforcement learning."""
    text = TRAINING.format(at_each="for _ in range(number): module(torch.ones(2, 4))")
    step = outcome(tmp_path, text, "20", number=8)
    assert {4, 5, 6, 7, 3, 2} == {lap.module_calls.total() for lap in step.laps}
    assert {"Linear [3, 4]": 8} == step.module_calls
    assert "unlike = 6" in suite_of(step)


def test_a_script_that_goes_on_from_its_end_is_ended_at_its_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a loop that tries a step again, whatever was raised."""
    left, ended = tmp_path / "left", list[int]()

    def end(status: int) -> None:
        """The script ends by itself here, since this process goes on."""
        ended.append(status)
        left.touch()

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    caught = f"""try: optimizer.step()
    except BaseException: pass
    if __import__("os").path.exists({str(left)!r}): break"""
    text = TRAINING.format(at_each="pass").replace("optimizer.step()", caught)
    step, again, *_ = answers(tmp_path, text, "100", number=4)
    assert [0] == ended
    assert step is again
    assert "step 4 of own.py 100" in step.of


def test_a_module_is_run_by_its_name_and_what_it_forks_is_not_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As python -m has it: relative imports work. A process that it forks makes more steps than are asked for."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "of_a_package"
    package.mkdir()
    (package / "made.py").write_text("from torch.nn import Linear\n")
    forking = "import os, warnings\nwarnings.simplefilter('ignore')\nif not os.fork():\n    try:\n"
    forking += "        for _ in range(20): optimizer.step()\n    except BaseException: os._exit(1)\n"
    forking += "    os._exit(0)\nassert not os.wait()[1]\n"
    text = TRAINING.format(at_each="pass").replace("torch.nn.Linear", "Linear")
    text = text.replace("for number", f"{forking}for number")
    step = outcome(package, f"from .made import Linear\n{text}", "9", number=4, module="of_a_package.own")
    assert step.of.startswith("step 4 of of_a_package.own 9, between")
    error = outcome(package, f"from .made import Linear\n1 / 0\n{text}", "9", module="of_a_package.own")
    assert "of_a_package.own, line 2 raised ZeroDivisionError" in str(error)


def test_the_wait_for_a_data_loader_is_told_apart_and_what_it_calls_is_no_part(tmp_path: Path) -> None:
    text = (
        TRAINING.format(at_each="pass")
        .replace("range(int(sys.argv[1]))", "loader")
        .replace("torch.ones(2, 4)", "number")
    )
    loading = "import time\nloader = torch.utils.data.DataLoader(Slow(), batch_size=2)\n"
    slow = "class Slow(torch.utils.data.Dataset):\n    def __len__(self): return 40\n"
    slow += "    def __getitem__(self, number): time.sleep(0.01); return torch.rand(4).cos()\n"
    step = outcome(tmp_path, text.replace("module =", f"{slow}{loading}module =", 1), number=14)
    assert 10 == len(step.laps)
    assert all(0.02 <= lap.waited_s < lap.seconds for lap in step.laps)
    assert not {"rand", "cos", "stack"} & {call.name for call in step.calls}
    assert step.place.cpus
    left = outcome(tmp_path, text.replace("module =", f"{slow}{loading}module =", 1), number=19)
    assert 10 == len(left.laps), "the script ended after one step more"


def test_inference_lies_between_the_ends_of_two_calls_of_the_outermost_module(tmp_path: Path) -> None:
    """And is taken apart: inference_mode hands over linear as a whole."""
    step = outcome(tmp_path, INFERENCE, number=4)
    assert ["ones", "t", "addmm", "relu"] == [call.name for call in step.calls]
    assert {"forward"} == {call.phase for call in step.calls}
    assert 5 == len(step.laps)
    assert "between the ends of two calls of its outermost module" in step.of


@pytest.mark.parametrize("mode", ["torch.inference_mode", "torch.no_grad"])
def test_a_request_that_enters_inference_by_itself_is_seen_until_the_next_one(tmp_path: Path, mode: str) -> None:
    """The mode that records begins and ends within it, and must neither end nor stay with it."""
    step = outcome(tmp_path, SERVER.format(mode=mode, at_each="ask()"), "100", number=4)
    assert ["_softmax", "ones", "t", "addmm", "relu"] == [call.name for call in step.calls]
    assert (5, 0) == (len(step.laps), step.unlike)


def test_a_step_of_inference_is_of_one_thread_whichever_first_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("primbench.decompose.steps.end_now", sys.exit)  # the thread, since this process goes on
    text = SERVER.format(mode="torch.inference_mode", at_each="pool.submit(ask)").replace("for ", POOL, 1)
    *_, step = answers(tmp_path, text.replace("    pool.submit", "        pool.submit"), "200", number=4)
    assert ["_softmax", "ones", "t", "addmm", "relu"] == [call.name for call in step.calls]
    alone = "import threading\nfor"
    text = SERVER.format(mode="torch.no_grad", at_each="t = threading.Thread(target=ask); t.start(); t.join()")
    said = str(outcome(tmp_path, text.replace("for", alone, 1), "9", number=4))
    assert (
        "ended after 1 call of a module without gradients in one thread, 9 in all, before step 4 was captured" in said
    )


def test_steps_of_two_modules_in_turn_are_told_apart(tmp_path: Path) -> None:
    """Those that are like the captured one are timed."""
    text = SERVER.format(mode="torch.no_grad", at_each="ask(); ask(); infer_other()")
    other = "def infer_other(other=torch.no_grad()(torch.nn.Linear(9, 9))): return other(torch.ones(9))\nfor"
    step = outcome(tmp_path, text.replace("for", other, 1), "20", number=13)
    assert {"Sequential [3, 4] given [2, 4]": 1} == step.module_calls
    assert (7, 0) == (len(step.laps), step.unlike)  # without 3, 6, 9 and 12


def test_optimizers_that_step_within_backward_have_steps_that_end_with_the_next_call(tmp_path: Path) -> None:
    optimizer = """optimizers = {each: torch.optim.SGD([each], 0.1) for each in module.parameters()}
for each in optimizers: each.register_post_accumulate_grad_hook(lambda each: optimizers[each].step())
"""
    text = (
        TRAINING.format(at_each="pass")
        .replace("    optimizer.step()\n", "")
        .replace("for number", f"{optimizer}for number")
    )
    step = outcome(tmp_path, text, "100", number=4)
    assert "between the calls of a module that follow two backward() with SGD.step() in them" in step.of
    assert {"addmm": 1, "mm": 1, "add_": 4}.items() <= Counter(call.name for call in step.calls).items()
    assert 5 == len(step.laps)
    assert "after 5 steps of an optimizer, before step 6 was" in str(outcome(tmp_path, text, "6", number=6))


def test_a_step_that_called_nothing_is_none() -> None:
    from primbench.decompose.child import _answered

    answer = _answered(CapturedStep("step 2 of own.py"))
    assert ("", 1) == (answer.suite, answer.exit_code)
    assert answer.error.startswith("step 2 of own.py: no operator of torch was seen in it: none")


def test_a_look_at_other_data_before_training_is_no_step(tmp_path: Path) -> None:
    look = "    torch.no_grad()(module)(torch.ones(2, 4))\n"
    text = TRAINING.format(at_each="pass").replace("for number", f"for _ in range(9):\n{look}for number")
    step = outcome(tmp_path, text, "9", number=2)
    assert "between the ends of two SGD.step()" in step.of
    assert 5 == len(step.laps)  # after it; those looks, of which there were nine, lasted other times


def test_gradients_or_an_optimizer_that_makes_no_step_are_named_where_they_hide_inference(tmp_path: Path) -> None:
    text = SERVER.format(mode="torch.enable_grad", at_each="ask()")
    said = str(outcome(tmp_path, text, "9"))
    assert "after 0 steps of an optimizer and 9 calls of a module with gradients, before step 20" in said
    assert "call it within torch.no_grad() or torch.inference_mode()" in said
    made = "optimizer = torch.optim.SGD(module.parameters())\nfor"
    said = str(outcome(tmp_path, text.replace("enable_grad", "no_grad").replace("for", made, 1), "90"))
    assert "the script has an optimizer that made none" in said


@pytest.mark.parametrize(
    ("at_each", "said", "exit_code"),
    [
        ("number and sys.exit()", "after 1 step of an optimizer, before step 20 was captured: a step lies between", 1),
        ("pass", "ended after 7 steps of an optimizer, before step 20 was captured: ask for --step 7 or less", 2),
        ("1 / (3 - number)", "line 6 raised ZeroDivisionError: division by zero after 3 steps", 1),
        ("number < 2 or sys.exit(5)", "exited with status 5 after 2 steps", 1),
    ],
)
def test_one_line_where_there_is_no_such_step(tmp_path: Path, at_each: str, said: str, exit_code: int) -> None:
    error = outcome(tmp_path, TRAINING.format(at_each=at_each), "7")
    assert isinstance(error, PrimbenchError)
    assert exit_code == error.exit_code
    assert said in str(error)
    assert "\n" not in str(error)


def test_calls_that_cannot_be_made_again_are_counted_for_whoever_captures(tmp_path: Path) -> None:
    from primbench.decompose.child import _answered

    text = TRAINING.format(at_each="pass").replace("torch.nn.Linear(4, 3)", "torch.nn.Embedding(9, 3, sparse=True)")
    text = text.replace("SGD(module.parameters(), 0.1)", "SparseAdam(module.parameters())")
    answer = _answered(outcome(tmp_path, text.replace("torch.ones(2, 4)", "torch.tensor([1, 2])"), "9", number=4))
    left_out = [int(each) for each in re.findall(r"# not called again, (\d+) times: .*sparse_coo", answer.suite)]
    assert 0 < sum(left_out) == answer.left_out < answer.calls
    missing = f", {answer.left_out} that cannot be made again, as the file says"
    assert f"{answer.calls} calls, {answer.distinct} of them distinct{missing}" == _counts(answer)
    others = f", the other {answer.calls - answer.left_out} made by 1 call of primitives"
    assert _counts(msgspec.structs.replace(answer, parts=1)).endswith(f"{missing}{others}")
    for graphs, those in ((1, "1 CUDA graph"), (2, "2 CUDA graphs")):
        replaying = msgspec.structs.replace(answer, cuda_graphs=graphs)
        assert _counts(replaying).endswith(f", none of what is in {those} that it replays")


def test_a_script_that_fails_before_its_first_step_is_not_sent_to_torchrun(tmp_path: Path) -> None:
    said = str(outcome(tmp_path, "import nosuch_module"))
    assert "line 1 raised ModuleNotFoundError: No module named 'nosuch_module' after 0 steps" in said
    assert said.endswith("see whether it runs by python alone")


def test_a_compiled_module_is_not_told_of_hooks_that_are_not_its_own(tmp_path: Path) -> None:
    """What torch warns of with hooks on all modules, and only then, is nothing that the script can mend."""
    text = TRAINING.format(at_each="pass")
    text = text.replace("torch.nn.Linear(4, 3)", "torch.compile(torch.nn.Linear(4, 3), backend='eager')")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        step = outcome(tmp_path, text, "9", number=4)
    assert "between the ends of two SGD.step()" in step.of
    assert not [str(each.message) for each in told if "hooks" in str(each.message)]


def test_a_compiled_function_is_whole_though_modules_are_followed_in_it(tmp_path: Path) -> None:
    """torch.compile() traces hooks of all modules, and breaks a graph, or refuses, at what it cannot trace in them."""
    from torch._dynamo.utils import counters

    compiled = "@torch.compile(backend='eager', fullgraph=True)\ndef loss(x): return module(x).sum()\n"
    text = TRAINING.format(at_each="pass").replace("for number", f"{compiled}for number")
    step = outcome(tmp_path, text.replace("module(torch.ones(2, 4)).sum()", "loss(torch.ones(2, 4))"), "9", number=4)
    graphs = counters["stats"]["unique_graphs"]
    assert (1, {"between the ends of two SGD.step()"}) == (graphs, {step.of.partition(", ")[2]})


def test_a_step_within_backward_ends_in_the_thread_that_learns(tmp_path: Path) -> None:
    """Another one, as a loader's, may call modules meanwhile, which prepare data."""
    hooked = (
        "optimizer.register = [p.register_post_accumulate_grad_hook(lambda p, o=torch.optim.SGD([p], 0.1): o.step())"
        " for p in module.parameters()]\n"
    )
    aside = "import threading\nscale = torch.nn.ReLU()\n"
    prepare = "\n    aside = threading.Thread(target=scale, args=(torch.ones(2, 4),)); aside.start(); aside.join()"
    text = TRAINING.format(at_each="pass").replace("for number", f"{hooked}{aside}for number")
    step = outcome(tmp_path, text.replace("\n    optimizer.step()", prepare), "9", number=4)
    assert "between the calls of a module that follow two backward() with SGD.step() in them" in step.of
    assert 1 == Counter(call.name for call in step.calls)["addmm"]


def test_no_secret_of_a_script_is_in_what_the_step_is_called(tmp_path: Path) -> None:
    words = ["9", "--epochs", "3", "-H", "Authorization: Bearer X9", "-pX9", "--password", "-X9", '{"token": "X9"}']
    step = outcome(tmp_path, TRAINING.format(at_each="pass"), *words, number=4)
    assert "own.py 9 --epochs 3 -H *** -p*** --password *** ***, between" in step.of


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died of signal SIGSEGV"),
        ("os._exit(0)", "ended by itself, as by os._exit() or exec"),
    ],
)
def test_a_script_whose_process_is_gone_is_told_how_it_ended(tmp_path: Path, last: str, how: str) -> None:
    script = tmp_path / "own.py"
    script.write_text(f"import os, signal\n{last}\n")
    command = [sys.executable, "-P", "-m", "primbench", "capture", str(script), "-o", str(tmp_path / "step.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = f"Error: {script}: before a step was captured, its process {how}"
    assert (1, said) == (done.returncode, done.stderr.splitlines()[-1])


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ("number < 5 or os.kill(os.getpid(), 11)", "died of signal SIGSEGV: not all that later steps tell is known"),
        ("number < 5 or os._exit(0)", "ended by itself, as by os._exit() or exec: not all that later steps tell is"),
        ("number or atexit.register(os._exit, 5)", ""),
    ],
)
def test_what_a_script_is_ended_by_before_later_steps_have_told_is_said(tmp_path: Path, last: str, said: str) -> None:
    """What it captured stays; once they have told, nothing is said."""
    script, captured = tmp_path / "own.py", tmp_path / "step.toml"
    script.write_text(f"import atexit, os\n{TRAINING.format(at_each=last)}")
    command = [sys.executable, "-P", "-m", "primbench", "capture", str(script), "-o", str(captured), "--step", "4"]
    done = subprocess.run([*command, "--", "40"], capture_output=True, text=True, check=False)
    assert (0, bool(said)) == (done.returncode, "once it was captured" in done.stderr)
    assert said in done.stderr
    assert [] != suites.read(captured)


HALVES = """
import sys, threading, torch
def both(*tasks):
    threads = [threading.Thread(target=task) for task in tasks]
    for each in threads: each.start()
    return threads
class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.halves = torch.nn.ModuleList([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)])
    def half(self, number, rows, found):
        found[number] = self.halves[number](torch.nn.functional.linear(rows, torch.eye(4)))
    def forward(self, rows):
        found = {}
        for each in both(*(lambda i=i: self.half(i, rows[i::2], found) for i in range(2))): each.join()
        %s
        return found[0] + found[1]
module = Halves()
optimizer = torch.optim.SGD(module.parameters(), 0.1)
for number in range(int(sys.argv[1])):
    %s
    optimizer.step()
"""
LEARN = "module(torch.ones(2, 4)).sum().backward()"


def test_what_threads_compute_that_a_module_starts_is_of_its_step(tmp_path: Path) -> None:
    """As DataParallel does for each GPU; in a backward pass, too, and outside of modules in such a thread."""
    step = outcome(tmp_path, HALVES % ("", LEARN), "40", number=8)
    named = Counter((call.name, call.phase) for call in step.calls)
    assert (2, 2, 2) == (named["addmm", "forward"], named["mm", "forward"], step.helpers)
    assert step.profiled is not None
    assert [] == step.profiled.inside_s  # of these threads the profiler does not tell
    rows = "torch.ones(2, 4, requires_grad=True), use_reentrant=True"
    again = f"torch.utils.checkpoint.checkpoint(module, {rows}).sum().backward()"
    step = outcome(tmp_path, "import torch.utils.checkpoint\n" + HALVES % ("", again), "40", number=8)
    assert (4, 4) == (Counter(call.name for call in step.calls)["addmm"], step.helpers)


def test_what_other_threads_compute_meanwhile_is_not_and_none_of_them_has_an_error(tmp_path: Path) -> None:
    """One that was there before, one that another one starts, and one that goes on when its step is over."""
    others = """
asked, seen, other = threading.Event(), threading.Event(), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
threading.excepthook = lambda raised: print(raised, file=open("raised", "w"))
def serve():
    while True:
        asked.wait(); asked.clear()
        for each in both(lambda: other(torch.ones(1, 4))): each.join()
        seen.set()
threading.Thread(target=serve, daemon=True).start()
class Stop(Exception): pass
def stopping(*_): raise Stop
early = torch.nn.Sequential(torch.nn.Linear(4, 4))
early.register_forward_hook(stopping)
module = Halves()
def long(): [other(torch.ones(1, 4)) for _ in range(300)]
"""
    ask = "asked.set(); seen.wait(); seen.clear()"
    text = (HALVES % (ask, f"try: early(torch.ones(1, 4))\n    except Stop: pass\n    {LEARN}")).replace(
        "module = Halves()\n", others
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        step = outcome(tmp_path, text, "40", number=8)
        assert (3, 0, 2) == (
            *(Counter(call.name for call in step.calls)[each] for each in ("addmm", "tanh")),
            step.helpers,
        )
        after = text.replace(ask, "module.late = both(long)[0]").replace(
            "optimizer.step()\n", "optimizer.step(); module.late.join()\n"
        )
        step = outcome(tmp_path, after, "40", number=8)
        counted = Counter(call.name for call in step.calls)
        assert 3 == step.helpers
        assert counted["addmm"] - counted["tanh"] in (3, 4)  # the step may end between two of the one that goes on
        assert suite_of(step)
    assert not (tmp_path / "raised").exists()


def by_two_ranks() -> list[str]:
    """What captures with two processes of torchrun, by a port of its own."""
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    return [sys.executable, *words, "-m", "primbench", "capture"]


def test_two_ranks_under_torchrun_as_they_are(tmp_path: Path) -> None:
    """The gradients of both are summed once a step, though it has two batches a rank."""
    captured = tmp_path / "step.toml"
    script = [str(Path(__file__).with_name("ddp.py")), "-o", str(captured), "--step", "3", "--", "--width", "24"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    made = subprocess.run(
        [*by_two_ranks(), *script], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    assert 0 == made.returncode, made.stderr
    entries = suites.read(captured, set="parts")
    counts = Counter[str]()
    for entry in entries:
        counts[entry.labels["label"]] += int(entry.labels["count"])
    (summed,) = suites.read(captured, only=["allreduce"])
    assert (2, "backward") == (summed.problem.parameters()["ranks"], summed.labels["phase"])
    assert 4 * (24 * 17 + 4 * 25) == summed.problem.parameters()["bytes"]
    assert 2 * counts["_amp_update_scale_"] == counts["nll_loss_forward"] == 2
    said = suites.study(captured).captured
    assert said is not None
    assert "step 3 of ddp.py --width 24" in said.step
    assert 2 == len(said.exposed_s)
    assert said.calls == said.parts
    assert f": {said.calls} calls, " in made.stdout
    assert " of them distinct; primbench explain " in made.stdout


def test_layers_in_tensor_parallel_and_those_that_ranks_hold_in_parts_are_captured(tmp_path: Path) -> None:
    """What a rank's tensors wrap is recorded, and what only wraps one is nothing that computes."""
    captured, script = tmp_path / "step.toml", str(Path(__file__).with_name("sharded.py"))
    made = subprocess.run(
        [*by_two_ranks(), script, "-o", str(captured), "--step", "3"],
        capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120, check=False,
    )  # fmt: skip
    assert 0 == made.returncode, made.stderr
    entries = suites.read(captured, set="parts")
    between = {entry.labels["label"] for entry in entries if getattr(entry.problem, "ranks", 1) == 2}
    assert {
        "all_reduce",
        "_allgather_base_",
        "_reduce_scatter_base_",
    } == between  # and not allreduce_ of one rank alone
    wraps = [entry.problem.parameters() for entry in entries if "_wrap_tensor" in entry.labels["label"]]
    assert all(each["host_only"] for each in wraps)
    said = suites.study(captured).captured
    assert said is not None
    assert not isinstance(said.left_out, int)
    alone = {each.name: each.reason for each in said.left_out}
    assert "it needs the script's own group of 1 rank" == alone["allreduce_"]
    first_s, late_s = said.exposed_s  # what waits for a collective, and what marks what it does, are no operators
    assert first_s > late_s >= 0, said.exposed_s
