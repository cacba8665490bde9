"""What was found, and the file that keeps it."""
