"""Which of the differences between two places make one of them slow: by experiment, and proven by fresh pairs."""
