"""Whole models as classes in files of their own, known without importing these: primbench.registry.networks."""
