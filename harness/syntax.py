"""A Python file by what it does: its syntax tree without docstrings, comments and formatting.

Two files with one hash run the same operations on the same constants. The hash does not depend on the
version of Python, as far as these parse the file to one tree.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

#: fields of nodes that say nothing about what is done: derived ones, prefixes such as that of
#: u"text", and comments
_IGNORED_FIELDS: Final = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
#: a file with one of these reads docstrings, which then belong to what it does
_READS_DOCSTRINGS: Final = (b"__doc__", b"getdoc")


@lru_cache(maxsize=512)
def hash_of_syntax(code: bytes) -> str | None:
    """SHA-256 (hex) of what a file of Python does; None for one that Python cannot parse."""
    try:
        tree = ast.parse(code)
        keeps_docstrings = any(name in code for name in _READS_DOCSTRINGS)
        text = "\n".join(_list_tokens(tree, keeps_docstrings))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def _list_tokens(tree: ast.AST, keeps_docstrings: bool) -> Iterator[str]:
    """The nodes of a tree in order, with their fields; empty fields are left out, since versions of
    Python differ in them.
    """
    # a list of what is to be written, last first: a deep tree needs no recursion
    pending: list[object] = [tree]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, list):
            yield "["
            pending.append("]")
            members = _select_acting(item, keeps_docstrings)
            pending += reversed([_prepare_item(member) for member in members])
        elif isinstance(item, ast.AST):
            yield f"({type(item).__name__}"
            pending.append(")")
            for name, value in reversed(list(ast.iter_fields(_as_formatted(item)))):
                if name not in _IGNORED_FIELDS and value is not None and value != []:
                    pending += [_prepare_item(value), f"{name}="]


def _prepare_item(value: object) -> object:
    """A node or a list as it is, and anything else as a text with its type."""
    if isinstance(value, ast.AST | list):
        return value
    return f"{type(value).__name__} {value!a}"


def _select_acting(members: list[object], keeps_docstrings: bool) -> list[object]:
    """The members of a list without statements that do nothing: `pass`, docstrings and other
    constants.
    """
    acting = []
    for member in members:
        is_constant = isinstance(member, ast.Expr) and isinstance(member.value, ast.Constant)
        if isinstance(member, ast.Pass) or (is_constant and not keeps_docstrings):
            continue
        acting.append(member)
    return acting


def _as_formatted(node: ast.AST) -> ast.AST:
    """A node as formatters leave it: `del (a, b)`, which has another tree, is `del a, b`."""
    if isinstance(node, ast.Delete) and len(node.targets) == 1:
        (target,) = node.targets
        if isinstance(target, ast.Tuple):
            return ast.Delete(target.elts)
    return node
