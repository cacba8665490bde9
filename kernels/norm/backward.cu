// variants: -DSTORED=float -DPACK=4 -DHELD=2 -DTHREADS=512 | -DSTORED=__nv_bfloat16 -DPACK=1 -DHELD=3 -DTHREADS=32 -DRMS=1
// Gradients of layer and RMS normalisation of x[rows, features].
//
// With g = dy weight and z = (x - mean) scale, dx = (g - mean of g - z mean of g z) scale, for RMS without the mean of
// g; dweight and dbias are the sums over all rows of dy z and of dy. Sums are in float32. Those over rows are made in
// slices, which total() adds: without atomics, they are the same in every call.
//
// gradients: of rows that a block can hold. THREADS have a row, of which each holds HELD loads of PACK elements, and
// the same columns of every row that they come to: that is where a slice's sums are. sums_of_rows,
// gradients_of_long_rows: of longer rows, which are read twice.

#include "rows.cuh"

#ifndef RMS
#define RMS 0
#endif

constexpr unsigned BLOCK = 512, ROWS = BLOCK / THREADS;  // of a block
constexpr unsigned BLOCKS = HELD == 1 ? 2 : 1;  // of gradients() on a multiprocessor, so few registers each

// What the forward pass keeps of a row.
struct alignas(8) Moments {
    float mean, scale;

    __device__ float normalised(float x) const { return (x - mean) * scale; }
};

// Of values, and of each times the normalised x.
struct alignas(8) Sums {
    float plain, along;

    __device__ void add(float value, float normalised) {
        if (!RMS) plain += value;
        along += value * normalised;
    }
};

// Of all threads of a row, each of which gets it. turn is another one than in the call before: who comes late reads
// what that one has left, and so one barrier a call is enough. Each row of a block has its own.
__device__ Sums over_row(Sums sums, unsigned turn) {
    __shared__ Sums each[2][ROWS][WARPS];
    for (int offset = WARP / 2; offset; offset /= 2) {
        if (!RMS) sums.plain += __shfl_xor_sync(~0u, sums.plain, offset);
        sums.along += __shfl_xor_sync(~0u, sums.along, offset);
    }
    if (WARPS == 1) return sums;
    Sums* of_row = each[turn % 2][threadIdx.y];
    if (threadIdx.x % WARP == 0) of_row[threadIdx.x / WARP] = sums;
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.y), "n"(THREADS) : "memory");  // 0 is that of __syncthreads
    sums = of_row[0];
    for (unsigned warp = 1; warp < WARPS; warp++) sums.plain += of_row[warp].plain, sums.along += of_row[warp].along;
    return sums;
}

// dx of one element. sums: of g over its row.
__device__ T gradient(float g, float normalised, Sums sums, float scale, float each) {
    float mean = RMS ? 0.0f : sums.plain * each;
    return T((g - mean - normalised * (sums.along * each)) * scale);
}

// Sums over rows, [weight, bias][slices][features]; those of the columns of a pack, which slice has.
__device__ void write(float* sums, const Sums* of_columns, unsigned slice, unsigned slices, unsigned pack,
                      unsigned packs) {
    struct alignas(PACK % 4 ? 4 : 16) Floats {
        float of[PACK];
    } along, plain;
#pragma unroll
    for (int j = 0; j < PACK; j++) along.of[j] = of_columns[j].along, plain.of[j] = of_columns[j].plain;
    reinterpret_cast<Floats*>(sums)[size_t(slice) * packs + pack] = along;
    if (!RMS) reinterpret_cast<Floats*>(sums)[(size_t(slices) + slice) * packs + pack] = plain;
}

// The part of a row that a thread has.
struct Row {
    Pack x[HELD], dy[HELD];
    Moments moments;

    __device__ static bool has(int i, unsigned packs) { return threadIdx.x + i * THREADS < packs; }
    __device__ static size_t place(int i, unsigned packs, unsigned row) {
        return size_t(row) * packs + threadIdx.x + i * THREADS;
    }
    __device__ static Pack read(const T* array, int i, unsigned packs, unsigned row) {
        return has(i, packs) ? reinterpret_cast<const Pack*>(array)[place(i, packs, row)] : Pack{};
    }

    __device__ void read(const T* of_x, const T* of_dy, const Moments* of_rows, unsigned packs, unsigned row) {
#pragma unroll
        for (int i = 0; i < HELD; i++) x[i] = read(of_x, i, packs, row), dy[i] = read(of_dy, i, packs, row);
        moments = of_rows[row];
    }
};

// A row is on its way from memory while the one before it is computed.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
gradients(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
          const Moments* __restrict__ moments, T* __restrict__ dx, float* __restrict__ sums, unsigned rows,
          unsigned features) {
    unsigned packs = features / PACK, row = blockIdx.x + gridDim.x * threadIdx.y, step = gridDim.x * ROWS;
    float each = 1.0f / features;
    Pack by[HELD];
    Sums of_columns[HELD][PACK] = {};
    Row next;
#pragma unroll
    for (int i = 0; i < HELD; i++) by[i] = Row::read(weight, i, packs, 0);
    if (row < rows) next.read(x, dy, moments, packs, row);
    for (unsigned turn = 0; row < rows; row += step, turn++) {
        Row held = next;
        if (row + step < rows) next.read(x, dy, moments, packs, row + step);
        Sums of_row = {};
#pragma unroll
        for (int i = 0; i < HELD; i++) {
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                float value = held.dy[i].of[j], normalised = held.moments.normalised(held.x[i].of[j]);
                of_row.add(value * float(by[i].of[j]), normalised);
                of_columns[i][j].add(value, normalised);
            }
        }
        of_row = over_row(of_row, turn);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!Row::has(i, packs)) continue;
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                float g = float(held.dy[i].of[j]) * float(by[i].of[j]);
                float normalised = held.moments.normalised(held.x[i].of[j]);
                held.x[i].of[j] = gradient(g, normalised, of_row, held.moments.scale, each);
            }
            reinterpret_cast<Pack*>(dx)[Row::place(i, packs, row)] = held.x[i];
        }
    }
    // The block's rows become one slice.
    __shared__ Sums passed[ROWS > 1 ? HELD * PACK : 1][THREADS];
    for (unsigned giver = 1; giver < ROWS; giver++) {
        for (int k = 0; threadIdx.y == giver && k < HELD * PACK; k++)
            passed[k][threadIdx.x] = of_columns[k / PACK][k % PACK];
        __syncthreads();
        for (int k = 0; threadIdx.y == 0 && k < HELD * PACK; k++) {
            of_columns[k / PACK][k % PACK].plain += passed[k][threadIdx.x].plain;
            of_columns[k / PACK][k % PACK].along += passed[k][threadIdx.x].along;
        }
        __syncthreads();
    }
    if (threadIdx.y) return;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (Row::has(i, packs)) write(sums, of_columns[i], blockIdx.x, gridDim.x, threadIdx.x + i * THREADS, packs);
}

// Of g, for each row.
extern "C" __global__ void __launch_bounds__(BLOCK)
sums_of_rows(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
             const Moments* __restrict__ moments, Sums* __restrict__ of_rows, unsigned rows, unsigned features) {
    unsigned packs = features / PACK, row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows) return;
    Moments of_row = moments[row];
    size_t start = size_t(row) * packs;
    Sums sums = {};
#pragma unroll 4
    for (unsigned at = threadIdx.x; at < packs; at += THREADS) {
        Pack of_x = reinterpret_cast<const Pack*>(x)[start + at], of_dy = reinterpret_cast<const Pack*>(dy)[start + at];
        Pack by = reinterpret_cast<const Pack*>(weight)[at];
#pragma unroll
        for (int j = 0; j < PACK; j++)
            sums.add(float(of_dy.of[j]) * float(by.of[j]), of_row.normalised(of_x.of[j]));
    }
    sums = over_row(sums, 0);
    if (threadIdx.x == 0) of_rows[row] = sums;
}

// A thread has a pack of columns, and every gridDim.y-th row of them, from the last one on: sums_of_rows has read that
// last, and the cache still has it.
extern "C" __global__ void __launch_bounds__(BLOCK)
gradients_of_long_rows(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
                       const Moments* __restrict__ moments, const Sums* __restrict__ of_rows, T* __restrict__ dx,
                       float* __restrict__ sums, unsigned rows, unsigned features) {
    unsigned packs = features / PACK, at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= packs) return;
    float each = 1.0f / features;
    Pack by = reinterpret_cast<const Pack*>(weight)[at];
    Sums of_columns[PACK] = {};
#pragma unroll 4
    for (unsigned from_last = blockIdx.y; from_last < rows; from_last += gridDim.y) {
        unsigned row = rows - 1 - from_last;
        size_t place = size_t(row) * packs + at;
        Pack of_x = reinterpret_cast<const Pack*>(x)[place], of_dy = reinterpret_cast<const Pack*>(dy)[place];
        Moments of_row = moments[row];
        Sums of_g = of_rows[row];
#pragma unroll
        for (int j = 0; j < PACK; j++) {
            float value = of_dy.of[j], normalised = of_row.normalised(of_x.of[j]);
            of_columns[j].add(value, normalised);
            of_x.of[j] = gradient(value * float(by.of[j]), normalised, of_g, of_row.scale, each);
        }
        reinterpret_cast<Pack*>(dx)[place] = of_x;
    }
    write(sums, of_columns, blockIdx.y, gridDim.y, at, packs);
}

// Of all slices: blockDim.y threads have a column, of the weight (blockIdx.y 0) or of the bias (1).
extern "C" __global__ void __launch_bounds__(BLOCK)
total(const float* __restrict__ sums, T* dweight, T* dbias, unsigned slices, unsigned features) {
    __shared__ float each[BLOCK / WARP][WARP];
    unsigned column = blockIdx.x * WARP + threadIdx.x;
    const float* of_column = sums + size_t(blockIdx.y) * slices * features + column;
    float sum = 0.0f;
    if (column < features) {
#pragma unroll 8
        for (unsigned slice = threadIdx.y; slice < slices; slice += BLOCK / WARP)
            sum += of_column[size_t(slice) * features];
    }
    each[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || column >= features) return;
    for (unsigned k = 1; k < BLOCK / WARP; k++) sum += each[k][threadIdx.x];
    (blockIdx.y ? dbias : dweight)[column] = T(sum);
}

// What the forward pass keeps.
extern "C" __global__ void __launch_bounds__(BLOCK)
keep(const T* __restrict__ x, Moments* __restrict__ moments, unsigned rows, unsigned features, float epsilon) {
    unsigned packs = features / PACK, row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows) return;
    const Pack* of_x = reinterpret_cast<const Pack*>(x) + size_t(row) * packs;
    float mean = 0.0f;
    if (!RMS) {
        Sums sums = {};
        for (unsigned at = threadIdx.x; at < packs; at += THREADS)
            for (int j = 0; j < PACK; j++) sums.add(of_x[at].of[j], 0.0f);
        mean = over_row(sums, 0).plain / features;
    }
    Sums squares = {};
    for (unsigned at = threadIdx.x; at < packs; at += THREADS) {
        for (int j = 0; j < PACK; j++) {
            float deviation = float(of_x[at].of[j]) - mean;
            squares.add(deviation, deviation);
        }
    }
    squares = over_row(squares, 1);
    if (threadIdx.x == 0) moments[row] = {mean, 1.0f / sqrtf(squares.along / features + epsilon)};
}
