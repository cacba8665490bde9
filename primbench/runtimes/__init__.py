"""Where workers run besides here: an arm is made into programs and arguments, with no shell in between.

A runtime is one file, which has its name and a ``RUNTIME`` that says all there is to know of it; that is found by
``primbench.runtimes.table``. The other files are what runtimes have in common.
"""
