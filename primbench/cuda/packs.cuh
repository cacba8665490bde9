// Elements of STORED, of which a thread reads and writes PACK at a time.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifndef STORED
#define STORED float
#endif
#ifndef PACK
#define PACK 1
#endif

using T = STORED;

struct alignas(PACK * sizeof(T)) Pack {
    T of[PACK];
};
