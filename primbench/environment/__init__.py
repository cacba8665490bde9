"""What this place is: machine, limits, confinement, software, GPUs. Enough to say whether two places may be compared.

No host name, user name or serial number is asked for, and the home folder is written "~"; other paths and the listed
variables are kept as they are.
"""
