"""Cases that answer one question together."""
