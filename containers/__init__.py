"""How images of primbench are made; read by primbench.images, installed as ``primbench.containers``."""
