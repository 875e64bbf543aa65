"""Errors that a user can act on: each message says what is wrong and what to do."""


class TidegateError(Exception):
    """Base of every error that Tidegate raises on purpose."""


class InvalidInput(TidegateError):
    """Something the user gave cannot be used; commands exit with code 2."""


class PolicyInvalid(InvalidInput):
    """A policy file is wrong; `problems` lists every finding, and the message has a line for each.

    >>> print(PolicyInvalid("policy.yaml", ("line 1: mode: unknown", "line 4: classes.gold: unused")))
    policy.yaml: line 1: mode: unknown
    policy.yaml: line 4: classes.gold: unused
    """

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        self.source = source
        self.problems = problems
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))


class EnvironmentUnfit(TidegateError):
    """The machine lacks something that has to be there, Java for one."""


class NotSupported(InvalidInput):
    """The request is understood, and this engine or version cannot do it."""


class QueryFailed(TidegateError):
    """A streaming query has ended with an error, which is the cause of this one."""
