"""Models whose batches come from files: what they read, what they wait for, and what bad data or a dead worker ends."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from primbench import Method, measure
from primbench.backends import missing, open_backend
from primbench.datasets.dataset import format_of, write
from primbench.errors import InvalidRequest, PrimbenchError, UnsupportedCase
from primbench.kernels.model import Model
from primbench.problem import description_of
from primbench.registry import setup_of
from primbench.registry.networks import network

QUICK = Method(min_time_s=0.001, max_time_s=0.005)
SMALL = "fathom_memnet"
DIGITS = "mnist_cnn"
with_torch = [pytest.mark.wheel, pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loader_workers": 1}, "loader_workers=1: is for data=disk, not data=device"),
        ({"data": "host", "page_cache": "cold"}, "page_cache=cold: is for data=disk, not data=host"),
        ({"data": "disk", "compile": "graph"}, "replays one batch"),
        ({"data": "disk", "examples": 31}, "examples=31: at least batch_size=32"),
        ({"data": "disk", "data_folder": "a\0b"}, "a name that can be shown"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        Model(SMALL, **changes)


@pytest.mark.parametrize(("batch_size", "examples"), [(1, 256), (100, 400), (512, 1024), (3000, 3000)])
def test_as_many_examples_as_suit_the_batch(batch_size: int, examples: int) -> None:
    assert examples == Model(SMALL, batch_size=batch_size, data="disk").examples
    assert 0 == Model(SMALL, batch_size=batch_size).examples


def test_only_what_loads_ahead_takes_no_turns() -> None:
    assert Model(SMALL, data="disk").why_alone() is None
    assert "its loader_workers load ahead" in str(Model(SMALL, data="disk", loader_workers=1).why_alone())


def calls(step: Callable[[], Any], count: int) -> None:
    for _ in range(count):
        step()


class TestByTorch:
    pytestmark = with_torch

    @pytest.fixture(autouse=True)
    def temporary(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Where examples are made, of which nothing may be left, as of the processes that load them.

        Its name is short, as those of sockets have to be.
        """
        before = psutil.Process().children()
        with tempfile.TemporaryDirectory() as folder:
            monkeypatch.setenv("TMPDIR", folder)
            yield
            gc.collect()
            assert [] == os.listdir(folder)
        assert [] == psutil.wait_procs([each for each in psutil.Process().children() if each not in before], 20)[1]

    @staticmethod
    def step(problem: Model) -> Any:
        backend = open_backend("torch", "cpu")
        inputs = problem.inputs(np.random.default_rng(0))
        return setup_of("model", "torch")(backend, problem, *map(backend.put, inputs))

    @staticmethod
    def digits(folder: Path, *, bad: int) -> None:
        """Of which the first ones have labels that there are not."""
        folder.mkdir()
        write(format_of(network(DIGITS)), str(folder), 16, as_shards=False)
        labels = folder / "train-labels-idx1-ubyte"
        content = labels.read_bytes()
        labels.write_bytes(content[:8] + bad * b"\xff" + content[8 + bad :])

    @pytest.mark.parametrize("data_format", ["files", "shards"])
    def test_steps_are_measured_with_what_they_wait_for_and_read(self, data_format: str) -> None:
        problem = Model(SMALL, batch_size=4, examples=10, data="disk", data_format=data_format)
        measured = measure(problem, "torch", "cpu", method=QUICK)
        assert measured.verified
        assert {"data_wait_s", "decode_s"} == set(measured.others)
        wait_s, decode_s = (measured.others[name] for name in ("data_wait_s", "decode_s"))
        assert len(wait_s.samples_s) == len(decode_s.samples_s)
        assert 0 < decode_s.median_s < wait_s.median_s
        read = measured.data
        assert read is not None
        assert (10, 0, [], 1.0) == (read.examples, read.bad_examples, read.bad, read.cached_fraction)
        assert 4 * 50 < read.read_bytes < 4 * 200, "lines of 67 numbers"
        assert f"DataLoader of {data_format} on " in str(measured.algorithm)
        figures = problem.figures(measured)
        assert (read.read_bytes, 0) == (figures["read_bytes"], figures["bad_examples"])
        assert 0 < (figures["waiting_fraction"] or 0) < 1

    def test_a_batch_has_other_examples_than_the_one_before_and_all_come_in_a_pass(self) -> None:
        step = self.step(Model(SMALL, batch_size=4, examples=8, data="disk", mode="inference"))
        found = [step().numpy().copy() for _ in range(6)]
        passes = [np.sort(np.concatenate(found[first : first + 2]), axis=0) for first in (0, 2, 4)]
        assert not np.array_equal(found[0], found[1])
        assert all(np.allclose(each, passes[0], atol=1e-6) for each in passes)

    def test_workers_load_and_one_that_is_killed_ends_the_case_in_one_line(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from torch.utils.data import dataloader
        from torch.utils.data._utils import signal_handling

        looks = dataloader._MultiProcessingDataLoaderIter._try_get_data
        monkeypatch.setattr(looks, "__defaults__", (0.1,))  # seconds between two looks whether workers live, not 5
        monkeypatch.setattr(signal_handling, "_SIGCHLD_handler_set", False)
        before_any = signal.getsignal(signal.SIGCHLD)
        signal_handling._set_SIGCHLD_handler()  # as a loader elsewhere does: it raises wherever the process is then
        monkeypatch.setattr(tempfile, "tempdir", os.environ["TMPDIR"])  # where it would leave its sockets
        before = set(psutil.Process().children())
        step = self.step(Model(SMALL, "inference", batch_size=4, examples=8, data="disk", loader_workers=1))
        calls(step, 5)
        assert "1 workers by fork" in str(description_of(step).algorithm)
        this = psutil.Process()
        (worker,) = [each for each in set(this.children()) - before if each.cmdline() == this.cmdline()]  # it is forked
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(PrimbenchError, match=r"^data in .+: loader_workers: .+: one was killed, or is out of"):
            calls(step, 10)
        assert signal.SIG_DFL == signal.signal(signal.SIGCHLD, before_any)

    def test_bad_data_stop_the_case_and_name_what_is_to_be_mended(self, tmp_path: Path) -> None:
        self.digits(tmp_path / "digits", bad=1)
        step = self.step(Model(DIGITS, batch_size=16, data="disk", data_folder=str(tmp_path / "digits")))
        with pytest.raises(PrimbenchError) as stopped:
            step()
        words = "image 0: label 255 where there are 10: mend it, or go on without it: on_bad_data=skip"
        assert f"data in {tmp_path / 'digits'}: {words}" == str(stopped.value)

    def test_bad_data_are_counted_and_named_where_they_are_skipped(self, tmp_path: Path) -> None:
        self.digits(tmp_path / "digits", bad=6)
        folder = str(tmp_path / "digits")
        step = self.step(Model(DIGITS, batch_size=8, data="disk", data_folder=folder, on_bad_data="skip", examples=16))
        calls(step, 4)
        read = description_of(step).data
        assert read is not None
        found = read()
        assert (6, 5) == (found.bad_examples, len(found.bad))
        assert all(each.endswith(": label 255 where there are 10") for each in found.bad)

    def test_a_batch_of_nothing_but_bad_data_ends_the_case(self, tmp_path: Path) -> None:
        self.digits(tmp_path / "digits", bad=16)
        problem = Model(
            DIGITS, batch_size=8, data="disk", data_folder=str(tmp_path / "digits"), on_bad_data="skip", examples=16
        )
        with pytest.raises(PrimbenchError, match="label 255 where there are 10: so is all of its batch: mend them, or"):
            self.step(problem)()

    def test_fewer_examples_than_a_batch_are_refused(self, tmp_path: Path) -> None:
        self.digits(tmp_path / "digits", bad=0)
        with pytest.raises(PrimbenchError, match="digits: 16 examples, and a batch has 64"):
            self.step(Model(DIGITS, data="disk", data_folder=str(tmp_path / "digits")))

    def test_a_network_that_reads_nothing_is_refused(self) -> None:
        with pytest.raises(UnsupportedCase, match="model fathom_deepq has nothing on disk"):
            self.step(Model("fathom_deepq", batch_size=2, data="disk"))

    def test_a_folder_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(PrimbenchError, match="data in /nowhere: No such file or directory: files NAME"):
            self.step(Model(SMALL, data="disk", data_folder="/nowhere"))


PIXELS = '''
import numpy as np
import torch

from primbench.problem.examples import TINY_IMAGENET
from primbench.problem.network import Network


class Pixels(Network, name="pixels"):
    """One dense layer over small images."""

    batch_size = 4
    original = "a test's"
    classes = 1000
    on_disk = TINY_IMAGENET

    def module(self):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 1000))

    def inputs(self, rng, batch_size):
        return rng.random((batch_size, 3, 8, 8), np.float32) * 2 - 1, rng.integers(0, 1000, batch_size)

    def predict(self, module, x, y):
        return module(x)

    def loss(self, module, x, y):
        return torch.nn.functional.cross_entropy(module(x), y)

    def optimiser(self, parameters):
        return torch.optim.SGD(parameters, 0.1)

    def flop(self, batch_size):
        return 2 * 3 * 64 * 1000 * batch_size
'''


@pytest.mark.wheel
@pytest.mark.skipif(missing("torch") is not None, reason=str(missing("torch")))
def test_a_corrupt_image_among_good_ones_is_skipped_counted_and_named(tmp_path: Path) -> None:
    """From the command line, on images in folders of classes."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'primbench[data]'")
    for name in ("cats", "dogs"):
        (tmp_path / name).mkdir()
        for number in range(4):
            image.new("RGB", (20, 30)).save(tmp_path / f"{name}/{number}.jpg")
    (tmp_path / "dogs/2.jpg").write_bytes(b"")
    (tmp_path / "pixels.py").write_text(PIXELS)
    command = [*(sys.executable, "-P", "-m", "primbench", "--kernels", tmp_path / "pixels.py", "model", "pixels")]
    data = ["--data", "disk", "--data-folder", tmp_path, "--on-bad-data", "skip", "--mode", "inference"]
    how = ["--examples", 8, "--device", "cpu", "--min-time", "1ms", "--max-time", "5ms", "--json", "-"]
    done = subprocess.run(
        [*map(str, [*command, *data, *how])], capture_output=True, text=True, timeout=120, check=False
    )
    assert 0 == done.returncode, done.stderr
    (record,) = json.loads(done.stdout)["records"]
    found = record["measurement"]["data"]
    assert ("ok", 1, ["dogs/2.jpg: it is no image"]) == (record["status"], found["bad_examples"], found["bad"])
