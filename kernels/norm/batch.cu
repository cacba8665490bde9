// variants: -DSTORED=float -DPACK=4 | -DSTORED=__half -DPACK=8 -DNHWC=1 | -DSTORED=__nv_bfloat16 -DPACK=1 -DRUNNING=1
// Batch normalisation of x[images, channels, area], or x[images, area, channels] with NHWC, over all but the channels.
//
// moments: sums of slices of each channel. factors: of them, or of the running mean and variance, a factor and a
// summand for each channel. apply: y. Sums are in float32, of differences from the channel's first element, so that the
// variance is no difference of large numbers. A thread reads and writes PACK elements at a time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef STORED
#define STORED float
#endif
#ifndef PACK
#define PACK 1
#endif
#ifndef NHWC
#define NHWC 0
#endif
#ifndef RUNNING
#define RUNNING 0
#endif

using T = STORED;
using Index = unsigned long long;
constexpr unsigned THREADS = 256, AT_ONCE = 4, WARP = 32;
constexpr unsigned OWN = NHWC ? PACK : 1;  // channels of a pack

struct alignas(PACK * sizeof(T)) Pack {
    T of[PACK];
};

// A block has blockDim.x packs of channels (NHWC), or one channel, and of these a slice of all that there is: blockIdx.y
// of gridDim.y. sums[2][slices][channels].
extern "C" __global__ void __launch_bounds__(THREADS)
moments(const T* x, float* sums, unsigned images, unsigned channels, unsigned area) {
    __shared__ float shared[2 * OWN][THREADS];
    float sum[OWN] = {}, squares[OWN] = {};
    unsigned slice = blockIdx.y, slices = gridDim.y, columns = channels / OWN;
    unsigned column = NHWC ? blockIdx.x * blockDim.x + threadIdx.x : blockIdx.x, first = column * OWN;
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const Pack* packs = reinterpret_cast<const Pack*>(x);
    if (column < columns) {
        float start[OWN];
        for (unsigned own = 0; own < OWN; own++) start[own] = x[NHWC ? first + own : Index(first) * area];
        unsigned each = area / PACK;  // packs of an image in one channel; of NHWC the terms are pixels of a column
        Index total = NHWC ? Index(images) * area : Index(images) * each;
        Index step = NHWC ? Index(blockDim.y) * slices : Index(THREADS) * slices;
        Index i = NHWC ? Index(slice) * blockDim.y + threadIdx.y : Index(slice) * THREADS + thread;
        for (; i < total; i += step) {
            unsigned image = NHWC ? 0 : unsigned(i) / each;
            Index at = NHWC ? i * columns + column : (Index(image) * channels + first) * each + (i - image * each);
            Pack pack = packs[at];
#pragma unroll
            for (unsigned j = 0; j < PACK; j++) {
                unsigned own = NHWC ? j : 0;
                float difference = float(pack.of[j]) - start[own];
                sum[own] += difference;
                squares[own] += difference * difference;
            }
        }
    }
    for (unsigned own = 0; own < OWN; own++) shared[own][thread] = sum[own], shared[OWN + own][thread] = squares[own];
    // Rows of threads are halved until one is left; of one channel every thread is a row by itself.
    unsigned width = NHWC ? blockDim.x : 1;
    for (unsigned half = THREADS / 2; half >= width; half /= 2) {
        __syncthreads();
        if (thread < half)
            for (unsigned k = 0; k < 2 * OWN; k++) shared[k][thread] += shared[k][thread + half];
    }
    if (thread >= width || column >= columns) return;
    for (unsigned own = 0; own < OWN; own++) {
        sums[Index(slice) * channels + first + own] = shared[own][thread];
        sums[(Index(slices) + slice) * channels + first + own] = shared[OWN + own][thread];
    }
}

// A warp has a channel, and a block blockDim.y of them. by[2][channels]: y = by[0] x + by[1].
extern "C" __global__ void factors(const T* x, const float* sums, const float* weight, const float* bias,
                                   float* running_mean, float* running_var, float* by, unsigned images,
                                   unsigned channels, unsigned area, unsigned slices, float epsilon, float momentum) {
    unsigned channel = blockIdx.x * blockDim.y + threadIdx.y;
    if (channel >= channels) return;
    float mean = running_mean[channel], variance = running_var[channel];
    if (!RUNNING) {
        float sum = 0.0f, squares = 0.0f, count = float(images) * area;
        for (unsigned slice = threadIdx.x; slice < slices; slice += WARP) {
            sum += sums[Index(slice) * channels + channel];
            squares += sums[(Index(slices) + slice) * channels + channel];
        }
        for (unsigned offset = WARP / 2; offset; offset /= 2) {
            sum += __shfl_xor_sync(~0u, sum, offset);
            squares += __shfl_xor_sync(~0u, squares, offset);
        }
        float offset = sum / count;
        mean = float(x[NHWC ? channel : Index(channel) * area]) + offset;
        variance = fmaxf(squares / count - offset * offset, 0.0f);
    }
    if (threadIdx.x) return;
    if (!RUNNING) {
        float count = float(images) * area;
        running_mean[channel] += momentum * (mean - running_mean[channel]);
        running_var[channel] += momentum * (variance * (count / (count - 1.0f)) - running_var[channel]);
    }
    float factor = weight[channel] / sqrtf(variance + epsilon);
    by[channel] = factor;
    by[channels + channel] = bias[channel] - mean * factor;
}

extern "C" __global__ void __launch_bounds__(THREADS)
apply(const T* x, const float* by, T* y, unsigned packs, unsigned channels, unsigned area) {
    unsigned first = blockIdx.x * (AT_ONCE * THREADS) + threadIdx.x;
    Pack held[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++)
        if (first + i * THREADS < packs) held[i] = reinterpret_cast<const Pack*>(x)[first + i * THREADS];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        unsigned at = first + i * THREADS;
        if (at >= packs) break;
        unsigned channel = NHWC ? at % (channels / OWN) * OWN : at / (area / PACK) % channels;
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            unsigned own = channel + (NHWC ? j : 0);
            held[i].of[j] = T(by[own] * float(held[i].of[j]) + by[channels + own]);
        }
        reinterpret_cast<Pack*>(y)[at] = held[i];
    }
}
