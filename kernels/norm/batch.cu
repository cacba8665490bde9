// variants: -DSTORED=float -DPACK=4 | -DSTORED=__half -DPACK=8 -DNHWC=1 | -DSTORED=__nv_bfloat16 -DPACK=1 -DRUNNING=1
// Batch normalisation of x[images, channels, area], or x[images, area, channels] with NHWC, over all but the channels,
// and its gradients.
//
// moments: sums of slices of each channel. factors: of them, or of the running mean and variance, a factor and a
// summand for each channel. apply: y. Sums are in float32, of differences from the channel's first element, so that the
// variance is no difference of large numbers. A thread reads and writes PACK elements at a time.
//
// Gradients take the same three steps: sums_of_dy, factors_of_dx, apply_to_dy. With z = (x - mean) scale,
// dx = (dy - mean of dy - z mean of dy z) scale weight, dweight and dbias are the sums of dy z and of dy.

#include "packs.cuh"

#ifndef NHWC
#define NHWC 0
#endif
#ifndef RUNNING
#define RUNNING 0
#endif

using Index = unsigned long long;
constexpr unsigned THREADS = 256, AT_ONCE = 4, WARP = 32;
constexpr unsigned OWN = NHWC ? PACK : 1;  // channels of a pack

// A block has blockDim.x packs of channels (NHWC), or one channel, and of these a slice of all that there is:
// blockIdx.y of gridDim.y. sums[2][slices][channels]: of values, and of their products with x - start. The values are
// x - start, where start is the channel's first element, or dy, where it is the channel's mean.
template <bool OF_DY>
__device__ void sum_slices(const T* x, const T* dy, const float* means, float* sums, unsigned images, unsigned channels,
                           unsigned area) {
    __shared__ float shared[2 * OWN][THREADS];
    float sum[OWN] = {}, products[OWN] = {};
    unsigned slice = blockIdx.y, slices = gridDim.y, columns = channels / OWN;
    unsigned column = NHWC ? blockIdx.x * blockDim.x + threadIdx.x : blockIdx.x, first = column * OWN;
    unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const Pack* packs = reinterpret_cast<const Pack*>(x);
    if (column < columns) {
        float start[OWN];
        for (unsigned own = 0; own < OWN; own++)
            start[own] = OF_DY ? means[first + own] : float(x[NHWC ? first + own : Index(first) * area]);
        unsigned each = area / PACK;  // packs of an image in one channel; of NHWC the terms are pixels of a column
        Index total = NHWC ? Index(images) * area : Index(images) * each;
        Index step = NHWC ? Index(blockDim.y) * slices : Index(THREADS) * slices;
        Index i = NHWC ? Index(slice) * blockDim.y + threadIdx.y : Index(slice) * THREADS + thread;
        for (; i < total; i += step) {
            unsigned image = NHWC ? 0 : unsigned(i) / each;
            Index at = NHWC ? i * columns + column : (Index(image) * channels + first) * each + (i - image * each);
            Pack pack = packs[at], of_dy = OF_DY ? reinterpret_cast<const Pack*>(dy)[at] : pack;
#pragma unroll
            for (unsigned j = 0; j < PACK; j++) {
                unsigned own = NHWC ? j : 0;
                float difference = float(pack.of[j]) - start[own], value = OF_DY ? float(of_dy.of[j]) : difference;
                sum[own] += value;
                products[own] += value * difference;
            }
        }
    }
    for (unsigned own = 0; own < OWN; own++) shared[own][thread] = sum[own], shared[OWN + own][thread] = products[own];
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

extern "C" __global__ void __launch_bounds__(THREADS)
moments(const T* x, float* sums, unsigned images, unsigned channels, unsigned area) {
    sum_slices<false>(x, nullptr, nullptr, sums, images, channels, area);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sums_of_dy(const T* x, const T* dy, const float* means, float* sums, unsigned images, unsigned channels,
           unsigned area) {
    sum_slices<true>(x, dy, means, sums, images, channels, area);
}

// Of a channel, over all slices, by a warp: each of its threads gets it.
__device__ float sum_of(const float* sums, unsigned channel, unsigned channels, unsigned slices) {
    float sum = 0.0f;
    for (unsigned slice = threadIdx.x; slice < slices; slice += WARP) sum += sums[Index(slice) * channels + channel];
    for (unsigned offset = WARP / 2; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    return sum;
}

// A warp has a channel, and a block blockDim.y of them. by[4][channels]: y = by[0] x + by[1]; the mean, and the scale,
// which are kept for a backward pass.
extern "C" __global__ void factors(const T* x, const float* sums, const float* weight, const float* bias,
                                   float* running_mean, float* running_var, float* by, unsigned images,
                                   unsigned channels, unsigned area, unsigned slices, float epsilon, float momentum) {
    unsigned channel = blockIdx.x * blockDim.y + threadIdx.y;
    if (channel >= channels) return;
    float mean = running_mean[channel], variance = running_var[channel], count = float(images) * area;
    if (!RUNNING) {
        float offset = sum_of(sums, channel, channels, slices) / count;
        float squares = sum_of(sums + Index(slices) * channels, channel, channels, slices);
        mean = float(x[NHWC ? channel : Index(channel) * area]) + offset;
        variance = fmaxf(squares / count - offset * offset, 0.0f);
    }
    if (threadIdx.x) return;
    if (!RUNNING) {
        running_mean[channel] += momentum * (mean - running_mean[channel]);
        running_var[channel] += momentum * (variance * (count / (count - 1.0f)) - running_var[channel]);
    }
    float scale = 1.0f / sqrtf(variance + epsilon), factor = weight[channel] * scale;
    by[channel] = factor;
    by[channels + channel] = bias[channel] - mean * factor;
    by[2 * channels + channel] = mean;
    by[3 * channels + channel] = scale;
}

// kept: mean and scale, [2][channels]. by[3][channels]: dx = by[0] dy + by[1] x + by[2]. Running means do not depend on
// x, and dx is then by[0] dy.
extern "C" __global__ void factors_of_dx(const float* sums, const float* weight, const float* kept, float* by,
                                         float* dweight, float* dbias, unsigned images, unsigned channels,
                                         unsigned area, unsigned slices) {
    unsigned channel = blockIdx.x * blockDim.y + threadIdx.y;
    if (channel >= channels) return;
    float mean = kept[channel], scale = kept[channels + channel], count = float(images) * area;
    float plain = sum_of(sums, channel, channels, slices);
    float along = sum_of(sums + Index(slices) * channels, channel, channels, slices) * scale;
    if (threadIdx.x) return;
    dweight[channel] = along;
    dbias[channel] = plain;
    float factor = weight[channel] * scale, of_x = RUNNING ? 0.0f : -factor * scale * (along / count);
    by[channel] = factor;
    by[channels + channel] = of_x;
    by[2 * channels + channel] = RUNNING ? 0.0f : -factor * (plain / count) - of_x * mean;
}

// y, of x alone or of dy and x.
template <bool OF_DY>
__device__ void combine(const T* x, const T* dy, const float* by, T* y, unsigned packs, unsigned channels,
                        unsigned area) {
    // From the end, which the sums have read last and the cache still has.
    unsigned first = (gridDim.x - 1 - blockIdx.x) * (AT_ONCE * THREADS) + threadIdx.x;
    Pack held[AT_ONCE], of_x[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        unsigned at = first + i * THREADS;
        if (at >= packs) continue;
        held[i] = reinterpret_cast<const Pack*>(OF_DY ? dy : x)[at];
        if (OF_DY && !RUNNING) of_x[i] = reinterpret_cast<const Pack*>(x)[at];
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
        unsigned at = first + i * THREADS;
        if (at >= packs) break;
        unsigned channel = NHWC ? at % (channels / OWN) * OWN : at / (area / PACK) % channels;
#pragma unroll
        for (unsigned j = 0; j < PACK; j++) {
            unsigned own = channel + (NHWC ? j : 0);
            float plus = by[(OF_DY ? 2 : 1) * channels + own];
            if (OF_DY && !RUNNING) plus += by[channels + own] * float(of_x[i].of[j]);
            held[i].of[j] = T(by[own] * float(held[i].of[j]) + plus);
        }
        reinterpret_cast<Pack*>(y)[at] = held[i];
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
apply(const T* x, const float* by, T* y, unsigned packs, unsigned channels, unsigned area) {
    combine<false>(x, nullptr, by, y, packs, channels, area);
}

extern "C" __global__ void __launch_bounds__(THREADS)
apply_to_dy(const T* x, const T* dy, const float* by, T* dx, unsigned packs, unsigned channels, unsigned area) {
    combine<true>(x, dy, by, dx, packs, channels, area);
}
