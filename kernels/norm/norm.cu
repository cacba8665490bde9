// variants: -DSTORED=float -DPACK=4 -DHELD=2 -DTHREADS=256 | -DSTORED=__half -DPACK=8 -DHELD=3 -DTHREADS=64 -DRMS=1 | -DSTORED=__nv_bfloat16 -DPACK=1 -DHELD=4 -DTHREADS=32
// Layer and RMS normalisation of x[rows, features], each row by itself.
//
// THREADS have a row, and a block has blockDim.y rows. A row is read once: each thread holds HELD loads of PACK
// elements of it until mean and variance are known, whose sums are in float32.

#include "rows.cuh"

#ifndef RMS
#define RMS 0
#endif

constexpr unsigned MOST_ROWS = 8;  // of a block
constexpr unsigned MOST_THREADS = THREADS < WARP * MOST_ROWS ? WARP * MOST_ROWS : THREADS;  // so few registers each

// Of all threads of a row, each of which gets it.
__device__ float sum_of_row(float value) {
    __shared__ float sums[MOST_ROWS][WARPS];
    for (int offset = WARP / 2; offset; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (WARPS == 1) return value;
    __syncthreads();  // the sums before these have been read
    if (threadIdx.x % WARP == 0) sums[threadIdx.y][threadIdx.x / WARP] = value;
    __syncthreads();
    float sum = 0.0f;
    for (unsigned warp = 0; warp < WARPS; warp++) sum += sums[threadIdx.y][warp];
    return sum;
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
normalise(const T* x, const T* weight, const T* bias, T* y, unsigned rows, unsigned features, float epsilon) {
    unsigned row = blockIdx.x * blockDim.y + threadIdx.y, packs = features / PACK;
    size_t start = size_t(row) * packs;
    bool is_there[HELD];
    Pack held[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        unsigned at = threadIdx.x + i * THREADS;
        is_there[i] = row < rows && at < packs;
        if (is_there[i]) held[i] = reinterpret_cast<const Pack*>(x)[start + at];
    }
    float mean = 0.0f, squares = 0.0f;
    if (!RMS) {
#pragma unroll
        for (int i = 0; i < HELD; i++)
            for (int j = 0; j < PACK; j++) mean += is_there[i] ? float(held[i].of[j]) : 0.0f;
        mean = sum_of_row(mean) / features;
    }
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        for (int j = 0; j < PACK; j++) {
            float deviation = is_there[i] ? float(held[i].of[j]) - mean : 0.0f;
            squares += deviation * deviation;
        }
    }
    float scale = 1.0f / sqrtf(sum_of_row(squares) / features + epsilon);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (!is_there[i]) continue;
        unsigned at = threadIdx.x + i * THREADS;
        Pack by = reinterpret_cast<const Pack*>(weight)[at];
        Pack plus = reinterpret_cast<const Pack*>(RMS ? weight : bias)[at];
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            float value = (float(held[i].of[j]) - mean) * scale * float(by.of[j]);
            held[i].of[j] = T(RMS ? value : value + float(plus.of[j]));
        }
        reinterpret_cast<Pack*>(y)[start + at] = held[i];
    }
}
