"""`python -m tidegate.cli`, where the console script is not installed."""

from tidegate.cli.app import main

main()
