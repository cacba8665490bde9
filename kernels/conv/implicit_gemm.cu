// variants: -DSTORED=float | -DSTORED=__half | -DSTORED=__nv_bfloat16 | -DSTORED=int8 | -DSTORED=__half -DNHWC=1 -DSLICES=1
// Convolution and its gradients as matrix products, C[row, column] = sum over terms of A[row, term] B[term, column],
// whose factors are read where they lie in X, W and Y: no matrix is written out. Each group is a product by itself.
//
//                rows        columns         terms       A    B
// forward        filters k   outputs n p q   c r s       W    X
// bwd_data       channels c  pixels n h w    k r s       W    dY
// bwd_weights    filters k   c r s           n p q       dY   X
//
// Sizes are constants, so that divisions by them are multiplications. Where a product has too few tiles to occupy the
// GPU, its terms are cut into slices, whose sums add_slices() adds up in a fixed order.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef STORED
#define STORED float
#endif
#ifndef GEOMETRY
#define GEOMETRY {2, 6, 9, 8, 4, 3, 2, 5, 4, 1, 1, 2, 2, 1, 2, 2}
#endif
#ifndef NHWC
#define NHWC 0
#endif
#ifndef SLICES
#define SLICES 2
#endif

using int8 = signed char;
template <typename Stored>
struct Arithmetic {
    using Sum = float;
    using Sums4 = float4;
    using Output = Stored;
};
template <>
struct Arithmetic<int8> {
    using Sum = int;
    using Sums4 = int4;
    using Output = int;
};
using Sum = Arithmetic<STORED>::Sum;
using Sums4 = Arithmetic<STORED>::Sums4;
using Output = Arithmetic<STORED>::Output;

struct Axis {
    unsigned image, outputs, pad, stride, dilation;
};
struct Geometry {
    unsigned n, c, h, w, k, r, s, p, q, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
};
__device__ constexpr Geometry G = GEOMETRY;
__device__ constexpr Axis DOWN = {G.h, G.p, G.pad_h, G.stride_h, G.dilation_h};
__device__ constexpr Axis ALONG = {G.w, G.q, G.pad_w, G.stride_w, G.dilation_w};

constexpr unsigned CHANNELS = G.c / G.groups, FILTERS = G.k / G.groups;  // of a group
constexpr unsigned BLOCK = 64, DEPTH = 16, THREADS = 256;  // the sides of a tile of C, the terms it takes at a time
constexpr unsigned EACH = BLOCK * DEPTH / THREADS;  // elements of A, and of B, that a thread brings at a time
constexpr unsigned OWN = 4, SIDE = BLOCK / OWN;  // a thread owns OWN x OWN elements of the tile
constexpr unsigned NOWHERE = ~0u;  // the place of what the padding holds

struct Place {  // of an element of X or Y, without its channel; or of a tap, ``outer`` then being the channel
    unsigned outer, row, column;
};

__device__ Place place_in(unsigned index, unsigned rows, unsigned columns) {
    return {index / columns / rows, index / columns % rows, index % columns};
}

__device__ Place tap(unsigned index, unsigned channels) {  // in the order of memory, so that neighbours are neighbours
    if (!NHWC) return place_in(index, G.r, G.s);
    return {index % channels, index / channels / G.s, index / channels % G.s};
}

__device__ unsigned offset(unsigned n, unsigned c, unsigned row, unsigned column,
                           unsigned channels, unsigned rows, unsigned columns) {
    if (row == NOWHERE || column == NOWHERE) return NOWHERE;
    if (NHWC) return ((n * rows + row) * columns + column) * channels + c;
    return ((n * channels + c) * rows + row) * columns + column;
}
__device__ unsigned in_x(unsigned n, unsigned c, unsigned h, unsigned w) {
    return offset(n, c, h, w, G.c, G.h, G.w);
}
__device__ unsigned in_w(unsigned k, unsigned c, unsigned r, unsigned s) {
    return offset(k, c, r, s, CHANNELS, G.r, G.s);
}
__device__ unsigned in_y(unsigned n, unsigned k, unsigned p, unsigned q) {
    return offset(n, k, p, q, G.k, G.p, G.q);
}

__device__ unsigned pixel(unsigned output, unsigned tap, Axis axis) {
    unsigned place = output * axis.stride + tap * axis.dilation - axis.pad;  // above any size where it is negative
    return place < axis.image ? place : NOWHERE;
}
__device__ unsigned output(unsigned pixel, unsigned tap, Axis axis) {
    unsigned place = pixel + axis.pad, shift = tap * axis.dilation;
    if (place < shift || (place - shift) % axis.stride) return NOWHERE;
    unsigned found = (place - shift) / axis.stride;
    return found < axis.outputs ? found : NOWHERE;
}

// A direction: the size of its products, where their elements are, and along which index memory runs in A and B.
struct Forward {
    static constexpr unsigned ROWS = FILTERS, COLUMNS = G.n * G.p * G.q, TERMS = CHANNELS * G.r * G.s;
    static constexpr bool A_ALONG_TERMS = true, B_ALONG_TERMS = NHWC;
    static __device__ unsigned a(unsigned group, unsigned row, unsigned term) {
        return (group * ROWS + row) * TERMS + term;
    }
    static __device__ unsigned b(unsigned group, unsigned term, unsigned column) {
        Place y = place_in(column, G.p, G.q), t = tap(term, CHANNELS);
        return in_x(y.outer, group * CHANNELS + t.outer, pixel(y.row, t.row, DOWN), pixel(y.column, t.column, ALONG));
    }
    static __device__ unsigned c(unsigned group, unsigned row, unsigned column) {
        Place y = place_in(column, G.p, G.q);
        return in_y(y.outer, group * ROWS + row, y.row, y.column);
    }
};
struct BwdData {
    static constexpr unsigned ROWS = CHANNELS, COLUMNS = G.n * G.h * G.w, TERMS = FILTERS * G.r * G.s;
    static constexpr bool A_ALONG_TERMS = !NHWC, B_ALONG_TERMS = NHWC;
    static __device__ unsigned a(unsigned group, unsigned row, unsigned term) {
        Place t = tap(term, FILTERS);
        return in_w(group * FILTERS + t.outer, row, t.row, t.column);
    }
    static __device__ unsigned b(unsigned group, unsigned term, unsigned column) {
        Place x = place_in(column, G.h, G.w), t = tap(term, FILTERS);
        return in_y(x.outer, group * FILTERS + t.outer, output(x.row, t.row, DOWN), output(x.column, t.column, ALONG));
    }
    static __device__ unsigned c(unsigned group, unsigned row, unsigned column) {
        Place x = place_in(column, G.h, G.w);
        return in_x(x.outer, group * ROWS + row, x.row, x.column);
    }
};
struct BwdWeights {
    static constexpr unsigned ROWS = FILTERS, COLUMNS = CHANNELS * G.r * G.s, TERMS = G.n * G.p * G.q;
    static constexpr bool A_ALONG_TERMS = !NHWC, B_ALONG_TERMS = !NHWC;
    static __device__ unsigned a(unsigned group, unsigned row, unsigned term) {
        Place y = place_in(term, G.p, G.q);
        return in_y(y.outer, group * ROWS + row, y.row, y.column);
    }
    static __device__ unsigned b(unsigned group, unsigned term, unsigned column) {
        return Forward::b(group, column, term);
    }
    static __device__ unsigned c(unsigned group, unsigned row, unsigned column) {
        return (group * ROWS + row) * COLUMNS + column;
    }
};

using Tile = Sum[DEPTH][BLOCK + 4];  // rows stay 16-byte aligned, and fewer of them start in the same bank

// A thread's share in bringing a tile of A or B: neighbouring threads bring neighbours in memory.
template <bool ALONG_TERMS>
struct Share {
    Sum elements[EACH];

    static __device__ unsigned term(unsigned i) {
        return ALONG_TERMS ? threadIdx.x % DEPTH : threadIdx.x / BLOCK + i * (THREADS / BLOCK);
    }
    static __device__ unsigned other(unsigned i) {
        return ALONG_TERMS ? threadIdx.x / DEPTH + i * (THREADS / DEPTH) : threadIdx.x % BLOCK;
    }
    template <typename Offset>
    __device__ void fetch(const STORED* array, Offset offset) {
#pragma unroll
        for (unsigned i = 0; i < EACH; ++i) {
            const unsigned at = offset(other(i), term(i));
            elements[i] = at == NOWHERE ? Sum(0) : Sum(array[at]);
        }
    }
    __device__ void put(Tile& tile) const {
#pragma unroll
        for (unsigned i = 0; i < EACH; ++i) tile[term(i)][other(i)] = elements[i];
    }
};

__device__ void multiply(const Tile& a, const Tile& b, unsigned row, unsigned column, Sum (&sums)[OWN][OWN]) {
#pragma unroll
    for (unsigned term = 0; term < DEPTH; ++term) {
        const Sums4 of_a = *reinterpret_cast<const Sums4*>(&a[term][row]);
        const Sums4 of_b = *reinterpret_cast<const Sums4*>(&b[term][column]);
        const Sum left[OWN] = {of_a.x, of_a.y, of_a.z, of_a.w}, right[OWN] = {of_b.x, of_b.y, of_b.z, of_b.w};
#pragma unroll
        for (unsigned i = 0; i < OWN; ++i)
#pragma unroll
            for (unsigned j = 0; j < OWN; ++j) sums[i][j] += left[i] * right[j];
    }
}

template <typename Direction>
__device__ void product(const STORED* a, const STORED* b, Output* c, Sum* parts) {
    constexpr unsigned ROWS = Direction::ROWS, COLUMNS = Direction::COLUMNS, TERMS = Direction::TERMS;
    constexpr unsigned TILES_DOWN = (ROWS - 1) / BLOCK + 1, TILES_ALONG = (COLUMNS - 1) / BLOCK + 1;
    constexpr unsigned SLICE = ((TERMS - 1) / SLICES / DEPTH + 1) * DEPTH;  // terms: whole depths, but for the last
    __shared__ __align__(16) Tile tile_a, tile_b;

    const unsigned tile = blockIdx.x % (TILES_DOWN * TILES_ALONG), part = blockIdx.x / (TILES_DOWN * TILES_ALONG);
    const unsigned row0 = tile % TILES_DOWN * BLOCK, column0 = tile / TILES_DOWN * BLOCK;
    const unsigned group = part % G.groups, slice = part / G.groups;
    const unsigned begin = slice * SLICE, end = min(TERMS, begin + SLICE);
    const unsigned own_row = threadIdx.x / SIDE * OWN, own_column = threadIdx.x % SIDE * OWN;

    Share<Direction::A_ALONG_TERMS> share_a;
    Share<Direction::B_ALONG_TERMS> share_b;
    auto fetch = [&](unsigned term0) {
        share_a.fetch(a, [=](unsigned i, unsigned j) {
            const unsigned row = row0 + i, term = term0 + j;
            return row < ROWS && term < end ? Direction::a(group, row, term) : NOWHERE;
        });
        share_b.fetch(b, [=](unsigned i, unsigned j) {
            const unsigned column = column0 + i, term = term0 + j;
            return column < COLUMNS && term < end ? Direction::b(group, term, column) : NOWHERE;
        });
    };

    Sum sums[OWN][OWN] = {};
    if (begin < end) fetch(begin);
    for (unsigned term0 = begin; term0 < end; term0 += DEPTH) {
        __syncthreads();
        share_a.put(tile_a);
        share_b.put(tile_b);
        __syncthreads();
        if (term0 + DEPTH < end) fetch(term0 + DEPTH);  // on its way while the present tiles are multiplied
        multiply(tile_a, tile_b, own_row, own_column, sums);
    }

    Sum* const own_parts = parts + size_t(slice) * (G.groups * ROWS * COLUMNS);
#pragma unroll
    for (unsigned i = 0; i < OWN; ++i)
#pragma unroll
        for (unsigned j = 0; j < OWN; ++j) {
            const unsigned row = row0 + own_row + i, column = column0 + own_column + j;
            if (row >= ROWS || column >= COLUMNS) continue;
            const unsigned at = Direction::c(group, row, column);
            if (SLICES > 1) own_parts[at] = sums[i][j];
            else c[at] = Output(sums[i][j]);
        }
}

extern "C" {
__global__ void __launch_bounds__(THREADS) forward(const STORED* x, const STORED* w, Output* y, Sum* parts) {
    product<Forward>(w, x, y, parts);
}
__global__ void __launch_bounds__(THREADS) bwd_data(const STORED* dy, const STORED* w, Output* dx, Sum* parts) {
    product<BwdData>(w, dy, dx, parts);
}
__global__ void __launch_bounds__(THREADS) bwd_weights(const STORED* dy, const STORED* x, Output* dw, Sum* parts) {
    product<BwdWeights>(dy, x, dw, parts);
}
__global__ void add_slices(const Sum* parts, Output* output, unsigned elements) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= elements) return;
    Sum total = 0;
    for (unsigned slice = 0; slice < SLICES; ++slice) total += parts[size_t(slice) * elements + at];
    output[at] = Output(total);
}
}
