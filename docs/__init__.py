"""The documentation, of which `primbench help` shows the pages."""
