"""`python -m tidegate.cli`, for installations without the console script."""

from tidegate.cli.app import main

main()
