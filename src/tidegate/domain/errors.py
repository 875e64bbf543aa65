"""Errors that a user can act on: each message says what is wrong and what to do."""


class TidegateError(Exception):
    """Base of every error that Tidegate raises on purpose."""


class InvalidInput(TidegateError):
    """Something the user gave cannot be used; commands exit with code 2."""


class PolicyInvalid(InvalidInput):
    """A policy file is wrong; `problems` lists every finding, not only the first."""

    def __init__(self, source: str, problems: tuple[str, ...]) -> None:
        self.source = source
        self.problems = problems
        super().__init__(f"{source}: {'; '.join(problems)}")


class EnvironmentUnfit(TidegateError):
    """The machine lacks something that has to be there, Java for one."""


class NotSupported(InvalidInput):
    """The request is understood, and this engine or version cannot do it."""
