"""What in this place can slow a GPU down: each known cause as a check with its evidence and its cure.

A file with RANK holds checks: each public function there is one, which is given a Place and yields what it finds, an
"unknown" for what it could not see. Its docstring says what it looks for, its name is that of its findings. Files stand
in the order of their ranks, from the GPU to the libraries, and checks in that of the file.
"""
