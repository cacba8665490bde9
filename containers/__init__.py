"""How images of primbench are made; read by primbench.runtimes.images, installed as ``primbench.containers``."""
