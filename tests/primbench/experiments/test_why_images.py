"""Two images, whose libraries are moved file by file. What workers would map in them is said here: none is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from primbench.environment.libraries import Library
from primbench.errors import InvalidRequest
from primbench.experiments.why.frame import Frame
from primbench.experiments.why.images import are_images, of_images
from primbench.experiments.why.ingredients import Mixtures
from primbench.experiments.why.inquiry import KNOWN, USUAL, weights
from primbench.spec.arm import Arm, parse_arm
from primbench.spec.case import Case

SAME = {"usr/lib/libc.so.6": "c", "usr/lib/libgomp.so.1.0.0": "gomp", "usr/lib/numpy/_umath.so": "umath"}


def image(folder: Path, name: str, files: dict[str, str], links: dict[str, str] | None = None) -> Arm:
    for path, content in files.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(content)
    for path, target in (links or {}).items():
        (folder / name / path).symlink_to(target)
    return parse_arm(f"runc:image={folder / name},threads=1,name={name}")


def framed(fast: Arm, slow: Arm) -> Frame:
    def mapped(arm: Arm) -> list[Library]:
        root = Path(str(arm.image))
        files = [each for each in root.rglob("*.so*") if not each.is_symlink()]
        return [Library(path=f"/{each.relative_to(root)}") for each in sorted(files)]

    assert are_images(fast, slow)
    return of_images(fast, slow, mapped)


def ingredients(frame: Frame) -> list[str]:
    return [each.words for each in Mixtures(frame.base, frame.whole).ingredients]


def test_a_library_is_another_whatever_its_version_and_its_folder(tmp_path: Path) -> None:
    """As where a link of the distribution says which BLAS it is, or two wheels have others."""
    one = {"usr/lib/blas/libblas.so.3": "one", "np/libscipy_openblas64_-24e2ab19.so": "one"}
    other = {"usr/lib/openblas/libblas.so.3": "other", "np/libscipy_openblas64_-56d6093b.so": "other"}
    fast = image(tmp_path, "a", SAME | one | {"usr/lib/libz.so.1.2": "z"})
    slow = image(tmp_path, "b", SAME | other | {"usr/lib/libz.so.1.3": "zz"})
    frame = framed(fast, slow)
    b = f"{tmp_path}/b"
    expected = [
        f"image={b}",
        f"libraries=/np/libscipy_openblas64_-24e2ab19.so:/np/libscipy_openblas64_-56d6093b.so@{b}/np/libscipy_openblas64_-56d6093b.so",
        f"libraries=/usr/lib/blas/libblas.so.3:/usr/lib/openblas/libblas.so.3@{b}/usr/lib/openblas/libblas.so.3",
        f"libraries=/usr/lib/libz.so.1.2:/usr/lib/libz.so.1.3@{b}/usr/lib/libz.so.1.3",
    ]
    assert expected == ingredients(frame)
    assert {} == frame.left_out
    assert [fast, slow] == frame.others
    case = Case(primitive="gemm", parameters={}, backend="numpy", device="cpu")
    assert [USUAL, KNOWN, KNOWN, KNOWN] == weights(Mixtures(frame.base, frame.whole).ingredients, case)
    moved = Mixtures(frame.base, frame.whole).arm(frozenset([1]))
    assert (fast.image, 1) == (moved.image, moved.placement.threads)
    assert [f"{tmp_path}/{where}/" for where in ("b", "a", "a")] == [
        next(f"{tmp_path}/{each}/" for each in "ab" if f"@{tmp_path}/{each}/" in library)
        for library in sorted(moved.libraries)
    ]


def test_another_name_that_leads_to_it_is_the_same_library(tmp_path: Path) -> None:
    fast = image(tmp_path, "a", SAME | {"opt/libwheel.so": "one"})
    link = {"opt/libwheel.so": "/usr/lib/libother.so.3"}
    slow = image(tmp_path, "b", SAME | {"usr/lib/libother.so.3": "other", "opt/x": ""}, link)
    library = f"libraries=/opt/libwheel.so:/usr/lib/libother.so.3@{tmp_path}"
    assert [f"image={tmp_path}/b", f"{library}/b/usr/lib/libother.so.3"] == ingredients(framed(fast, slow))
    assert [f"image={tmp_path}/a", f"{library}/a/opt/libwheel.so"] != ingredients(framed(slow, fast))
    assert len(ingredients(framed(slow, fast))) == 2


def test_the_c_library_is_not_moved_nor_what_comes_with_it(tmp_path: Path) -> None:
    fast = image(tmp_path, "a", SAME | {"usr/lib/libm.so.6": "m", "usr/lib/libz.so.1": "z"})
    slow = image(tmp_path, "b", SAME | {"usr/lib/libc.so.6": "C", "usr/lib/libm.so.6": "M", "usr/lib/libz.so.1": "Z"})
    frame = framed(fast, slow)
    assert ["the C library"] == [*frame.left_out]
    library = f"libraries=/usr/lib/libz.so.1@{tmp_path}/b/usr/lib/libz.so.1"
    assert [f"image={tmp_path}/b", library] == ingredients(frame)


def test_what_only_one_image_maps_is_said_to_stay(tmp_path: Path) -> None:
    """As an allocator that is preloaded in the one."""
    fast = image(tmp_path, "a", SAME | {"usr/lib/libz.so.1": "z"})
    slow = image(tmp_path, "b", SAME | {"usr/lib/libz.so.1": "Z", "usr/lib/libjemalloc.so.2": "j"})
    frame = framed(fast, slow)
    assert {"libjemalloc.so.2": "mapped in b alone"} == frame.left_out
    assert len(ingredients(frame)) == 2


def test_where_no_library_is_another_nothing_can_be_moved(tmp_path: Path) -> None:
    """But for a setting: beside the rest of the image that is one thing more."""
    fast, slow = (image(tmp_path, name, SAME) for name in "ab")
    with pytest.raises(InvalidRequest, match="the libraries that are mapped are the same files"):
        framed(fast, slow)
    slow = parse_arm(f"runc:image={slow.image},threads=1,umask=0077,name=b")
    assert [f"image={slow.image}", "umask=0077"] == ingredients(framed(fast, slow))


def test_images_of_which_no_file_is_here_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="image=a is no folder, whose files can be moved: unpack both"):
        are_images(parse_arm("docker:image=a"), parse_arm("docker:image=b"))
    assert not are_images(parse_arm("docker:cpus=1"), parse_arm("docker"))
    assert not are_images(parse_arm("host"), parse_arm("podman:image=b"))
