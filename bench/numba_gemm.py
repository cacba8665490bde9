"""Numba's float32 product of 4096-cubed matrices as a share of cuBLASLt's, tile by tile.

Each tile is measured between two measurements of cuBLASLt in the same process, whose mean it is held against. Takes
one GPU with CuPy and Numba, and some 6 s a tile; the best is to be the first of ``TILES`` in kernels/gemm/numba.py.
"""

from __future__ import annotations

import argparse

from primbench import Measurement, Method, measure
from primbench.errors import PrimbenchError
from primbench.kernels.gemm import Gemm
from primbench.kernels.gemm import numba as gemm_numba
from primbench.kernels.gemm._tiles import Tile

METHOD = Method(min_time_s=0.3, max_time_s=2)
TILES = (
    Tile(128, 128, 8, 8, 16),
    Tile(128, 128, 8, 16, 8),
    Tile(128, 128, 16, 16, 8),
    Tile(256, 128, 8, 16, 8),
    Tile(128, 256, 8, 8, 16),
    Tile(128, 128, 16, 8, 8, max_registers=128),
    Tile(128, 128, 8, 8, 8, max_registers=128),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=4096)
    side = parser.parse_args().side
    problem = Gemm(side, side, side)
    before = measure(problem, "cupy", "cuda:0", method=METHOD)
    for tile in TILES:
        gemm_numba.TILES["float32"] = (tile,)
        try:
            ours = measure(problem, "numba", "cuda:0", method=METHOD)
        except PrimbenchError as refusal:
            print(f"{tile}: {type(refusal).__name__}: {refusal}", flush=True)
            continue
        after = measure(problem, "cupy", "cuda:0", method=METHOD)
        theirs_s = (_device_s(before) + _device_s(after)) / 2
        words = f"{_device_s(ours) * 1e6:.1f} us, cuBLASLt {theirs_s * 1e6:.1f} us"
        share = f"{theirs_s / _device_s(ours):.1%} of it, {(ours.flop_per_s or 0) / 1e12:.1f} TFLOP/s"
        print(f"{tile}: {words}: {share}", flush=True)
        before = after


def _device_s(measured: Measurement) -> float:
    assert measured.device_s is not None, measured.missing
    return measured.device_s.median_s


if __name__ == "__main__":
    main()
