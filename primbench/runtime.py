"""Which container runtime this process is in, by evidence that a stray marker file cannot fake."""

from __future__ import annotations

import msgspec


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """name: "host", "docker", "podman", "apptainer", "charliecloud", "enroot", "systemd-nspawn", "bubblewrap", ...;
    None where the evidence contradicts itself or only says that this is some container.

    in_container: None where not even that is known. evidence: what was seen, strongest first, in words with the file
    or variable it was seen in.
    """

    name: str | None
    in_container: bool | None
    evidence: list[str]
