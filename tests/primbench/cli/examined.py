"""What the real command says of a place, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import msgspec

from primbench.doctor.cause import Finding
from primbench.doctor.place import Place
from primbench.system.meaning import FactId

DOCTOR = (sys.executable, "-P", "-m", "primbench", "doctor")


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """What --json writes."""

    place: Place
    findings: list[Finding]

    def of(self, check: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.cause == check and finding.severity != "ok"]


def decoded(text: bytes | str) -> Document:
    return msgspec.json.decode(text, type=Document, dec_hook=lambda _, words: FactId(*words.split(".")))


def examined(*before: str, prepare: Callable[[], object] | None = None, **variables: str) -> Document:
    """What the real command writes, with a command put before it, or a call made before it starts."""
    done = subprocess.run(
        [*before, *DOCTOR, "--json", "-"],
        capture_output=True,
        preexec_fn=prepare,
        env=os.environ | variables,
        timeout=120,
    )
    assert (b"", True) == (done.stderr, done.returncode in (0, 1)), done.stderr.decode()
    document = decoded(done.stdout)
    assert done.returncode == any(finding.severity == "problem" for finding in document.findings)
    return document
