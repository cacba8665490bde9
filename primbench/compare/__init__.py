"""The same cases in two places or more: how many times as long each takes, what is certain of it, and what explains it.

The process is the unit: of each there is one number a case and metric, and what processes differ by is what intervals
are made of. Those of a study belong together pair by pair; those of two files do not, and know much less.
"""
