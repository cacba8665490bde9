// variants: -DWAYS=12
// A copy by the multiprocessors, 16 bytes a load, WAYS of them under way in each thread, as nvbandwidth has it.

#ifndef WAYS
#define WAYS 12
#endif

extern "C" __global__ void copy(uint4* __restrict__ to, const uint4* __restrict__ from, unsigned long long bytes)
{
    const unsigned long long apart = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long vectors = bytes / sizeof(uint4);
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + (WAYS - 1) * apart < vectors; at += WAYS * apart) {
        uint4 held[WAYS];
#pragma unroll
        for (int way = 0; way < WAYS; ++way) held[way] = from[at + way * apart];
#pragma unroll
        for (int way = 0; way < WAYS; ++way) to[at + way * apart] = held[way];
    }
    for (; at < vectors; at += apart) to[at] = from[at];
    const unsigned long long left = sizeof(uint4) * vectors + threadIdx.x;  // what is less than a vector
    if (blockIdx.x == 0 && left < bytes) ((char*)to)[left] = ((const char*)from)[left];
}
