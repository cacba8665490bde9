"""Where CPUs, memory and GPUs are, and binding there."""
