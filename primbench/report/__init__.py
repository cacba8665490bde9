"""Records as a table for people, and as CSV, Markdown and JSON for everything else."""
