// variants: -DPARAMETER_BYTES=16 | -DPARAMETER_BYTES=4096
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
