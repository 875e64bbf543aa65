"""Errors that a user can act on: each message says what is wrong and what to do."""


class TidegateError(Exception):
    """Base class of all errors that Tidegate raises deliberately."""


class InvalidInput(TidegateError):
    """Invalid user input. Commands exit with code 2."""


class PolicyInvalid(InvalidInput):
    """A policy file is invalid. `problems` lists all findings, and the message has one line for each.

    >>> print(PolicyInvalid("policy.yaml", ("line 1: mode: unknown", "line 4: classes.gold: unused")))
    policy.yaml: line 1: mode: unknown
    policy.yaml: line 4: classes.gold: unused
    """

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        self.source = source
        self.problems = problems
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


class EnvironmentUnfit(TidegateError):
    """The machine lacks a requirement, for example Java."""


class NotSupported(InvalidInput):
    """The request is valid, but this engine or version does not support it."""


class QueryFailed(TidegateError):
    """A streaming query failed. Its error is the cause of this one."""
