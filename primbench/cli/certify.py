"""`primbench certify`: Measure a node from all sides, and say whether it is fit."""

from __future__ import annotations

import sys

from primbench.cli.option_types import FILE, TIMEOUT
from primbench.cli.options import Exports
from primbench.cli.request import RequestCommand, argument, dataclass, option, part

RANK = 85
HELP = """Measure this node into FOLDER, and say whether it is fit, why not, and what to do.

Of the host its launches, memory and the disk of the data, and its arithmetic where there is no GPU; of GPUs launches,
arithmetic, memory and copies from each memory node, each alone and then all at once, and what is between each two of
them. Each is set beside its peers in FOLDER, and outputs have to be the same to the last bit.

\b
primbench certify certificate/ --data /scratch --report certificate.html
srun -N 64 primbench certify fleet/
primbench certify fleet/ --read --against healthy

Exit status: 0 where nothing wrong was found, 1 where one is not fit, 2 where nothing can be measured, or is there to be
read.
"""


@dataclass(frozen=True, kw_only=True)
class CertifyNode:
    """To measure a node from all sides."""

    folder: str = argument(type=FILE, metavar="FOLDER")
    read: bool = option("--read", is_flag=True, help="Measure nothing: judge what nodes left in FOLDER.")
    data: str | None = option(
        "--data", type=FILE, metavar="DIR", help="Read and write data there. Default: where TMPDIR says.")  # fmt: skip
    soak_s: float | None = option(
        "--for", type=TIMEOUT, metavar="DURATION",
        help="Then do the same product again and again for so long, on all GPUs at once, and say how its time drifts.",
    )  # fmt: skip
    against: str | None = option(
        "--against", type=FILE, metavar="NAME|FOLDER",
        help="Say where each stands among a population: one kept by --save-as, or another FOLDER.")  # fmt: skip
    save_as: str | None = option(
        "--save-as", metavar="NAME",
        help="Add what is in FOLDER to the population NAME, in .primbench/certificates.")  # fmt: skip
    exports: Exports = part(Exports)


def _certify(asked: CertifyNode) -> None:
    from datetime import UTC, datetime
    from pathlib import Path

    from primbench.baselines.named import name_of
    from primbench.cli import certifying
    from primbench.cli.outputs import check_outputs, publish
    from primbench.fleet.certificate import certify
    from primbench.fleet.certificate_report import document

    folder = Path(asked.folder)
    if asked.save_as is not None:
        name_of(asked.save_as)
    population = None if asked.against is None else (asked.against, certifying.population(asked.against))
    check_outputs(asked.exports)
    if not asked.read and not certifying.measure(folder, asked.data, asked.soak_s, overwrite=asked.exports.overwrite):
        return
    found = certify(folder, population)
    publish(document(found, f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S UTC}"), asked.exports.files)
    if asked.save_as is not None:
        certifying.save(asked.save_as, folder)
    if not found.is_fit:
        sys.exit(1)


command = RequestCommand("certify", CertifyNode, _certify, help=HELP)
