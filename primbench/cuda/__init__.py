"""Device plumbing that every CUDA backend shares: driver calls, timing, tracing, library bindings."""
