// variants: -DSTORED=float -DPACK=4 -DHELD=2 -DTHREADS=256 | -DSTORED=__half -DPACK=8 -DHELD=3 -DTHREADS=64 | -DSTORED=__nv_bfloat16 -DPACK=1 -DHELD=4 -DTHREADS=32
// Softmax, its logarithm and cross entropy of x[rows, classes], each row by itself.
//
// THREADS have a row, and a block has blockDim.y rows. A row is read once: each thread holds HELD loads of PACK
// elements of it until the largest and the sum of the powers are known, in float32.

#include "rows.cuh"

constexpr unsigned MOST_ROWS = 8;  // of a block
constexpr unsigned MOST_THREADS = THREADS < WARP * MOST_ROWS ? WARP * MOST_ROWS : THREADS;  // so few registers each

struct Sum {
    __device__ static float of(float a, float b) { return a + b; }
};
struct Largest {
    __device__ static float of(float a, float b) { return fmaxf(a, b); }
};

// Of all threads of a row, each of which gets it.
template <typename Operation>
__device__ float over_row(float value) {
    __shared__ float each[MOST_ROWS][WARPS];
    for (int offset = WARP / 2; offset; offset /= 2) value = Operation::of(value, __shfl_xor_sync(~0u, value, offset));
    if (WARPS == 1) return value;
    if (threadIdx.x % WARP == 0) each[threadIdx.y][threadIdx.x / WARP] = value;
    __syncthreads();
    value = each[threadIdx.y][0];
    for (unsigned warp = 1; warp < WARPS; warp++) value = Operation::of(value, each[threadIdx.y][warp]);
    return value;
}

struct Row {
    Pack held[HELD];
    float largest, sum;
    unsigned row, packs;
    bool is_row;

    __device__ bool has(int i) const { return is_row && threadIdx.x + i * THREADS < packs; }
    __device__ size_t place(int i) const { return size_t(row) * packs + threadIdx.x + i * THREADS; }

    __device__ Row(const T* x, unsigned rows, unsigned classes) {
        row = blockIdx.x * blockDim.y + threadIdx.y, packs = classes / PACK, is_row = row < rows;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (has(i)) held[i] = reinterpret_cast<const Pack*>(x)[place(i)];
        float found = -3.4028235e38f, powers = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            for (int j = 0; j < PACK; j++) found = has(i) ? fmaxf(found, float(held[i].of[j])) : found;
        largest = over_row<Largest>(found);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            for (int j = 0; j < PACK; j++) powers += has(i) ? expf(float(held[i].of[j]) - largest) : 0.0f;
        sum = over_row<Sum>(powers);
    }
};

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
softmax(const T* x, T* y, unsigned rows, unsigned classes) {
    Row row(x, rows, classes);
    float by = 1.0f / row.sum;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (!row.has(i)) continue;
        for (int j = 0; j < PACK; j++) row.held[i].of[j] = T(expf(float(row.held[i].of[j]) - row.largest) * by);
        reinterpret_cast<Pack*>(y)[row.place(i)] = row.held[i];
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
log_softmax(const T* x, T* y, unsigned rows, unsigned classes) {
    Row row(x, rows, classes);
    float less = row.largest + logf(row.sum);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (!row.has(i)) continue;
        for (int j = 0; j < PACK; j++) row.held[i].of[j] = T(float(row.held[i].of[j]) - less);
        reinterpret_cast<Pack*>(y)[row.place(i)] = row.held[i];
    }
}

extern "C" __global__ void __launch_bounds__(MOST_THREADS)
cross_entropy(const T* x, const long long* target, T* loss, unsigned rows, unsigned classes) {
    Row row(x, rows, classes);
    if (!row.is_row || threadIdx.x) return;
    float of_target = float(x[size_t(row.row) * classes + target[row.row]]);
    loss[row.row] = T(row.largest + logf(row.sum) - of_target);
}
