// variants: -DSTORED=float -DOP=gelu | -DSTORED=__half -DOP=swiglu -DREADS=2 | -DSTORED=__nv_bfloat16 -DOP=gelu_tanh_backward -DREADS=2 | -DSTORED=__nv_bfloat16 -DROPE_PACK=8
// y = OP(a, b), element by element, and rotary embeddings.
//
// A thread reads and writes 16 bytes at a time, AT_ONCE of them from each array before it computes, which keeps enough
// of them on their way to fill the memory's bandwidth. Arithmetic is in float32; for the 16-bit types by the hardware's
// exponential and reciprocal, which are good to 2^-21 and more, or arithmetic and not memory would be what is timed.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef STORED
#define STORED float
#endif
#ifndef OP
#define OP copy
#endif
#ifndef READS
#define READS 1
#endif
#ifndef ROPE_PACK
#define ROPE_PACK 1
#endif

using T = STORED;
constexpr int AT_ONCE = 4;

template <int N>
struct alignas(N * sizeof(T)) Pack {
    T of[N];
};

constexpr bool IS_EXACT = sizeof(T) == 4;

__device__ float exponential(float x) {
    if (IS_EXACT) return expf(x);
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(1.44269504f * x));
    return power;
}
__device__ float reciprocal(float x) {
    if (IS_EXACT) return 1.0f / x;
    float quotient;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(x));
    return quotient;
}
__device__ float sigmoid(float x) { return reciprocal(1.0f + exponential(-x)); }
// The normal distribution's function; for the 16-bit types the sigmoid of a polynomial fitted to it, which is off by at
// most 2^-15 wherever it is neither 0 nor 1.
__device__ float normal(float x) {
    if (IS_EXACT) return 0.5f + 0.5f * erff(0.70710678f * x);
    float square = fminf(x * x, 36.0f);
    return sigmoid(x * (1.59543566f + square * (0.0735965205f - square * 6.31615831e-4f)));
}
// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
__device__ float tanh_gate(float x) { return sigmoid(1.59576912f * (x + 0.044715f * x * x * x)); }

__device__ float copy(float x, float) { return x; }
__device__ float add(float a, float b) { return a + b; }
__device__ float mul(float a, float b) { return a * b; }
__device__ float relu(float x, float) { return fmaxf(x, 0.0f); }
__device__ float gelu(float x, float) { return x * normal(x); }
__device__ float gelu_tanh(float x, float) { return x * tanh_gate(x); }
__device__ float silu(float x, float) { return x * sigmoid(x); }
__device__ float swiglu(float gate, float up) { return gate * sigmoid(gate) * up; }
__device__ float relu_backward(float dy, float x) { return x > 0.0f ? dy : 0.0f; }
__device__ float gelu_backward(float dy, float x) {
    return dy * (normal(x) + x * 0.39894228f * exponential(-0.5f * x * x));
}
__device__ float gelu_tanh_backward(float dy, float x) {
    float gate = tanh_gate(x);
    return dy * (gate + x * gate * (1.0f - gate) * 1.59576912f * (1.0f + 0.134145f * x * x));
}
__device__ float silu_backward(float dy, float x) {
    float gate = sigmoid(x);
    return dy * gate * (1.0f + x * (1.0f - gate));
}

extern "C" __global__ void elementwise(const T* a, const T* b, T* y, unsigned long long elements) {
    constexpr int N = 16 / sizeof(T);
    unsigned long long packs = elements / N, first = blockIdx.x * (AT_ONCE * 1ull * blockDim.x) + threadIdx.x;
    Pack<N> of_a[AT_ONCE], of_b[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        unsigned long long at = first + i * blockDim.x;
        if (at >= packs) break;
        of_a[i] = reinterpret_cast<const Pack<N>*>(a)[at];
        of_b[i] = READS == 2 ? reinterpret_cast<const Pack<N>*>(b)[at] : of_a[i];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        unsigned long long at = first + i * blockDim.x;
        if (at >= packs) break;
#pragma unroll
        for (int j = 0; j < N; j++) of_a[i].of[j] = T(OP(float(of_a[i].of[j]), float(of_b[i].of[j])));
        reinterpret_cast<Pack<N>*>(y)[at] = of_a[i];
    }
    unsigned long long last = packs * N + threadIdx.x;  // what is left over is less than 16 bytes
    if (blockIdx.x == 0 && last < elements) y[last] = T(OP(float(a[last]), float(b[READS == 2 ? last : 0])));
}

// x, y[tokens, heads, 2 half], cos, sin[tokens, half]. A thread has ROPE_PACK pairs, of which each half is one load.
extern "C" __global__ void rope(const T* x, const T* cos, const T* sin, T* y, unsigned tokens, unsigned heads,
                                unsigned half) {
    using P = Pack<ROPE_PACK>;
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, of_half = half / ROPE_PACK;
    unsigned head = thread / of_half, inside = thread % of_half, token = head / heads;
    if (token >= tokens) return;
    size_t first = size_t(head) * 2 * of_half + inside, second = first + of_half;
    size_t table = size_t(token) * of_half + inside;
    P a = reinterpret_cast<const P*>(x)[first], b = reinterpret_cast<const P*>(x)[second];
    P c = reinterpret_cast<const P*>(cos)[table], s = reinterpret_cast<const P*>(sin)[table];
#pragma unroll
    for (int j = 0; j < ROPE_PACK; j++) {
        float real = float(a.of[j]), imaginary = float(b.of[j]);
        a.of[j] = T(real * float(c.of[j]) - imaginary * float(s.of[j]));
        b.of[j] = T(imaginary * float(c.of[j]) + real * float(s.of[j]));
    }
    reinterpret_cast<P*>(y)[first] = a;
    reinterpret_cast<P*>(y)[second] = b;
}
