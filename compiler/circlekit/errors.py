# SPDX-License-Identifier: Apache-2.0
"""The exceptions of circlekit.

    CirclekitError
    ├── FileError          a path that cannot be read or written
    ├── FormatError        content that is not valid in its format
    ├── ParseError         text that is not a valid model, picture, recipe or pipeline
    ├── ModelError         a model that breaks a rule, or a wrong argument
    │   └── ShapeError     shapes, dtypes or ranks that do not fit an operator
    ├── LimitError         work that exceeds a limit of memory or graph calls
    ├── UnsupportedError   something that circlekit or the target format lacks
    ├── RewriteError       a pass that is declared or used wrongly
    └── EquivalenceError   a model that does not compute what it should

A message says what was expected and what was found.  ``CirclekitError.note`` adds the place of the error,
from the inside out: the operand, the operator with the lines around it, the graph, the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CirclekitError(Exception):
    """Base class of all errors of this package.

    ``message``: one sentence.  ``where``: the places that ``note`` added.  ``str(error)`` gives the message
    and then each place on lines of its own.
    """

    def __init__(self, message: str, *where: str) -> None:
        super().__init__(message)
        self.message = message
        self.where: list[str] = list(where)

    def note(self, place: str) -> CirclekitError:
        """Add ``place``, a line or block that says where the error happened; return the error itself."""
        self.where.append(place)
        return self

    def __str__(self) -> str:
        return "\n  ".join([self.message, *self.where])


class FileError(CirclekitError):
    """A path that cannot be read or written."""


class FormatError(CirclekitError):
    """Content that is not valid in its format: a model, arrays (npy, npz, HDF5), an ini file, or JSON.

    For a JSON file of ONE's quantizer or visq, a ParseError is raised instead.
    """


class FormatWarning(UserWarning):
    """A part of a file is not read, so that in most cases a saved model does not have it.

    Also: a .conn.ini file is not written, because it cannot express a name.
    """


class ParseError(CirclekitError):
    """Text that is not a valid model, picture, recipe or pipeline, or JSON file of ONE's quantizer or visq.

    Where the place is known, the message has line and column.  For circlekit's own language and ONE's
    recipes, it also repeats the line with a caret (^) below the place.
    """


class ModelError(CirclekitError):
    """A model that breaks a rule, or a wrong argument: of a wrong type, or a name that the model lacks."""


class ShapeError(ModelError):
    """Shapes, dtypes or ranks that do not fit an operator."""


class LimitError(CirclekitError):
    """Work that would exceed a limit of memory or graph calls."""


class UnsupportedError(CirclekitError):
    """Something that circlekit or the target format lacks, or a wrong argument.

    What is lacking may be an operator, a dtype, a package that is not installed, or another feature.  The
    argument may be an unknown name or a number out of range.
    """


class RewriteError(CirclekitError):
    """A pass that is declared or used wrongly."""


class EquivalenceError(CirclekitError):
    """Two models or runtimes that should agree, but differ in values or interface; or one of them fails."""


def check_name(kind: str, name: object) -> None:
    """Raise ModelError if ``name`` is not a string.  ``kind``: what it should name, such as "a pass"."""
    if not isinstance(name, str):
        raise ModelError(f"expected the name of {kind}, got {type(name).__name__}")


def names_in(kind: str, names: str | Iterable[str]) -> list[str]:
    """Return ``names`` as a list; a string is one name.

    Raise ModelError unless ``names`` is a string or contains only strings.  ``kind``: what each should name.
    """
    given: object = names
    if isinstance(names, str):
        return [names]
    if not isinstance(given, Iterable) or isinstance(given, bytes | bytearray):  # bytes contain numbers
        raise ModelError(f"expected the name of {kind}, or several names, got {type(names).__name__}")
    found = list(names)
    for name in found:
        check_name(kind, name)
    return found


def counted(count: int | None, noun: str, plural: str = "") -> str:
    """Return ``count`` and ``noun``: "1 operator", "2 operators".

    ``count``: never None; its type allows None only because the type of a dimension does.  ``plural``: the
    plural of ``noun`` if it is irregular.
    """
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def shown(name: str) -> str:
    """Return ``name`` as messages show it: an empty name as ``''``, so that the reader sees it."""
    return name or "''"


def did_you_mean(word: str, names: Iterable[str], limit: int = 1) -> str:
    """Return ``; did you mean NAME?`` for the names that resemble ``word``, or "" if there is none.

    At most ``limit`` of ``names`` are suggested, with "or" between them:

    1. If ``word`` has three letters or more: the names that begin with ``word``.
    2. If there is no such name: of the names that ``difflib`` finds similar (SIMILAR_NAMES), those with the
       smallest edit distance to ``word``, first those with the same first letter.  Such a name has two
       letters or more.  The distance is at most 1, or a third of the length of ``word`` if this is more.  If
       both have equally many underscores, the same limit holds for each pair of parts between underscores.

    Upper and lower case count as equal, and so do ``-`` and ``_``.  A ``-`` at the beginning is ignored.  For
    a word of SEARCH_LIMIT_CHARACTERS or more, nothing is suggested.
    """
    if len(word) >= SEARCH_LIMIT_CHARACTERS:
        return ""
    originals: dict[str, str] = {}
    for name in names:
        originals.setdefault(_comparable(name), name)
    key = _comparable(word)
    nearest = [other for other in originals if len(key) > 2 and other.startswith(key)]
    if not nearest:
        similar = [o for o in get_close_matches(key, originals, SIMILAR_NAMES) if _is_near(key, o)]
        edits = {other: edit_distance(key, other) for other in similar}
        near = [other for other in similar if edits[other] == min(edits.values())]
        nearest = sorted(near, key=lambda other: other[0] != key[0])
    return f"; did you mean {' or '.join(originals[other] for other in nearest[:limit])}?" if nearest else ""


def _is_near(word: str, name: str) -> bool:
    """Return whether few enough edits turn ``word`` into ``name``: see ``did_you_mean``."""
    pairs = [(word, name)]
    if word.count("_") == name.count("_"):
        pairs += zip(word.split("_"), name.split("_"), strict=True)
    return len(name) > 1 and all(edit_distance(a, b) <= max(1, len(a) // 3) for a, b in pairs)


def _comparable(name: str) -> str:
    """Return ``name`` in lower case, without ``-`` at its beginning; each other ``-`` becomes ``_``."""
    return name.lower().lstrip("-").replace("-", "_")


def edit_distance(a: str, b: str) -> int:
    """Return the number of edits that turn ``a`` into ``b``.

    An edit inserts, deletes or replaces a letter, or swaps two neighbors.
    """
    # ``row[j]``: the distance between the letters of ``a`` read so far and the first j letters of ``b``;
    # ``before``, ``older``: that row one and two letters of ``a`` earlier
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        older, before, row = before, row, [i + 1]
        for j, y in enumerate(b):
            cost = min(before[j] + (x != y), before[j + 1] + 1, row[j] + 1)
            if i and j and x == b[j - 1] and y == a[i - 1]:
                cost = min(cost, older[j - 1] + 1)
            row.append(cost)
    return row[-1]


SIMILAR_NAMES = 9
"""At most this many names are similar: those with the highest ratio of ``difflib``, which is at least 0.6."""

SEARCH_LIMIT_CHARACTERS = 100
"""No names are suggested for a word of this length or longer, because the search takes quadratic time."""
