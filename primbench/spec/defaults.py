"""How long and how well a case is measured where nothing else is asked for; what --help needs to know of it."""

DEFAULT_MAX_NOISE = 0.005
DEFAULT_MIN_TIME_S = 0.1
DEFAULT_MAX_TIME_S = 2.0
DEFAULT_TIMEOUT_S = 300.0  # for each case
ALL = "all"  # backends that reach the device
