"""Several processes in one call: who they are, how they meet, and how they take the same decisions."""
