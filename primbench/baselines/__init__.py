"""Times set beside ours: data sheets, earlier files, published results."""
