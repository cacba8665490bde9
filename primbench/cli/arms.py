"""`primbench arms`: List the runtimes of a study, and which work here."""

from __future__ import annotations

import click

RANK = 100


@click.command()
def command() -> None:
    """List the runtimes that an arm of a study may name, which of them work here, and what each can set.

    A container that does nothing is started by each that is installed, and no virtual machine, which takes seconds to
    boot. No other machine is asked: none is named.

    \b
    An arm in words: host, podman, docker:cpus=2,seccomp=unconfined,
    podman:image=NAME,cpuset=0-3+8,memory=4GiB,env.OMP_NUM_THREADS=1
    ssh:HOST,python=/opt/venv/bin/python
    ssh:HOST,runtime=podman,cpus=2 slurm:NODE k8s:IMAGE,gpus=1
    """
    from concurrent.futures import ThreadPoolExecutor

    from primbench.report import text
    from primbench.report.document import Document, Note, Section, Table
    from primbench.runtimes.table import known
    from primbench.spec.arm import PLACEMENT_KEYS, SETTING_KEYS
    from primbench.workers.trial import works_here

    with ThreadPoolExecutor() as pool:
        found = list(pool.map(works_here, known()))
    rows = []
    for (name, runtime), (words, version) in zip(known().items(), found, strict=True):
        able = [key for field, key in SETTING_KEYS.items() if field in runtime.settings]
        rows.append([name, version or "-", words, ", ".join(able)])
    headings = ["runtime", "version", "works here", "sets"]
    more = f"In all of them: name, {', '.join(PLACEMENT_KEYS)}. image=host, the default, is the host's own root."
    told = [Section("", [Table.listed("", rows, headings)]), Section("", [Note(more)])]
    click.echo(text.write(Document("arms", None, lambda: told)), nl=False)
