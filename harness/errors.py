"""Errors that a person can mend: one line, exit code 2 at the command line."""


class UserError(Exception):
    """Something a person typed or put on disk is wrong.

    The message is one line that names the thing, what was wrong and what to do.
    """


class MissingData(UserError):  # noqa: N818
    """A file or a model that a run needs is not there; the message says how to get it."""
