"""What a cause of slowness is, where causes are found (``primbench.causes``), and what they show in one place.

A place is all that is known of where a process runs, read here or from a file. Each cause is asked what it shows there,
an "unknown" for what could not be seen; against another place, what the differences of their facts are known to do.
"""
