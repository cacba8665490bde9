"""A host against itself by ssh, as docs/elsewhere.md has it: what a connection and a worker that was sent cost kernels.

python -m tests.figures.ssh_against_host [OPTIONS OF primbench study]

From the root of the repository. The server is one of its own, with its own keys, as the tests have it; as root at the
other end of a cable, in a network namespace. Without options small products of NumPy are compared until all is told.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.containers.sshd import server

SMALL = ["--primitive", "gemm", "--sizes", "small", "--backend", "numpy", "--until", "settled"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as served:
        arm = f"ssh:far,config={served.config},python={sys.executable},name=far"
        command = [sys.executable, "-P", "-m", "primbench", "study", "--arm", "host", "--arm", arm, "--self"]
        done = subprocess.run([*command, *(sys.argv[1:] or SMALL)], check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
