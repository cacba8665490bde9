// variants: -DLOADS=1
// A chain of loads by one thread, each of which waits for the one before it: as nvbandwidth measures latency.

extern "C" __global__ void walk(const unsigned long long* place, unsigned long long loads, unsigned long long* end)
{
    for (; loads; --loads) place = (const unsigned long long*)*place;
    *end = (unsigned long long)place;
}
