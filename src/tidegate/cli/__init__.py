"""The command line: thin commands over the packages."""

from tidegate.cli.app import main

__all__ = ["main"]
