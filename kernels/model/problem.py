"""Model: a training or inference step of a whole network."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from primbench import stats
from primbench.errors import InvalidField
from primbench.problem import Bound, Problem, Reference, fields_of, named, option
from primbench.random import generator_of
from primbench.registry.networks import names, network, summaries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from dataclasses import Field

    import numpy as np

    from primbench.measurement import Measurement, Samples
    from primbench.problem import Array

BACKWARD = 2  # passes of a forward pass's operations: gradients of the inputs and of the weights
MOST_WORKERS = 256
FEWEST_EXAMPLES, MOST_EXAMPLES, BATCHES = 256, 1024, 4  # on disk, of which generation takes seconds at most
OF_DISK = ("loader_workers", "data_folder", "data_format", "examples", "page_cache", "on_bad_data")
# Of a prediction over the largest, of a gradient's sum over its norm: 1 where one is missing or is another.
TOLERANCE = {"float32": 1e-3, "tf32": 4e-2, "bfloat16": 0.1, "float16": 4e-2}


@dataclass(frozen=True)
class Model(Problem, name="model"):
    """Train a whole model, or have it predict: a step as torch computes it, on data that are there, copied or loaded.

    A step of train is forward, loss, backward and optimiser, as the model's original has them; one of inference is
    forward alone, without gradients. NAME is one of `primbench list models`. bfloat16 and float16 are torch's autocast.

    The batch is on the device where data=device; data=host copies it there in every step, from pinned memory unless
    --no-pin-memory. compile=graph replays the step as one CUDA graph, inductor has torch compile the network.

    cuDNN takes the algorithms that it expects to be the fastest. With cudnn_benchmark it tries them first and takes
    what was the fastest then, as training scripts often have it: another process may come to others.

    Several ranks train one model by DistributedDataParallel, over gloo on CPUs and NCCL on GPUs, each on a batch of its
    own of batch_size. Examples a second are those of all ranks, flop those of one. The share of the all-reduce is by
    how much the same steps are quicker where each rank keeps its gradients.

    With data=disk a step takes its batch from torch's DataLoader, which reads files and decodes them, and copies it:
    JPEG, MNIST's IDX, tokens, CSV or arrays, as the original of the model has them, made up with the size and entropy
    of real ones in a folder in TMPDIR that is removed at the end, or those in data_folder. data_wait is what a step
    waits for its batch, decode what an example takes. All files have been read where page_cache=warm; cold has the
    kernel drop each once it is read. With loader_workers, which load ahead, arms of a study take no turns.

    Checked are loss and gradients, or predictions, of a small batch, against the same network in float64 on the CPU,
    with nothing drawn at random. A training step is counted as three forward passes.
    """

    set_up_s = (3.0, 1.5)

    network: str = named("the model", names)
    mode: str = option("train", "what a step does", ("train", "inference"))
    batch_size: int = option(0, "examples of a step; 0 is the original's", least=0)
    dtype: str = option("float32", "products and convolutions compute in it", ("float32", "bfloat16", "float16"))
    math_mode: str = option("ieee", "of float32 on a GPU", ("ieee", "tf32"))
    data: str = option("device", "where each batch comes from", ("device", "host", "disk"))
    pin_memory: bool = option(True, "copy from pinned memory, with data=host and disk")
    loader_workers: int = option(0, "processes that load, with data=disk", least=0, most=MOST_WORKERS)
    data_folder: str = option("", "of examples to read, with data=disk; made up unless given")
    data_format: str = option("files", "what data=disk reads: the original's files, or tar files", ("files", "shards"))
    examples: int = option(
        0, "of data=disk, read in turn, or all where data_folder has fewer; 0 is 4 batches, from 256 to 1024", least=0
    )
    page_cache: str = option("warm", "whether the kernel has what data=disk reads in memory", ("warm", "cold"))
    on_bad_data: str = option("stop", "at what cannot be decoded: stop, or take others in its place", ("stop", "skip"))
    compile: str = option("eager", "how torch runs it", ("eager", "graph", "inductor"))
    cudnn_benchmark: bool = option(False, "have cuDNN try its algorithms, and take the fastest")
    ranks: int = option(1, "processes that train it together, each with a GPU or CPU of its own", least=1)

    example_sizes = ((),)  # nothing has a size
    example_fields = MappingProxyType({"network": "fathom_memnet", "batch_size": 2})
    before = MappingProxyType({"cudnn_benchmark": lambda device: device.is_gpu})  # cuDNN always tried its algorithms

    def settle(self) -> None:
        if not self.batch_size:
            object.__setattr__(self, "batch_size", summaries()[self.network].batch_size)
        if self.math_mode == "tf32" and self.dtype != "float32":
            raise InvalidField(f"model math_mode=tf32 is for float32, not {self.dtype}")
        if self.compile == "graph" and self.data != "device":
            raise InvalidField(f"model compile=graph replays one batch: data=device, not {self.data}")
        self._settle_ranks()
        self._settle_disk()

    def _settle_ranks(self) -> None:
        if self.ranks > 1 and (self.mode, self.compile) != ("train", "eager"):
            raise InvalidField(
                f"model ranks={self.ranks} is for mode=train and compile=eager, not {self.mode} and {self.compile}"
            )
        if self.ranks > 1 and self.data == "disk":
            raise InvalidField(f"model ranks={self.ranks} is for data=device and data=host, not disk")

    def _settle_disk(self) -> None:
        if self.data != "disk":
            given = next((each for each in fields_of(self) if self._has_changed(each)), None)
            if given is not None:
                value = getattr(self, given.name)
                raise InvalidField(f"model {given.name}={value}: is for data=disk, not data={self.data}")
            return
        if not self.examples:
            suiting = min(MOST_EXAMPLES, max(FEWEST_EXAMPLES, BATCHES * self.batch_size))
            object.__setattr__(self, "examples", max(self.batch_size, suiting))
        if self.examples < self.batch_size:
            raise InvalidField(f"model examples={self.examples}: at least batch_size={self.batch_size}")
        if self.data_folder:
            object.__setattr__(self, "data_folder", os.path.abspath(os.path.expanduser(self.data_folder)))
            if not self.data_folder.isprintable():
                raise InvalidField(f"model data_folder={self.data_folder!r}: a name that can be shown")

    def _has_changed(self, field: Field[Any]) -> bool:
        return field.name in OF_DISK and getattr(self, field.name) != field.default

    @property
    def is_training(self) -> bool:
        return self.mode == "train"

    def flop(self) -> int:
        passes = 1 + BACKWARD if self.is_training else 1
        found = network(self.network).flop(self.batch_size)
        if not hasattr(found, "__index__"):
            raise TypeError(f"model {self.network}: flop() gives {found!r:.60}, not a whole number")
        return passes * int(found)  # which may be NumPy's

    def folder(self) -> str | None:
        return self.data_folder or None

    def why_alone(self) -> str | None:
        return "its loader_workers load ahead between calls" if self.loader_workers else None

    def unfed(self) -> Model | None:
        return replace(self, data="device", pin_memory=True) if self.data == "host" else None

    def bytes_moved(self) -> None:
        """Each layer reads what the one before it wrote, and how often depends on what is fused."""

    def bound(self) -> Bound:
        return Bound("flop_per_s", self.dtype, self.math_mode)

    def memory_bytes(self) -> int:
        """Weights, what training keeps beside them and between its passes; for inference the largest two layers."""
        from primbench.kernels.model._memory import step_bytes

        kind, is_reduced = type(network(self.network)), self.ranks > 1
        return step_bytes(kind, self.batch_size, is_training=self.is_training, is_reduced=is_reduced)

    def figures(self, measured: Measurement) -> dict[str, float | None]:
        """launch_bound: the share of a step's time in a loop for which the GPU waits for launches.

        allreduce: by how much a step is quicker that reduces nothing, the median of those compared one after the other;
        allreduced: a rank's gradients. waiting: the share of a step in which the program waits for its batch. read:
        from files, for each step.
        """
        main = measured.main
        return {
            "examples_per_second": main.per_second(self.ranks * self.batch_size) if main else None,
            "launch_bound_fraction": measured.launch_bound_fraction,
            **_of_ranks(measured),
            **_of_data(measured),
        }

    def inputs(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """A batch, and int8[1]: 1, for random numbers are drawn as the original does."""
        import numpy as np

        batch: object = network(self.network).inputs(rng, self.batch_size)
        if not isinstance(batch, tuple):
            raise TypeError(f"model {self.network}: inputs() gives a {type(batch).__name__}, not a tuple of arrays")
        return (*batch, np.ones(1, np.int8))

    def check_inputs(self, rng: np.random.Generator, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """A smaller batch, for the float64 of it takes a CPU; and 0: no device draws what another draws."""
        import numpy as np

        found = network(self.network)
        return (*found.checked_inputs(rng, min(self.batch_size, found.checked_batch)), np.zeros(1, np.int8))

    def reference(self, rng: np.random.Generator, *inputs: Array) -> Reference:
        """float64[values]: loss and sums of gradients, or the predictions."""
        (found,) = self._references([inputs])
        return found

    def inputs_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """What one of the ranks trains on."""
        return self.inputs(generator_of(rank, seed))

    def checked_of(self, rank: int, seed: int) -> tuple[Array, ...]:
        """What it is checked on."""
        return self.check_inputs(generator_of(rank, seed + 1), ())

    def told_of(self, output: Array, rank: int, seed: int) -> list[float]:
        """All of it: loss and sums of gradients."""
        told: list[float] = output.tolist()
        return told

    def error_of(self, told: list[list[float | None]], seed: int) -> float:
        """The largest error of all ranks. Raises VerificationError where one is too large."""
        import numpy as np

        from primbench.timing.verify import error_of

        references = self._references([self.checked_of(rank, seed) for rank in range(self.ranks)])
        outputs = np.array(told, np.float64)
        return max(error_of(output, self, right) for output, right in zip(outputs, references, strict=True))

    def _references(self, inputs: Sequence[Sequence[Array]]) -> list[Reference]:
        from primbench.kernels.model._check import expected

        return expected(
            network(self.network, draws=False), [batch for *batch, _ in inputs],
            is_training=self.is_training, arithmetic=self._arithmetic, tolerance=self.tolerance(),
        )  # fmt: skip

    def tolerance(self) -> float:
        return TOLERANCE[self._arithmetic]

    @property
    def _arithmetic(self) -> str:
        return "tf32" if self.math_mode == "tf32" else self.dtype


def _saved(with_s: Samples, without_s: Samples) -> float | None:
    pairs = zip(with_s.samples_s, without_s.samples_s, strict=False)
    shares = [without / whole for whole, without in pairs if whole]
    return 1 - stats.quantile(shares, 0.5) if shares else None


def _of_ranks(measured: Measurement) -> dict[str, float | None]:
    with_s, without_s = (measured.others.get(name) for name in ("with_allreduce_s", "without_allreduce_s"))
    return {
        "allreduce_fraction": _saved(with_s, without_s) if with_s and without_s else None,
        "allreduced_bytes": measured.counts.get("allreduced_bytes"),
    }


def _of_data(measured: Measurement) -> dict[str, float | None]:
    main, wait_s, read = measured.main, measured.others.get("data_wait_s"), measured.data
    return {
        "waiting_fraction": main.per_second(wait_s.median_s) if wait_s and main else None,
        "read_bytes": read.read_bytes if read else None,
        "bad_examples": read.bad_examples if read else None,
    }
