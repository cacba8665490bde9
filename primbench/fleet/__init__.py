"""Many nodes that measured the same cases: which of them stand out, which are missing, and what is different there."""
