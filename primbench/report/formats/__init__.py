"""Formats for other programs and for papers: one file each, which has the name of the option that asks for it.

A file has ``RANK`` (the least is listed first), ``WRITES`` (what that is, for --help) and ``write(document)``, which is
the text of a ``primbench.report.document.Document``, or its bytes. It may have ``NEEDS``: packages that must be there.
It imports what it needs in there: --help imports the file.
"""
