"""Examples on disk: made as a network's original has them, in files or shards, found there, read and decoded."""
