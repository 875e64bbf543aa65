"""The command line: thin commands over the packages.

In: arguments and files.
Out: tables, JSON on standard output, progress on standard error, and an exit code.
Never touches: logic of its own: a command calls a package and prints.
"""

from tidegate.cli.app import main

__all__ = ["main"]
