"""What there is to know and to do of GPUs: a folder for each vendor."""
