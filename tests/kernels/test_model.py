"""Whole models: steps are those of their originals, checked against float64, and named without importing torch."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.errors import InvalidRequest, UnsupportedCase, VerificationError
from primbench.kernels.model import Model
from primbench.measurement import Measurement, Samples
from primbench.registry import networks, setup_of
from primbench.timing.verify import check_output

QUICK = Method(min_time_s=0.001, max_time_s=0.005)
SMALL = "mnist_cnn"
with_torch = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


def test_the_batch_is_the_originals_where_none_is_named() -> None:
    assert (64, 8) == (Model(SMALL).batch_size, Model(SMALL, batch_size=8).batch_size)


@pytest.mark.parametrize(("named", "meant"), [("resnet9", r"resnet\d+"), ("autoenc", "fathom_autoenc")])
def test_a_model_that_is_not_there_is_answered_with_those_that_are(named: str, meant: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^model network='{named}': did you mean {meant}\? one of .*\b{SMALL}\b"):
        Model(named)


def test_what_is_said_of_models_is_known_without_torch() -> None:
    look = "import sys; from primbench.registry import networks; print(networks.names(), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", look], capture_output=True, text=True, check=True)
    assert (True, True) == (SMALL in done.stdout, done.stdout.endswith("False\n"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "bfloat16", "math_mode": "tf32"}, "tf32 is for float32"),
        ({"compile": "graph", "data": "host"}, "replays one batch"),
        ({"batch_size": -1}, "batch_size=-1"),
    ],
)
def test_options_that_exclude_each_other(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        Model(SMALL, **changes)


def test_examples_a_second_and_what_waits_for_launches() -> None:
    half_s, quarter_s = (
        Samples(samples_s=[each], calls_per_sample=1, taken_by="", stopped="count") for each in (0.5, 0.25)
    )
    of_cpu = Model(SMALL, batch_size=8).figures(Measurement(batch_s=half_s))
    assert {"examples_per_second": 16.0} == {name: value for name, value in of_cpu.items() if value is not None}
    of_gpu = Model(SMALL, batch_size=8).figures(Measurement(stream_s=half_s, device_s=quarter_s))
    assert (32.0, 0.5) == (of_gpu["examples_per_second"], of_gpu["launch_bound_fraction"])


class TestByTorch:
    pytestmark = with_torch

    @staticmethod
    def prepared(problem: Model) -> tuple[Any, Any]:
        backend, rng = open_backend("torch", "cpu"), np.random.default_rng(1)
        inputs = problem.check_inputs(rng, problem.inputs(rng))
        step = setup_of("model", "torch")(backend, problem, *map(backend.put, inputs))
        return step, lambda: check_output(backend, problem, step, problem.reference(rng, *inputs))

    @pytest.mark.parametrize("mode", ["train", "inference"])
    def test_a_step_is_measured_and_checked(self, mode: str) -> None:
        measured = measure(Model(SMALL, mode=mode, batch_size=4), "torch", "cpu", method=QUICK)
        assert (True, True) == (measured.verified, measured.batch_s is not None)
        assert measured.flop is not None

    def test_a_gradient_that_is_wrong_is_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Model(SMALL, batch_size=4)
        _, check = self.prepared(problem)
        assert check() < 1e-3
        step, check = self.prepared(problem)
        network = networks.network(SMALL)

        def forget_one(self: Any, module: Any) -> None:
            next(module.parameters()).grad.zero_()

        reference = problem.reference
        expected = reference(np.random.default_rng(1), *problem.check_inputs(np.random.default_rng(1), ()))
        monkeypatch.setattr(type(network), "after_backward", forget_one)
        with pytest.raises(VerificationError, match="wrong result"):
            check_output(open_backend("torch", "cpu"), problem, step, expected)

    def test_training_goes_on_from_call_to_call(self) -> None:
        step, _ = self.prepared(Model(SMALL, batch_size=4))
        losses = [float(step().get()[0]) for _ in range(8)]
        assert losses[-1] < losses[0]

    @pytest.mark.parametrize(
        "change",
        [
            {"data": "host"},
            {"compile": "graph"},
            {"math_mode": "tf32"},
            {"dtype": "float16"},
            {"cudnn_benchmark": True},
        ],
    )
    def test_what_a_cpu_does_not_do_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(UnsupportedCase, match="is for GPUs"):
            self.prepared(Model(SMALL, **change))

    def test_cudnn_tries_its_algorithms_where_that_is_asked_for(self) -> None:
        import torch

        from primbench.kernels.model.torch import set_precision

        found = []
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            for asked in (False, True):
                set_precision(torch, Model(SMALL, cudnn_benchmark=asked))
                found.append(torch.backends.cudnn.benchmark)
        assert [False, True] == found

    def test_a_step_fed_from_much_pageable_memory_says_that_it_waits(self) -> None:
        """Which a GPU that was held would tell only after a second in each process."""
        import torch

        from primbench.kernels.model.torch import _why_it_waits

        labels, images = torch.zeros(64, dtype=torch.int64), torch.zeros(64, 3, 28, 28)
        assert "waits for the GPU" in _why_it_waits([images, labels], pinned=False)
        assert ["", "", ""] == [
            _why_it_waits(host, pinned=pinned) for host, pinned in (([images], True), ([labels], False), ([], False))
        ]

    def test_what_memory_a_network_takes_is_asked_of_it_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        kind = type(networks.network("fathom_autoenc"))
        loss = Mock(side_effect=kind.loss)
        monkeypatch.setattr(kind, "loss", lambda self, *given: loss(self, *given))
        sizes = [Model("fathom_autoenc", batch_size=batch).memory_bytes() for batch in (1, 2, 3)]
        assert (sizes[1] - sizes[0], 1) == (sizes[2] - sizes[1], loss.call_count)

    def test_what_a_network_keeps_that_looks_at_its_numbers_is_found_out_by_an_example(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from primbench.kernels.model import _memory

        kind = type(networks.network("mnist_cnn"))
        by_shapes = _memory._kept_bytes.__wrapped__(kind)
        loss = kind.loss
        monkeypatch.setattr(kind, "loss", lambda self, *given: loss(self, *given) * (given[1].sum().item() < 1e9))
        assert 0 < by_shapes <= _memory._kept_bytes.__wrapped__(kind) <= 1.1 * by_shapes


PAGE = (Path(__file__).parents[2] / "docs/own-model.md").read_text()
(DENSE,) = (text for text in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if "class " in text)


MISTAKES = {  # what is written instead of what, and what is said of it: nothing where it is none
    "dense": ("", "", None),
    "numpys": ("return 2 * 3 * 2 * batch_size", "return np.int64(12 * batch_size)", None),
    "real": ("return 2 * 3 * 2 * batch_size", "return 1e6", "flop() gives 1000000.0, not a whole number"),
    "lone": (", rng.integers(0, 2, batch_size)", "", "inputs() gives a ndarray, not a tuple of arrays"),
    "drawing": ("return torch.nn.Linear(3, 2)", "return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())",
                "a step gives something else the next time"),
    "noisy": ("(module(x), y)", "(module(x + np.random.default_rng().random()), y)",
              "a step gives something else the next time"),
    "decaying": ("(module(x), y)", "(module(x), y) * module.weight.data.mul_(0.9).sign().abs().mean()",
                 "a step gives something else the next time"),
    "penalised": ("(module(x), y)", "(module(x.requires_grad_()), y)", None),
    "centring": ("(module(x), y)", "(module(x.sub_(x.mean())), y)", "a step changes its inputs"),
}  # fmt: skip


MEASURES = """
import json, sys
from primbench import Method, measure
from primbench.kernels.model import Model
from primbench.registry import add_file

for name in sys.argv[1:]:
    add_file(f"{name}.py")
    try:
        measure(Model(name), "torch", "cpu", method=Method(min_time_s=0.001, max_time_s=0.005))
    except Exception as error:
        print(json.dumps(str(error)))
    else:
        print(json.dumps(None))
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of the files of models, the documentation's and those with mistakes."""
    for name, (written, instead, _) in MISTAKES.items():
        assert not written or 1 == DENSE.count(written)
        text = DENSE.replace(written, instead).replace('name="dense"', f'name="{name}"')
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_mistakes_in_models_of_ones_own_are_named(own: Path) -> None:
    """In one process for all, since one that imports torch takes seconds."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", MEASURES, *MISTAKES],
        cwd=own, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)
    for line, (name, (_, _, words)) in zip(done.stdout.splitlines(), MISTAKES.items(), strict=True):
        said = json.loads(line)
        assert said is None if words is None else f"model {name}: {words}" in said


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_models_of_ones_own_are_measured_from_their_files_and_a_mistake_is_the_reason_of_its_case(own: Path) -> None:
    named = ["dense", "numpys", "lone"]
    asked = [*(word for name in named for word in ("--kernels", own / f"{name}.py")), "model", *named]
    how = ["--device", "cpu", "--min-time", "1ms", "--max-time", "5ms", "--json", "-", "-q"]
    done = subprocess.run(
        [*map(str, [sys.executable, "-P", "-m", "primbench", *asked, *how])],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (1, "") == (done.returncode, done.stderr)
    found = json.loads(done.stdout)["records"]
    assert [(name, "failed" if name == "lone" else "ok") for name in named] == [
        (each["case"]["parameters"]["network"], each["status"]) for each in found
    ]
    assert [None, None] == [each["reason"] for each in found[:2]]
    assert f"model lone: {MISTAKES['lone'][2]}" in found[2]["reason"]


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_model_whose_thread_never_ends_is_captured_and_one_that_fails_is_one_line(tmp_path: Path) -> None:
    thread = "import threading, time\n        threading.Thread(target=time.sleep, args=(600,)).start()\n        "
    of_loss = "return torch.nn.functional.cross_entropy"
    own = tmp_path / "my own"
    own.mkdir()
    (own / "waiting.py").write_text(DENSE.replace(of_loss, thread + of_loss))
    (own / "failing.py").write_text(DENSE.replace(of_loss, "return print"))

    def captured(name: str) -> subprocess.CompletedProcess[str]:
        asked = ["--kernels", own / f"{name}.py", "capture", "model:dense", "-o", tmp_path / f"{name}.toml"]
        return subprocess.run(
            [*map(str, [sys.executable, "-P", "-m", "primbench", *asked])],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    waiting, failing = captured("waiting"), captured("failing")
    assert (0, True) == (waiting.returncode, (tmp_path / "waiting.toml").exists()), waiting.stderr
    assert f"primbench --kernels '{own}/waiting.py' explain " in waiting.stdout
    assert (1, 1) == (failing.returncode, failing.stderr.count("\n")), failing.stderr
    assert failing.stderr.startswith("Error: model dense: AttributeError: ")
