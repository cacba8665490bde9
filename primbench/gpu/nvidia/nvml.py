"""Which GPUs there are, through NVML (module ``pynvml`` of nvidia-ml-py).

Devices are named as CUDA names them, "cuda:N", and found among NVML's, which number all GPUs by PCI address,
without starting CUDA: a placement must be in effect before CUDA starts its threads.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from primbench.devices import CUDA, Device, nth_gpu
from primbench.errors import InvalidRequest, PlacementError
from primbench.system.files import attempt, sysfs_address

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, eq=False)
class NvmlDevice:
    """NVML handles: of what CUDA sees, and of the board it is on; they differ for a MIG instance."""

    handle: Any
    board: Any


def device_count() -> int:
    """How many devices CUDA will see. Raises PlacementError where NVML cannot be used."""
    return len(visible_devices())


def pci_address(device: Device) -> str:
    """The address of "cuda:N" as sysfs writes it. Raises PlacementError where it cannot be had."""
    board = find(device).board
    try:
        return address_of(board)
    except LookupError as error:
        raise PlacementError(f"{error}", {"device": f"{device}"}) from None


def ask(function: str, *arguments: Any) -> Any:
    """Call an NVML function by name. Raises LookupError naming it, which ``attempt`` turns into a reason."""
    nvml = library()
    call = getattr(nvml, function, None)
    if call is None:
        raise LookupError(f"{function}: this version of nvidia-ml-py does not have it")
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        raise LookupError(f"{function}: {_name_of(error)}") from None
    except nvml.NVMLLibraryMismatchError:
        raise LookupError(f"{function}: this driver does not have it") from None


def _name_of(error: Any) -> str:
    return f"{type(error).__name__} ({error.value})"


@functools.cache
def library() -> Any:
    """The module, with NVML started; it stays so until the process ends."""
    try:
        import pynvml
    except ImportError:
        raise PlacementError("GPUs cannot be found: module 'pynvml' is absent: pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise PlacementError(
            f"GPUs cannot be found: nvmlInit: {_name_of(error)}: is there an NVIDIA driver, visible here?"
        ) from None
    return pynvml


def find(device: Device) -> NvmlDevice:
    """The handles of "cuda:N". Raises InvalidRequest for another name, PlacementError where there is none."""
    if device.kind != CUDA:
        raise InvalidRequest(f"device {device.kind!r}: expected cuda:0, cuda:1, ...")
    devices = visible_devices()
    if device.index >= len(devices):
        names = ", ".join(str(nth_gpu(index)) for index in range(len(devices))) or "none"
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        because = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible})"
        raise PlacementError(f"the GPUs to be seen here are {names}{because}", {"device": f"{device}"})
    return devices[device.index]


def visible_devices() -> tuple[NvmlDevice, ...]:
    """What CUDA will see, in its order. Raises PlacementError where NVML cannot be used."""
    try:
        return _select(os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("CUDA_DEVICE_ORDER"))
    except LookupError as error:
        raise PlacementError(f"GPUs cannot be found: {error}") from None


def boards() -> list[NvmlDevice]:
    """All that this place shows, in NVML's order. Raises LookupError, and PlacementError where NVML cannot be used."""
    handles = [ask("nvmlDeviceGetHandleByIndex", index) for index in range(ask("nvmlDeviceGetCount"))]
    return [NvmlDevice(handle, handle) for handle in handles]


@functools.cache
def _select(visible: str | None, order: str | None) -> tuple[NvmlDevice, ...]:
    """CUDA's devices in CUDA's order: CUDA C++ Programming Guide, "CUDA Environment Variables"."""
    there = boards()
    if visible is None:
        return _at_once(_in_cuda_order(there, order))
    chosen: list[NvmlDevice] = []
    for entry in visible.split(","):
        device = _named(entry.strip(), there, order)
        if device is None:  # CUDA ignores what follows the first entry it does not know
            break
        chosen.append(device)
    return _at_once(chosen)


def _named(entry: str, boards: list[NvmlDevice], order: str | None) -> NvmlDevice | None:
    """The device that one entry of CUDA_VISIBLE_DEVICES means: a number, or the start of a UUID."""
    if re.fullmatch(r"[0-9]{1,4}", entry, re.ASCII):
        return _in_cuda_order(boards, order)[int(entry)] if int(entry) < len(boards) else None
    if entry.startswith("MIG-"):
        boards = [instance for board in boards for instance in _mig_instances(board.handle)]
    elif not entry.startswith("GPU-"):
        return None
    matching = [device for device in boards if ask("nvmlDeviceGetUUID", device.handle).startswith(entry)]
    return matching[0] if len(matching) == 1 else None


def _in_cuda_order(boards: list[NvmlDevice], order: str | None) -> list[NvmlDevice]:
    """CUDA puts the fastest first unless told to go by PCI address, as NVML does; equal if all are alike."""
    certain = len(boards) < 2 or order == "PCI_BUS_ID"
    if not certain and len({ask("nvmlDeviceGetName", board.handle) for board in boards}) > 1:
        raise PlacementError(
            "the GPUs differ, so CUDA's order of them is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, "
            "or name them by UUID in CUDA_VISIBLE_DEVICES"
        )
    return boards


def _at_once(chosen: list[NvmlDevice]) -> tuple[NvmlDevice, ...]:
    """A process sees one MIG instance and nothing beside it: MIG User Guide, "CUDA Device Enumeration"."""
    instances = [
        instance
        for device in chosen
        for instance in (_mig_instances(device.board) if device.handle is device.board else [device])
    ]
    return tuple(instances[:1] or chosen)


def _mig_instances(board: Any) -> list[NvmlDevice]:
    instances = []
    with contextlib.suppress(LookupError):  # a board without MIG
        for slot in range(ask("nvmlDeviceGetMaxMigDeviceCount", board)):
            with contextlib.suppress(LookupError):  # an empty slot
                instances.append(NvmlDevice(ask("nvmlDeviceGetMigDeviceHandleByIndex", board, slot), board))
    return instances


def read_fields(
    fields: dict[str, Callable[[NvmlDevice], Any]], device: NvmlDevice, missing: dict[str, str]
) -> dict[str, Any]:
    """What each reader finds; None for those that fail, with the reason in ``missing``."""
    return {field: attempt(missing, field, functools.partial(read, device)) for field, read in fields.items()}


def address_of(board: Any) -> str:
    return sysfs_address(ask("nvmlDeviceGetPciInfo", board).busId)
