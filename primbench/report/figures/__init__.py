"""Pictures of what was found, one kind a file; each gives Figures, with all numbers that it draws."""
