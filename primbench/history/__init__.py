"""Series of the same case over days and commits: where its time changed, and what else changed there."""
