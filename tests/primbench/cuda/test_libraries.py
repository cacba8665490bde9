"""Finding a library, on libraries that every Linux has."""

from __future__ import annotations

from primbench.cuda import libraries

MAPS = (
    "7f00-7f01 r-xp 00000000 fe:00 1    /usr/lib/libcublas.so.13\n"
    "7f02-7f03 r-xp 00000000 fe:00 2    /opt/a folder/libcublasLt.so.13\n"
    "7f04-7f05 rw-p 00000000 00:00 0 \n"
)


def test_loaded_path_is_found_in_maps() -> None:
    assert "/opt/a folder/libcublasLt.so.13" == libraries.loaded_path("cublasLt", MAPS)
    assert "/usr/lib/libcublas.so.13" == libraries.loaded_path("cublas", MAPS)
    assert libraries.loaded_path("cudnn", MAPS) is None


def test_a_library_that_no_place_has_is_none() -> None:
    assert libraries.first_loadable("of-no-machine", ("libof-no-machine.so.1",)) is None


def test_the_copy_in_this_process_comes_first() -> None:
    loaded = libraries.loaded_path("c", libraries.own_maps())
    found = libraries.first_loadable("c", ("libof-no-machine.so.1",))
    assert loaded is not None
    assert found is not None
    assert loaded == found._name


def test_the_next_name_is_tried_where_one_does_not_load() -> None:
    assert libraries.first_loadable("of-no-machine", ("libof-no-machine.so.1", "libm.so.6")) is not None
