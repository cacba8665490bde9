// Rows of packs: THREADS have a row, of which each holds HELD packs.

#include "packs.cuh"

#ifndef HELD
#define HELD 1
#endif
#ifndef THREADS
#define THREADS 32
#endif

constexpr unsigned WARP = 32, WARPS = THREADS / WARP;
