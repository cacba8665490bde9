"""`primbench numa`: Measure which memory node and which CPUs are near which GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from primbench import backends
from primbench.cli.completing import complete
from primbench.cli.echo import say
from primbench.cli.measuring import announced, exit_as, run_cases, writing
from primbench.cli.option_types import DEVICE, FILE, TIMEOUT, WholeNumber, parsed
from primbench.cli.options import Exports, Recorded, json_option, overwrite_option
from primbench.cli.outputs import check_files, publish
from primbench.cli.request import RequestCommand, dataclass, option, part
from primbench.errors import BackendUnavailable
from primbench.experiments import numa
from primbench.experiments.numa import CPU
from primbench.experiments.numa_analysis import analyse
from primbench.numa import scan
from primbench.report import numa as words
from primbench.results.file import Results
from primbench.results.writer import header
from primbench.spec.defaults import ALL, DEFAULT_TIMEOUT_S
from primbench.suites.numa import CHASE, COPY, OF_GPU
from primbench.system import memory
from primbench.units import parse_size
from primbench.workers.plan import choose
from primbench.workers.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from primbench.spec.case import Case

RANK = 130
GPU_BYTES = 128 * 2**20
HOST_BYTES = (64 * 2**20, 256 * 2**20)  # twice the caches within these: with more, a cell takes half a minute
MOST_ROUNDS = 1000
MANY_CASES = 200  # these take some minutes


@dataclass(frozen=True, kw_only=True)
class MeasureNodes:
    """To measure which node is near which GPU."""

    device: str | None = option(
        "--device", group="Where", type=DEVICE, metavar="cpu|cuda:N|all", help="Default: all GPUs, else the CPU."
    )
    backend: str | None = option(
        "--backend", group="Measure", metavar="NAME", shell_complete=complete(backends.names),
        help=f"{', '.join(backends.files())}. Default: the best one on the device.")  # fmt: skip
    rounds: int = option(
        "--rounds", group="Measure", type=WholeNumber(1, MOST_ROUNDS), metavar="N", default=5, show_default=True,
        help="Fresh processes of every CPU node; intervals are over them.")  # fmt: skip
    size_bytes: int | None = option(
        "--bytes", group="Measure", type=parsed("size", parse_size), metavar="SIZE",
        help="Size of a copy, or of the buffer to load from. "
             "Default: 128 MiB on a GPU, else twice the caches, 64 to 256 MiB.")  # fmt: skip
    seed: int = option(
        "--seed", group="Measure", is_rare=True, type=WholeNumber(0), metavar="N", default=0, show_default=True,
        help="Seed of the inputs and of the order of cells.")  # fmt: skip
    timeout_s: float = option(
        "--timeout", group="Measure", is_rare=True, type=TIMEOUT, default=DEFAULT_TIMEOUT_S,
        help=f"Give up a case after so long. Default: {DEFAULT_TIMEOUT_S:g}s.")  # fmt: skip
    record: Recorded = part(Recorded)
    json: str | None = json_option("the matrices as one JSON document")
    page: str | None = option(
        "--report", group="Output", type=FILE, metavar="FILE", help="Write one HTML page with pictures; - is stdout."
    )
    overwrite: bool = overwrite_option()


def _run(asked: MeasureNodes) -> None:
    record = asked.record
    check_files([asked.json, asked.page], results=record.output, overwrite=asked.overwrite)
    found = scan.collect()
    axes = numa.axes_of(found)
    chosen, missing = _backends(asked.backend, asked.device)
    size_bytes = asked.size_bytes
    if size_bytes is None:
        size_bytes = _default_bytes(on_host=all(device == CPU for device, _ in chosen))
    cases = numa.cases_of(axes, chosen, size_bytes=size_bytes, rounds=asked.rounds, seed=asked.seed)
    if not record.quiet:
        _warn_of_many(cases)
    session = Session(timeout_s=asked.timeout_s, verbose=record.verbose, skip_misplaced=True)
    results = Results(header=header(sys.argv, dict(record.labels)), workers=[], records=[])
    with writing(record, None, results.header, overwrite=asked.overwrite) as writer:
        ended = run_cases(
            lambda shown: session.run(announced(cases, shown)),
            len(cases),
            session,
            writer=writer,
            found=results,
            record=record,
            exports=Exports(),
        )
    result = analyse(
        axes, found, results.records, missing=missing, size_bytes=size_bytes, rounds=asked.rounds, seed=asked.seed
    )
    publish(words.document(result, found, results), {"json": asked.json, "report": asked.page})
    exit_as(ended, results.records)


def _warn_of_many(cases: Sequence[Case]) -> None:
    if len(cases) > MANY_CASES:
        workers = {(case.placement, case.process, case.device) for case in cases}
        say(f"{len(cases)} cases in {len(workers)} processes; fewer --rounds take less.", err=True)


def _backends(backend: str | None, device: str | None) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """(device, primitive) -> backend, and what is not measured, with the reason.

    Raises BackendUnavailable or InvalidRequest for a backend or device that is named and cannot be had.
    """
    named = [backend] if backend else []
    places = choose(COPY, named, device)
    if device is None and places[0][1] != CPU:
        places = choose(COPY, named, ALL)
    if places[0][1] != CPU:
        return {(device, primitive): name for name, device in places for primitive in OF_GPU}, {}
    try:
        ((chaser, _),) = choose(CHASE, [], CPU)
    except BackendUnavailable as absent:
        return {(CPU, COPY): places[0][0]}, {CHASE: str(absent)}
    return {(CPU, COPY): backend or chaser, (CPU, CHASE): chaser}, {}


def _default_bytes(*, on_host: bool) -> int:
    """A copy that caches do not hold; a GPU's goes past those of the host in pieces, and may be smaller."""
    if not on_host:
        return GPU_BYTES
    least, most = HOST_BYTES
    return min(max(least, 2 * memory.last_level_cache_bytes()), most)


command = RequestCommand(
    "numa",
    MeasureNodes,
    _run,
    help="Measure which NUMA node is near which GPU, and what the others cost.\n\n"
         "Copies with the thread on every node that has CPUs and the buffer on every node that has memory, both "
         "ways, pinned and pageable, and launches from every node, in rounds of fresh processes. Without a GPU: "
         "copies within the host, and the time of a load from memory.\n\n"
         "\b\n"
         "primbench numa\n"
         "primbench numa --device cpu --report numa.html",
)  # fmt: skip
