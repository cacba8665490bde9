// variants: -DSTORED=float -DPACK=4 -DTHREADS=1024 -DBLOCK=1024 | -DSTORED=__nv_bfloat16 -DPACK=8 -DTHREADS=512 -DBLOCK=1024 -DSTAGES=2 | -DSTORED=__half -DPACK=1 -DHELD=3 -DTHREADS=64 -DSTAGES=2 -DRMS=1
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
#ifndef BLOCK
#define BLOCK 512
#endif
#ifndef STAGES
#define STAGES 1
#endif

constexpr unsigned ROWS = BLOCK / THREADS;         // of a block, at most 15 of several warps: a barrier each
constexpr unsigned BLOCKS = 1024 / BLOCK;          // of gradients() on a multiprocessor
constexpr unsigned HALF = ROWS > 1 ? ROWS / 2 : 1;

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

// A load to shared memory, where it is once loaded() has returned: later loads may be on their way by then. Of 16, 8 or 4
// bytes by GPUs that can; of others the thread waits for each.
__device__ void load(Pack* to, const Pack* from) {
#if __CUDA_ARCH__ >= 800
    unsigned address = __cvta_generic_to_shared(to);
    if constexpr (sizeof(Pack) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
    else if constexpr (sizeof(Pack) >= 4)
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(Pack)) : "memory");
    else
        *to = *from;
#else
    *to = *from;
#endif
}

__device__ void end_of_loads() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// All but the loads of the last ones.
__device__ void loaded() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
#endif
}

// The packs of a row that a thread has.
__device__ bool has(int i, unsigned packs) { return threadIdx.x + i * THREADS < packs; }
__device__ size_t place(int i, unsigned packs, unsigned row) {
    return size_t(row) * packs + threadIdx.x + i * THREADS;
}

// A row of each thread's: nobody reads what another one has loaded.
struct Stage {
    Pack x[HELD][BLOCK], dy[HELD][BLOCK];

    __device__ void load_row(const T* of_x, const T* of_dy, unsigned packs, unsigned row, unsigned thread) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!has(i, packs)) continue;
            load(&x[i][thread], reinterpret_cast<const Pack*>(of_x) + place(i, packs, row));
            load(&dy[i][thread], reinterpret_cast<const Pack*>(of_dy) + place(i, packs, row));
        }
    }
};

// The next row of STAGES is on its way from memory while one is computed.
extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
gradients(const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
          const Moments* __restrict__ moments, T* __restrict__ dx, float* __restrict__ sums, unsigned rows,
          unsigned features) {
    extern __shared__ uint4 memory[];
    Stage* stages = reinterpret_cast<Stage*>(memory);
    unsigned packs = features / PACK, thread = threadIdx.x + threadIdx.y * THREADS;
    unsigned row = blockIdx.x + gridDim.x * threadIdx.y, step = gridDim.x * ROWS;
    float each = 1.0f / features;
    Pack by[HELD];
    Sums of_columns[HELD][PACK] = {};
#pragma unroll
    for (int i = 0; i < HELD; i++)
        by[i] = has(i, packs) ? reinterpret_cast<const Pack*>(weight)[place(i, packs, 0)] : Pack{};
#pragma unroll
    for (int k = 0; k < STAGES - 1; k++) {
        if (row + k * step < rows) stages[k].load_row(x, dy, packs, row + k * step, thread);
        end_of_loads();
    }
    Moments next = row < rows ? moments[row] : Moments{};
    for (unsigned turn = 0; row < rows; row += step, turn++) {
        unsigned later = row + (STAGES - 1) * step;
        if (later < rows) stages[(turn + STAGES - 1) % STAGES].load_row(x, dy, packs, later, thread);
        end_of_loads();
        Moments of_row = next;
        if (row + step < rows) next = moments[row + step];
        loaded();
        Pack of_x[HELD], of_dy[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            of_x[i] = has(i, packs) ? stages[turn % STAGES].x[i][thread] : Pack{};
            of_dy[i] = has(i, packs) ? stages[turn % STAGES].dy[i][thread] : Pack{};
        }
        Sums of_g = {};
#pragma unroll
        for (int i = 0; i < HELD; i++) {
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                float value = of_dy[i].of[j], normalised = of_row.normalised(of_x[i].of[j]);
                of_g.add(value * float(by[i].of[j]), normalised);
                of_columns[i][j].add(value, normalised);
            }
        }
        of_g = over_row(of_g, turn);
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (!has(i, packs)) continue;
#pragma unroll
            for (int j = 0; j < PACK; j++) {
                float g = float(of_dy[i].of[j]) * float(by[i].of[j]);
                of_x[i].of[j] = gradient(g, of_row.normalised(of_x[i].of[j]), of_g, of_row.scale, each);
            }
            reinterpret_cast<Pack*>(dx)[place(i, packs, row)] = of_x[i];
        }
    }
    // The block's rows become one slice, half of them in each round, through memory that no row needs any more.
    auto passed = reinterpret_cast<Sums(*)[HALF][THREADS]>(memory);
#pragma unroll 1
    for (unsigned half = ROWS / 2; half; half /= 2) {
        __syncthreads();
        for (int k = 0; k < HELD * PACK && threadIdx.y >= half && threadIdx.y < 2 * half; k++)
            passed[k][threadIdx.y - half][threadIdx.x] = of_columns[k / PACK][k % PACK];
        __syncthreads();
        for (int k = 0; k < HELD * PACK && threadIdx.y < half; k++) {
            of_columns[k / PACK][k % PACK].plain += passed[k][threadIdx.y][threadIdx.x].plain;
            of_columns[k / PACK][k % PACK].along += passed[k][threadIdx.y][threadIdx.x].along;
        }
    }
    if (threadIdx.y) return;
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (has(i, packs)) write(sums, of_columns[i], blockIdx.x, gridDim.x, threadIdx.x + i * THREADS, packs);
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
