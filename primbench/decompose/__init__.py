"""A step of a program taken apart: operators, the cases of primitives that they are, and what these add up to."""
