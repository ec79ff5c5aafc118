"""Errors that users can fix: one line, exit code 2 on the command line."""

import errno

#: advice for a damaged file, of a user or of a publisher
RESTORE = "correct it, or restore it from its source"


#: errors of a file system that a user can correct: a wrong path, no permission, no room, another disk, a failing one
REFUSALS = (
    *(errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.EACCES, errno.EPERM),
    *(errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EXDEV, errno.EIO, errno.ENOTSUP, errno.ESTALE),
)


class UserError(Exception):
    """Wrong input, on the command line or on disk; the message is one line: what, why, what to do."""


def first_line(error: Exception) -> str:
    """The first line of an error's message, and the second after a colon; Arrow's continue with the schema."""
    first, *rest = str(error).splitlines() or [type(error).__name__]
    return f"{first} {rest[0].strip()}" if rest and first.endswith(":") else first


def message_of(error: BaseException) -> str:
    """The message of an error; the code that makes it may be a plug-in's and may itself fail."""
    try:
        return str(error)
    except Exception as odd:
        return f"its message cannot be read: {type(odd).__name__}"


class MissingData(UserError):  # noqa: N818
    """A file or model that a run needs is missing; the message says how to get it."""


class LockError(UserError):
    """A lock cannot be created at its path; the cause is the OSError."""


class PlugInError(UserError):
    """A registered object cannot be loaded, or its own code raised an error; other objects are not affected."""
