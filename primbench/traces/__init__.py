"""Traces that torch's profiler has written, as of a machine where primbench is not: what bounds the steps in them."""
