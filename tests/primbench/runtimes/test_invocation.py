"""What each runtime is told to do, word by word; what of the machine gets inside. Nothing is started here."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import primbench
from primbench.errors import FileError, InvalidRequest
from primbench.runtimes import charliecloud, engine, hostroot, oci
from primbench.runtimes.hostroot import OF_CONTAINERS, bound_folders, caches, mounted_below, read_only
from primbench.runtimes.invocation import CACHES, Invocation, cdi_names_gpus, gpu_files, variables
from primbench.runtimes.table import check, known, launch
from primbench.spec.arm import arm_of, parse_arm
from primbench.spec.settings import FIRST_KEYS
from primbench.spec.settings.limits import Disk
from primbench.system.capabilities import capabilities
from primbench.system.files import Mount, read_mounts

NAME = "primbench-0123"
LIMITS = "cpus=1.5,cpuset=0-3+8,mems=0,memory=1GiB,seccomp=/p.json,cap-add=SYS_NICE,cap-drop=MKNOD+CHOWN"
GIB = 2**30


@pytest.fixture(autouse=True)
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is random otherwise, and a machine with one disk on which nothing tells of GPUs."""
    monkeypatch.setattr(engine, "new_name", lambda: NAME)
    monkeypatch.setattr(engine, "cdi_names_gpus", lambda: False)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (9, 99))
    monkeypatch.setattr("primbench.spec.settings.limits.disks", lambda root=None: [Disk("8:0", "/dev/sda")])
    monkeypatch.setattr(engine, "gpu_files", lambda: ["/dev/nvidia0", "/dev/nvidiactl"])


def launched(text: str, folder: Path, *, gpus: bool = False) -> Invocation:
    return launch(parse_arm(text), folder, gpus=gpus)


def given(option: str, text: str, folder: Path) -> list[str]:
    return [f"{option}={name}={value}" for name, value in variables(parse_arm(text), folder).items()]


WEIGHED = "cpu-weight=50,pids=99,nofile=4096,read-rate=1MiB"
CONTAINER = [
    "--cpus=1.5",
    "--cpuset-cpus=0-3,8",
    "--cpuset-mems=0",
    "--cpu-shares=512",
    f"--memory={GIB}b",
    f"--shm-size={64 * 2**20}b",
    "--pids-limit=99",
    "--ulimit=nofile=4096:4096",
    "--device-read-bps=/dev/sda:1048576",
    "--security-opt=seccomp=/p.json",
    "--cap-add=SYS_NICE",
    "--cap-drop=MKNOD",
    "--cap-drop=CHOWN",
]
MODULE = ["-P", "-m", "primbench.workers.worker", f"run={os.getppid()}"]


@pytest.mark.parametrize(("client", "private"), [("docker", "bridge"), ("podman", "private")])
def test_an_engine_is_told_to_make_to_start_and_to_remove(client: str, private: str, tmp_path: Path) -> None:
    text = f"{client}:image=reg/x:1,{LIMITS},{WEIGHED},shm=64MiB,network=private,ipc=private,env.OMP_NUM_THREADS=1"
    found = launched(text, tmp_path, gpus=True)
    gpus = ["--gpus=all"] if client == "docker" else ["--device=/dev/nvidia0", "--device=/dev/nvidiactl"]
    made = [
        *(client, "create", "--interactive", "--rm", "--pull=never", f"--name={NAME}"),
        *CONTAINER,
        *(f"--network={private}", "--ipc=private"),
        *given("--env", text, tmp_path),
        *gpus,
        *(["--ulimit=nproc=99:99"] if client == "podman" else []),
        *("--entrypoint=python3", "reg/x:1", *MODULE),
    ]
    assert [made] == found.before
    assert [client, "start", "--attach", "--interactive", NAME] == found.worker
    at_once = ["--time=0"] if client == "podman" else []
    assert [[client, "rm", "--force", "--volumes", NAME, *at_once]] == found.after
    assert found.environment is None


@pytest.mark.parametrize("client", ["docker", "podman"])
def test_a_device_specification_is_preferred(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "cdi_names_gpus", lambda: True)
    (made,) = launched(f"{client}:image=x", tmp_path, gpus=True).before
    assert "--device=nvidia.com/gpu=all" in made
    assert not [word for word in made if word.startswith(("--gpus", "--device=/dev"))]


def test_docker_gets_the_hosts_root_as_an_image_of_links_and_empty_folders(tmp_path: Path) -> None:
    found = launched("docker", tmp_path, gpus=True)
    archive = tmp_path / "skeleton.tar"
    image = f"{NAME}:skeleton"
    assert ["docker", "import", str(archive), image] == found.before[0]
    assert [["docker", "rm", "--force", "--volumes", NAME], ["docker", "rmi", "--force", image]] == found.after
    with tarfile.open(archive) as tar:
        assert [] == [each.name for each in tar if not each.isdir() and not each.issym()]
        assert {f".{bound}" for bound in bound_folders()} <= set(tar.getnames())
    own = caches(tmp_path)
    shown = read_only(parse_arm("docker"), OF_CONTAINERS)
    binds = [f"--volume={bound}:{bound}:ro" for bound in shown]
    made = found.before[1]
    assert binds == [word for word in made if word.startswith("--volume=")]
    assert f"--mount=type=bind,source={own},target={own}" in made
    in_memory = [f"--tmpfs={own / name}:exec,mode=1777" for name in CACHES]
    assert in_memory == [word for word in made if word.startswith("--tmpfs=")], "not this user's to remove"
    assert {*CACHES} == {each.name for each in own.iterdir()}
    assert ["--device=/dev/nvidia0", "--device=/dev/nvidiactl"] == [word for word in made if word[:9] == "--device="]
    assert [f"--entrypoint={sys.executable}", image, *MODULE] == made[-6:]


def test_podman_gets_the_hosts_root_as_a_folder(tmp_path: Path) -> None:
    (made,) = launched("podman", tmp_path).before
    assert [f"--entrypoint={sys.executable}", "--rootfs", str(tmp_path / "root"), *MODULE] == made[-7:]
    assert not [word for word in made if word.startswith(("--device", "--gpus"))]
    assert (tmp_path / "root/usr").is_dir()


def test_apptainer(tmp_path: Path) -> None:
    few = "cpu-weight=50,pids=99,nice=5,network=none,ipc=private"
    text = f"apptainer:image=/x.sif,{LIMITS},{few},env.CUDA_VISIBLE_DEVICES=0,1"
    found = launched(text, tmp_path, gpus=True)
    expected = [
        *("apptainer", "--silent", "exec", "--cleanenv", "--no-home", "--pwd=/"),
        *("--cpus=1.5", "--cpuset-cpus=0-3,8", "--cpuset-mems=0", "--cpu-shares=512"),
        *(f"--memory={GIB}", "--pids-limit=99"),
        *("--security=seccomp:/p.json", "--add-caps=CAP_SYS_NICE", "--drop-caps=CAP_MKNOD,CAP_CHOWN"),
        *("--net", "--network=none", "--ipc", "--nv", "/x.sif", "python3", *MODULE),
    ]
    assert expected == found.worker
    assert ([], []) == (found.before, found.after)
    assert found.environment is not None
    assert "0,1" == found.environment["APPTAINERENV_CUDA_VISIBLE_DEVICES"]
    assert "CUDA_VISIBLE_DEVICES" not in found.environment.keys() - os.environ.keys()


def test_apptainer_on_the_hosts_root_needs_no_libraries_of_the_driver(tmp_path: Path) -> None:
    words = launched("apptainer:seccomp=unconfined", tmp_path, gpus=True).worker
    shown = read_only(parse_arm("apptainer"), OF_CONTAINERS)
    binds = [f"--bind={bound}:{bound}:ro" for bound in shown] + [f"--bind={caches(tmp_path)}"]
    assert [*binds, str(tmp_path / "root"), sys.executable, *MODULE] == words[6:]


def test_charliecloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "me")
    monkeypatch.setenv("OF_THE_MACHINE", "yes")
    found = launched("charliecloud:image=/x.sqfs", tmp_path)
    assert ["ch-run", "--cd=/", "--no-passwd", "/x.sqfs", "--", "python3", *MODULE] == found.worker
    assert found.environment is not None
    assert "me" == found.environment["USER"]
    assert found.environment["PATH"].startswith("/usr/local/sbin:")
    assert "OF_THE_MACHINE" not in found.environment
    on_host = launched("charliecloud", tmp_path)
    binds = [f"--bind={bound}" for bound in (*bound_folders(), caches(tmp_path))]
    words = ["ch-run", "--cd=/", "--no-passwd", *binds, str(tmp_path / "root"), "--", sys.executable, *MODULE]
    assert words == on_host.worker


def test_enroot(tmp_path: Path) -> None:
    found = launched("enroot:image=torch+25", tmp_path, gpus=True)
    expected = [
        *("enroot", "start", "--rc", str(tmp_path / "rc"), "--env=NVIDIA_VISIBLE_DEVICES=all"),
        *given("--env", "enroot:image=torch+25", tmp_path),
        *("torch+25", "python3", *MODULE),
    ]
    assert expected == found.worker
    assert {**os.environ, "ENROOT_LOGIN_SHELL": "no"} == found.environment
    with pytest.raises(InvalidRequest, match="add image=NAME"):
        launched("enroot", tmp_path)


@pytest.mark.parametrize(
    ("value", "told"),
    [("'x'", "quotes around its value"), ('"x" ', "quotes around its value"), ("x\ny=1", "a line break in its value")],
)
def test_what_enroot_would_not_pass_on_is_refused(
    value: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD", value)
    with pytest.raises(InvalidRequest, match=f"^arm e: variable ODD: enroot does not pass on {told}: leave it out$"):
        launched("enroot:image=x,env.ODD,name=e", tmp_path)
    monkeypatch.setenv("ODD", "a 'b' \"c\" d=$e#")
    assert "--env=ODD" in launched("enroot:image=x,env.ODD,name=e", tmp_path).worker
    with pytest.raises(InvalidRequest, match=r"`export ENROOT_REMAP_ROOT=y` before$"):
        launched("enroot:image=x,env.ENROOT_REMAP_ROOT=y", tmp_path)


@pytest.mark.parametrize("image", ["primbench", "/images/primbench.sqsh"])
def test_the_script_that_enroot_gives_a_shell_runs_the_command_and_nothing_of_the_image(
    image: str, tmp_path: Path
) -> None:
    """enroot-switchroot(1): a shell, the script, and what follows the image's name."""
    _, _, option, script, *rest = launched(f"enroot:image={image}", tmp_path).worker
    assert ("--rc", 2) == (option, len(Path(script).read_text().splitlines()))
    assert ["python3", *MODULE] == rest[rest.index(image) + 1 :]
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    command = ["/bin/sh", script, sys.executable, "-c", code, "a b", "$HOME"]
    done = subprocess.run(command, input="said", capture_output=True, text=True, check=True)
    assert "['a b', '$HOME'] said\n" == done.stdout


def test_the_host(tmp_path: Path) -> None:
    arm = parse_arm("host:cpus=2,env.OMP_NUM_THREADS=1")
    expected = Invocation(worker=[sys.executable, *MODULE], environment=variables(arm, tmp_path))
    assert expected == launch(arm, tmp_path, gpus=True)


def test_runc_gets_a_configuration(tmp_path: Path) -> None:
    profile = tmp_path / "p.json"
    profile.write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    text = LIMITS.replace("/p.json", str(profile))
    found = launched(f"runc:{text},{WEIGHED},shm=1GiB,network=host", tmp_path)
    state = ["runc", "--root", str(tmp_path / "state")]
    assert [*state, "run", "--bundle", str(tmp_path), NAME] == found.worker
    assert [[*state, "delete", "--force", NAME]] == found.after
    written = msgspec.json.decode((tmp_path / "config.json").read_bytes())
    process, linux = written["process"], written["linux"]
    assert [sys.executable, *MODULE] == process["args"]
    assert {"CAP_SYS_NICE", "CAP_KILL"} < {*process["capabilities"]["bounding"]}
    assert not {"CAP_MKNOD", "CAP_CHOWN", "CAP_SYS_ADMIN"} & {*process["capabilities"]["bounding"]}
    assert {"defaultAction": "SCMP_ACT_ALLOW"} == linux["seccomp"]
    assert ["pid", "mount", "uts", "ipc"] == [each["type"] for each in linux["namespaces"]]
    expected = {
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {"quota": 150000, "period": 100000, "shares": 512, "cpus": "0-3,8", "mems": "0"},
        "memory": {"limit": GIB},
        "pids": {"limit": 99},
        "blockIO": {"throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 2**20}]},
    }
    assert expected == linux["resources"]
    (shm,) = [each for each in written["mounts"] if each["destination"] == "/dev/shm"]
    assert f"size={GIB}" in shm["options"]
    read_only = [
        each["destination"] for each in written["mounts"] if "rbind" in each["options"] and "ro" in each["options"]
    ]
    bound = bound_folders()
    assert [str(each) for each in (*bound, *mounted_below(bound))] == read_only


def test_runc_knows_the_filters_of_docker_and_podman(tmp_path: Path) -> None:
    found = {name: configuration(f"runc:seccomp={name}", tmp_path / name)["linux"]["seccomp"] for name in FILTERED}
    assert found["docker"] != found["podman"]
    for name, calls in FILTERED.items():
        allowed = [
            call for rule in found[name]["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for call in rule["names"]
        ]
        assert "SCMP_ACT_ERRNO" == found[name]["defaultAction"]
        assert calls == {call for call in ("getppid", "set_mempolicy", "io_uring_setup") if call in allowed}


def test_what_is_added_is_held_all_the_more_where_everything_else_is_dropped(tmp_path: Path) -> None:
    def held(text: str) -> set[str]:
        return {
            *configuration(text, tmp_path / str(len(list(tmp_path.iterdir()))))["process"]["capabilities"]["bounding"]
        }

    assert {"CAP_SYS_NICE"} == held("runc:cap-drop=ALL,cap-add=SYS_NICE")
    everything = {*capabilities(Path("/"), kept="CapBnd")}  # of a user, too, who is root inside
    assert everything == held("runc:cap-add=ALL")
    assert everything - {"CAP_KILL"} == held("runc:cap-add=ALL,cap-drop=KILL")


def test_a_worker_that_is_to_stay_in_the_hosts_control_groups_leaves_those_that_runc_makes(tmp_path: Path) -> None:
    (hook,) = configuration("runc:cgroup=host", tmp_path / "runc")["hooks"]["createRuntime"]
    assert (sys.executable, ["-P", "-m", "primbench.runtimes.oci_hook"]) == (hook["path"], hook["args"][1:])
    (tmp_path / "crun").mkdir()
    found = launched("crun:cgroup=host", tmp_path / "crun")
    assert ["crun", "--root", str(tmp_path / "crun/state"), "--cgroup-manager=disabled"] == found.worker[:4]
    assert {} == msgspec.json.decode((tmp_path / "crun/config.json").read_bytes())["hooks"]


def test_an_overlay_has_each_folder_of_the_host_and_what_is_mounted_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = str(next(path for path in Path("/usr").iterdir() if path.is_dir()))
    mounts = [Mount("/", point, "ext4", "rw") for point in ("/", "/usr", inner, "/usr/absent", "/var/lib", "/usrlocal")]
    monkeypatch.setattr(hostroot, "read_mounts", lambda root: mounts)
    monkeypatch.setattr(oci, "read_mounts", lambda root: mounts)
    found = configuration("runc:root=overlay", tmp_path / "bundle")["mounts"]
    overlays = {each["destination"]: each["options"] for each in found if each["type"] == "overlay"}
    assert ["/tmp", *map(str, bound_folders())] == [*overlays], "else /tmp would hide what of the host lies in it"
    assert f"upperdir={tmp_path}/bundle/upper" in overlays["/tmp"]
    assert ["ro", f"lowerdir=/usr:{tmp_path}/bundle/empty"] == overlays["/usr"]
    binds = [each["destination"] for each in found if each["type"] == "bind"]
    assert [inner, str(tmp_path / "bundle/caches")] == binds
    mounts.append(Mount("/", "/", "overlay", "rw"))
    found = configuration("runc:root=overlay", tmp_path / "nested")["mounts"]
    assert "/tmp" not in [each["destination"] for each in found], "no upper layer lies on an overlay"


def test_what_is_mounted_in_a_bound_folder_is_read_only_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outer ones first; a space in a name is an octal number to the kernel, and other bytes are as they are."""
    spaced = tmp_path / "a b\udcff"
    spaced.mkdir()
    written = os.fsencode(spaced).replace(b" ", rb"\040")
    points = [b"/", b"/usr", b"/usr/lib/x86", b"/usr/lib", b"/usr/absent", written, b"/etc/hosts"]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_bytes(
        b"".join(b"1 0 0:1 / %s rw - tmpfs t rw\n" % each for each in points)
    )
    mounts = read_mounts(tmp_path)
    monkeypatch.setattr(os.path, "lexists", lambda path: str(path) != "/usr/absent")
    monkeypatch.setattr(hostroot, "read_mounts", lambda root: mounts)
    monkeypatch.setattr(hostroot, "bound_folders", lambda: [Path("/etc"), Path("/usr"), tmp_path])
    below = [Path("/etc/hosts"), Path("/usr/lib"), Path("/usr/lib/x86"), spaced]
    assert sorted(below) == sorted(mounted_below([Path("/etc"), Path("/usr"), tmp_path]))
    found = [f"{each}:{each}:ro" for each in ("/etc", "/usr", tmp_path, "/usr/lib", "/usr/lib/x86", spaced)]
    for option in (f"--volume={each}" for each in found):
        assert option in launched("podman", tmp_path).before[0]
    assert "--volume=/etc/hosts:/etc/hosts:ro" not in launched("podman", tmp_path).before[0]
    for option in (f"--bind={each}" for each in found):
        assert option in launched("apptainer", tmp_path).worker


def test_a_mount_that_cannot_be_named_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strange = tmp_path / "a:b"
    strange.mkdir()
    monkeypatch.setattr(hostroot, "read_mounts", lambda root: [Mount("/", str(strange), "tmpfs", "rw")])
    for module in (hostroot, oci):
        monkeypatch.setattr(module, "bound_folders", lambda: [tmp_path])
    with pytest.raises(InvalidRequest, match=r"podman cannot bind .*/a:b read-only, for its name"):
        launched("podman", tmp_path)
    strange.rename(strange := tmp_path / "a\udcff")
    with pytest.raises(InvalidRequest, match=r"runc cannot bind .*/a\\xff, for its name"):
        launched("runc", tmp_path)


def configuration(text: str, folder: Path) -> Any:
    folder.mkdir()
    launched(text, folder)
    return msgspec.json.decode((folder / "config.json").read_bytes())


FILTERED = {"docker": {"getppid", "io_uring_setup"}, "podman": {"getppid", "set_mempolicy"}}


def test_a_filter_is_that_of_its_machine_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(InvalidRequest, match="seccomp=docker: known for x86_64 alone"):
        launched("runc:seccomp=docker", tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("runc:cgroup=host,cpus=2", "limits need a control group of its own"),
        ("runc:root=overlay,image=/srv", "root=overlay: of the host's files alone"),
        ("runc:network=private", "sets up no network: use none or host"),
        ("runc:image=debian:12", "starts a folder, named in full, or host"),
        ("runc:seccomp=default", "brings no filter"),
    ],
)
def test_what_only_an_engine_brings_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        launched(text, tmp_path)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [(None, "No such file"), ("{", "truncated"), ("[]", "not the section"), ('{"archMap": []}', "not the section")],
)
def test_a_file_that_is_no_filter_is_refused(profile: str | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    if profile is not None:
        path.write_text(profile)
    with pytest.raises(FileError, match=reason):
        launched(f"runc:seccomp={path}", tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("charliecloud:cpus=2", "charliecloud has no cpus of its own; there is one in host, docker, podman, apptainer"),
        ("enroot:image=x,memory=1GiB", "enroot has no memory of its own; there is one in host"),
        ("apptainer:shm=1GiB", "apptainer has no shm of its own; there is one in docker, podman, crun, runc"),
        ("apptainer:read-rate=1MiB", "apptainer has no read-rate of its own; there is one in host, docker"),
        ("podman:nice=5", "podman has no nice of its own; there is one in host, apptainer, charliecloud, enroot, crun"),
        ("host:seccomp=unconfined", "host has no seccomp of its own"),
        ("host:ipc=private", "host has no ipc of its own"),
        ("host:network=none", "host has no network=none: private, overlay or host"),
        ("docker:network=overlay", "docker has no network=overlay: private, none or host"),
    ],
)
def test_a_limit_that_a_runtime_has_not_is_refused_naming_those_that_have(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        check(parse_arm(text))


def test_what_is_asked_of_every_runtime_without_limits_can_be_had() -> None:
    for name, runtime in known().items():
        image = "mine" if runtime.needs_image else None
        named = {FIRST_KEYS[name]: "far"} if name in FIRST_KEYS else {}
        check(arm_of({"runtime": name, **({"image": image} if image else {}), **named, "env": {"A": "1"}}))


HERE = {
    "HOME": "/home/me",
    "PATH": "/opt/bin:/bin",
    "LD_LIBRARY_PATH": "/opt/lib",
    "OMP_NUM_THREADS": "2",
    "NCCL_AUTH_TOKEN": "x",
    "SSH_CONNECTION": "10.0.0.1",
}


@pytest.mark.parametrize("runtime", ["host", "docker", "podman", "apptainer", "charliecloud", "runc"])
def test_the_same_variables_get_into_every_runtime_on_the_hosts_root(runtime: str, tmp_path: Path) -> None:
    found = variables(parse_arm(f"{runtime}:env.OMP_NUM_THREADS=1,env.MINE=yes"), tmp_path, HERE)
    told = {name: found.pop(name) for name in ("PRIMBENCH_RUNTIME", "PRIMBENCH_HOST_NAMESPACES")}
    kept = {name: str(tmp_path / "caches" / name) for name in ("CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "TRITON_CACHE_DIR")}
    passed = {name: HERE[name] for name in ("HOME", "PATH", "LD_LIBRARY_PATH")}
    assert {**passed, **kept, "OMP_NUM_THREADS": "1", "MINE": "yes"} == found
    assert runtime == told["PRIMBENCH_RUNTIME"]
    assert os.readlink("/proc/self/ns/mnt") in told["PRIMBENCH_HOST_NAMESPACES"].split(",")


def test_an_image_gets_no_paths_of_this_machine(tmp_path: Path) -> None:
    found = variables(parse_arm("docker:image=x,env.NCCL_TOPO_FILE=/inside.xml"), tmp_path, HERE)
    assert {"OMP_NUM_THREADS": "2", "NCCL_TOPO_FILE": "/inside.xml"} == {
        name: value for name, value in found.items() if not name.startswith("PRIMBENCH")
    }


def test_python_and_the_package_are_on_the_hosts_root() -> None:
    bound = bound_folders()
    package = Path(primbench.__file__)  # which an editable install leads to by a link
    for needed in (sys.prefix, sys.base_prefix, str(package.parents[1]), str(package.resolve().parents[1])):
        assert [folder for folder in bound if folder == Path(needed) or folder in Path(needed).parents], needed
    assert not {Path("/"), Path("/proc"), Path("/dev"), Path("/var"), Path("/tmp")} & {*bound}
    assert [] == [folder for folder in bound if {*bound} & {*folder.parents}]


def test_gpu_files_are_devices_alone(tmp_path: Path) -> None:
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    (tmp_path / "dev/nvidia0").write_text("a file, and no device")
    (tmp_path / "dev/nvidiactl").symlink_to("/dev/null")
    (tmp_path / "dev/nvidia-caps/nvidia-cap1").symlink_to("/dev/zero")
    assert ["/dev/nvidia-caps/nvidia-cap1", "/dev/nvidiactl"] == gpu_files(tmp_path)
    assert [] == gpu_files(tmp_path / "absent")


def test_a_device_specification_tells_whether_it_names_gpus(tmp_path: Path) -> None:
    assert not cdi_names_gpus(tmp_path)
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/other.yaml").write_text("kind: vendor.com/net")
    assert not cdi_names_gpus(tmp_path)
    (tmp_path / "etc/cdi/nvidia.yaml").write_text("kind: nvidia.com/gpu")
    assert cdi_names_gpus(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user whom file modes bind: root may read everything")
def test_a_device_specification_that_only_root_may_read_says_nothing_to_others(tmp_path: Path) -> None:
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.yaml").write_text("kind: nvidia.com/gpu")
    (tmp_path / "etc/cdi/nvidia.yaml").chmod(0)
    assert not cdi_names_gpus(tmp_path)


@pytest.mark.parametrize("runtime", ["host", "docker", "podman", "apptainer", "charliecloud", "enroot", "runc"])
def test_no_list_of_processes_has_the_value_of_a_variable_that_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runtime: str
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    image = ",image=mine" if runtime == "enroot" else ""
    arm = parse_arm(f"{runtime}:env.MY_TOKEN{image}")
    assert "hunter2" not in repr(arm)
    launched = launch(arm, tmp_path, gpus=False)
    commands = [*launched.before, launched.worker, *launched.after]
    assert "hunter2" not in repr(commands)
    has_option = any("--env=MY_TOKEN" in command for command in commands)
    configuration = tmp_path / "config.json"
    in_file = configuration.exists() and "MY_TOKEN=hunter2" in configuration.read_text()
    assert has_option or in_file or "hunter2" in (launched.environment or {}).values()


def test_a_variable_to_be_passed_on_that_is_not_set_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(
        InvalidRequest, match="MY_TOKEN is not set here, and no file keeps its value: set it in the env"
    ):
        check(parse_arm("host:env.MY_TOKEN"))


def test_a_user_without_a_name_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", no_entry)
    assert str(os.getuid()) == charliecloud.environment({})["USER"]
