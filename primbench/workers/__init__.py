"""The processes that measure, and those that start, watch and end them."""
