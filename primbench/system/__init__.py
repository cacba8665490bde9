"""What Linux and NVML say of this machine and this process."""
