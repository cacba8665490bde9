from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from primbench.system import elf
from primbench.system.files import attempt

MAPPED = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is missing: apt-get install binutils")
def test_real_libraries_have_the_id_that_readelf_reads() -> None:
    paths = sorted(path for path in MAPPED if os.path.isfile(path))
    told = subprocess.run(["readelf", "--notes", *paths], capture_output=True, text=True, check=False).stdout
    expected = {
        name: found[1] if (found := re.search(r"Build ID: ([0-9a-f]+)", notes)) else None
        for name, notes in re.findall(r"^File: (.+)\n((?:(?!^File: ).*\n)*)", told, re.MULTILINE)
    }
    assert len(paths) == len(expected)
    assert any(expected.values())
    for path, build_id in expected.items():
        if build_id is None:
            with pytest.raises(ValueError, match="has no build id"):
                elf.build_id(Path(path))
        else:
            assert build_id == elf.build_id(Path(path)), path


def test_where_functions_are_in_the_file_is_where_the_loader_has_them() -> None:
    names = ["open", "getppid"]
    addresses = [ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0 for name in names]
    expected: dict[tuple[str, str], int] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, *_, path = line.split()
        first, last = (int(each, 16) for each in span.split("-"))
        found = {
            name: address - first + int(offset, 16)
            for name, address in zip(names, addresses, strict=True)
            if first <= address < last
        }
        expected |= {(path, name): at for name, at in found.items()}
    assert names == sorted((name for _, name in expected), key=names.index)
    for (path, name), at in expected.items():
        assert {name: at} == elf.exported(Path(path), [name, "nothing_exports_this"])
    with pytest.raises(ValueError, match="is no ELF file"):
        elf.exported(Path(__file__), names)


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is missing: apt-get install binutils")
def test_real_libraries_are_called_and_need_what_readelf_reads() -> None:
    for path in sorted(each for each in MAPPED if os.path.isfile(each)):
        told = subprocess.run(["readelf", "--dynamic", path], capture_output=True, text=True, check=True).stdout
        names = {kind: re.findall(rf"\({kind}\).*\[(.+)\]", told) for kind in ("SONAME", "NEEDED")}
        found = elf.linked(Path(path))
        assert (names["SONAME"] or [None], names["NEEDED"]) == ([found.name], [*found.needed]), path
    with pytest.raises(ValueError, match="is no ELF file"):
        elf.linked(Path(__file__))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("bits", [32, 64])
def test_both_widths_and_byte_orders(tmp_path: Path, bits: int, order: str) -> None:
    """Files made as elf(5) lays them out: other machines' libraries are not at hand."""
    path = tmp_path / "lib.so"
    path.write_bytes(made(bits, order))
    assert "c0ffee00" == elf.build_id(path)


def made(bits: int, order: str) -> bytes:
    def pack(format_: str, *values: int) -> bytes:
        return struct.pack(order + format_, *values)

    other = pack("III", 4, 2, 1) + b"GNU\0" + b"ab\0\0"  # NT_GNU_ABI_TAG, its content padded
    foreign = pack("III", 6, 4, 3) + b"Other\0\0\0" + b"\1\2\3\4"
    notes = other + foreign + pack("III", 4, 4, 3) + b"GNU\0" + bytes.fromhex("c0ffee00")
    word, header_bytes, entry_bytes = ("I", 52, 32) if bits == 32 else ("Q", 64, 56)
    at = header_bytes + 2 * entry_bytes
    load, note = (1, 0, at), (4, at, len(notes))

    def entry(kind: int, offset: int, size: int) -> bytes:
        if bits == 32:
            return pack("IIIIIIII", kind, offset, 0, 0, size, size, 4, 4)
        return pack("IIQQQQQQ", kind, 4, offset, 0, 0, size, size, 4)

    ident = b"\x7fELF" + bytes([bits // 32, "<>".index(order) + 1, 1]) + bytes(9)
    header = pack(
        f"HHI{word}{word}{word}IHHHHHH", 3, 0, 1, 0, header_bytes, 0, 0, header_bytes, entry_bytes, 2, 0, 0, 0
    )
    return ident + header + entry(*load) + entry(*note) + notes


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\2\1", b"#!/bin/sh\n", b"\x7fELF\3\3\1" + bytes(100)])
def test_what_is_no_library_is_said_to_be_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"lib\.so is no ELF file"):
        elf.build_id(path)


def test_cut_off_anywhere_and_damaged_anywhere_is_an_id_or_a_reason(tmp_path: Path) -> None:
    whole = made(64, "<")
    path = tmp_path / "lib.so"
    dice = random.Random(7)
    damaged = [bytearray(whole) for _ in range(500)]
    for each in damaged:
        for place in dice.sample(range(4, len(whole)), 3):
            each[place] = dice.choice([0, 1, 255, dice.randrange(256)])
    missing: dict[str, str] = {}
    found = []
    for number, content in enumerate([*(whole[:length] for length in range(len(whole))), *map(bytes, damaged)]):
        path.write_bytes(content)
        found.append(attempt(missing, str(number), lambda: elf.build_id(path)))
    ids = [each for each in found if each is not None]
    assert len(found) == len(ids) + len(missing)
    assert all(re.fullmatch("[0-9a-f]+", each) for each in ids)
    assert all(missing.values())
    assert 0 < len(ids) < 500


def test_pipes_and_folders_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ValueError, match="is no file"):
            elf.build_id(path)
