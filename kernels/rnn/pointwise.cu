// variants: -DSTORED=float | -DSTORED=__half | -DSTORED=__nv_bfloat16
// What a recurrent network does in a step besides its products, one kernel for each cell.
//
// A thread has one of the hidden_size units of one of the rows, which are the sequences of the batch. from_x, from_h
// [rows, gates * hidden_size]: this step's products with the input and with the state before; b_ih, b_hh: the biases
// added to them. h, c [rows, hidden_size]: the state, the same array before and after in all steps but the first.
// y: this step's output, whose rows lie y_stride apart. Gates stand in cuDNN's order: i f g o and r z n.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef STORED
#define STORED float
#endif

using T = STORED;

// 1 / (1 + exp(-x)), which no x makes overflow to NaN.
__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

struct Unit {
    int row, unit, hidden_size, gates;

    __device__ Unit(int hidden_size, int gates) : hidden_size(hidden_size), gates(gates) {
        int thread = blockIdx.x * blockDim.x + threadIdx.x;
        row = thread / hidden_size;
        unit = thread % hidden_size;
    }
    // A gate's part of a product with its bias.
    __device__ float gate(const T* product, const T* bias, int number) const {
        int column = number * hidden_size + unit;
        return float(product[size_t(row) * gates * hidden_size + column]) + float(bias[column]);
    }
    __device__ size_t state() const { return size_t(row) * hidden_size + unit; }
    __device__ void write(float value, T* h, T* y, int y_stride) const {
        h[state()] = y[size_t(row) * y_stride + unit] = T(value);
    }
};

extern "C" __global__ void vanilla(const T* from_x, const T* from_h, const T* b_ih, const T* b_hh, T* h, T* y,
                                   int rows, int hidden_size, int y_stride) {
    Unit u(hidden_size, 1);
    if (u.row >= rows) return;
    u.write(fmaxf(u.gate(from_x, b_ih, 0) + u.gate(from_h, b_hh, 0), 0.0f), h, y, y_stride);
}

extern "C" __global__ void lstm(const T* from_x, const T* from_h, const T* b_ih, const T* b_hh, T* h, T* y,
                                int rows, int hidden_size, int y_stride, const T* c_before, T* c) {
    Unit u(hidden_size, 4);
    if (u.row >= rows) return;
    float i = sigmoid(u.gate(from_x, b_ih, 0) + u.gate(from_h, b_hh, 0));
    float f = sigmoid(u.gate(from_x, b_ih, 1) + u.gate(from_h, b_hh, 1));
    float g = tanhf(u.gate(from_x, b_ih, 2) + u.gate(from_h, b_hh, 2));
    float o = sigmoid(u.gate(from_x, b_ih, 3) + u.gate(from_h, b_hh, 3));
    float cell = f * float(c_before[u.state()]) + i * g;
    c[u.state()] = T(cell);
    u.write(o * tanhf(cell), h, y, y_stride);
}

extern "C" __global__ void gru(const T* from_x, const T* from_h, const T* b_ih, const T* b_hh, T* h, T* y,
                               int rows, int hidden_size, int y_stride, const T* h_before) {
    Unit u(hidden_size, 3);
    if (u.row >= rows) return;
    float r = sigmoid(u.gate(from_x, b_ih, 0) + u.gate(from_h, b_hh, 0));
    float z = sigmoid(u.gate(from_x, b_ih, 1) + u.gate(from_h, b_hh, 1));
    float n = tanhf(u.gate(from_x, b_ih, 2) + r * u.gate(from_h, b_hh, 2));
    u.write(n + z * (float(h_before[u.state()]) - n), h, y, y_stride);
}
