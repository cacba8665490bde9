"""Docker."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from primbench.runtimes import engine
from primbench.runtimes.hostroot import make_skeleton
from primbench.runtimes.invocation import Invocation, client
from primbench.runtimes.runtime import DOCKER_SHM_BYTES, Parts, RefusalWords, Runtime, Signs, no_image

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from primbench.spec.arm import Arm


def launch(arm: Arm, folder: Path, command: Sequence[str], *, gpus: bool) -> Invocation:
    name = engine.new_name()
    rest = engine.container("docker", arm, folder, gpus=gpus, undescribed_gpus=["--gpus=all"])
    before, after, image = [], [engine.remove("docker", name)], arm.image
    if arm.on_host_root:
        import tarfile  # 2 ms, which every arm's start would wait for

        image = f"{name}:skeleton"
        archive = folder / "skeleton.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(make_skeleton(folder), arcname=".")
        before.append(["docker", "import", str(archive), image])
        after.append(["docker", "rmi", "--force", image])
    assert image is not None
    return Invocation(
        before=[*before, engine.create(["docker"], name, rest, [image], command)],
        worker=engine.start("docker", name),
        after=after,
    )


RUNTIME = Runtime(
    rank=10,
    mechanisms=engine.MECHANISMS | {"docker"},
    found=partial(client, "docker", "version", "--format", "{{.Server.Version}}"),  # a client alone starts nothing
    launch=launch,
    signs=Signs(
        is_value=True,
        group=r"/docker[-/][0-9a-f]{64}",
        source=r"/containers/[0-9a-f]{64}/",
        marker=".dockerenv",
    ),
    refusals=(
        no_image(engine.NO_IMAGE, "`docker images` lists those that are here, `docker pull` fetches one"),
        engine.hybrid(),
        engine.OTHER_FILES,
        engine.too_few_files("start dockerd with --default-ulimit=nofile={0}:{0}"),
        engine.NO_NETWORK,
        RefusalWords(
            r"unknown or invalid runtime name|runtime \S+ binary not installed",
            lambda arm: "`docker info` lists those it has; /etc/docker/daemon.json adds one below runtimes",
        ),
    ),
    gpus=engine.TOOLKIT,
    builder=engine.builder("docker"),
    parts=Parts(("runc", "crun"), DOCKER_SHM_BYTES),
    is_engine=True,
)
