"""Times one case in this process."""
