// variants: -DPARAMETER_BYTES=16 | -DPARAMETER_BYTES=4096 | -DPARAMETER_BYTES=24 -DCONDITIONAL
// Kernels that do nothing but be launched, the second with parameters, the last word of which it writes.

#ifndef PARAMETER_BYTES
#define PARAMETER_BYTES 16
#endif

struct Parameters {
    int* output;
    int words[PARAMETER_BYTES / 4 - 2];
};

extern "C" __global__ void empty() {}

extern "C" __global__ void last_word(Parameters parameters) {
    *parameters.output = parameters.words[PARAMETER_BYTES / 4 - 3];
}

#ifdef CONDITIONAL
// Body of a graph's loop: pass i writes i + 1 to element i, and the last one ends the loop.

extern "C" __device__ __cudart_builtin__ void CUDARTAPI
cudaGraphSetConditional(cudaGraphConditionalHandle condition, unsigned int value);

struct Pass {
    int* output;
    cudaGraphConditionalHandle condition;
    int words[PARAMETER_BYTES / 4 - 4];
};

__device__ int passes = 0;

extern "C" __global__ void each_pass(Pass pass) {
    int done = passes + 1;
    pass.output[done - 1] = done;
    bool more = done < pass.words[PARAMETER_BYTES / 4 - 5];
    passes = more ? done : 0;
    cudaGraphSetConditional(pass.condition, more);
}
#endif
