"""Container images with this primbench in them."""
