"""A host against itself by ssh, as docs/elsewhere.md has it: what a connection and a worker that was sent cost kernels.

python -m bench.ssh_against_host [OPTIONS OF primbench study]

From the root of the repository. The server is one of its own, with its own keys, as the tests have it; as root at the
other end of a cable, in a network namespace. Both ends use one thread. Without options nine cases of NumPy, whose
data a core's own cache holds, are compared until all is told, or for six minutes: what others leave of a cache that
is shared differs by a tenth from one process to the next.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.containers.sshd import server

SUITE = """
gemm = [
  { m = 64, n = 64, k = 64 },
  { m = 128, n = 128, k = 128 },
  { m = 256, n = 256, k = 256 },
  { m = 384, n = 384, k = 384 },
]
conv = [{ n = 1, c = 32, h = 28, w = 28, k = 32, r = 3, s = 3, pad_h = 1, pad_w = 1 }]
elementwise = [{ elements = 16384 }]
softmax = [{ rows = 64, classes = 256 }]
launch = [{ call = ["getppid", "dispatch"] }]
"""
SETTLED = ("--backend", "numpy", "--until", "settled", "--time-budget", "6min", "--max-time", "200ms")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as served:
        suite = Path(folder, "cases.toml")
        suite.write_text(SUITE)
        far = f"ssh:far,config={served.config},python={sys.executable},threads=1,name=far"
        command = [sys.executable, "-P", "-m", "primbench", "study", "--arm", "host:threads=1", "--arm", far, "--self"]
        done = subprocess.run([*command, *(sys.argv[1:] or [str(suite), *SETTLED])], check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
