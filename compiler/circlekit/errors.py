# SPDX-License-Identifier: Apache-2.0
"""The exceptions of circlekit.

    CirclekitError
    ├── FileError          a path that cannot be read or written
    ├── FormatError        bytes that are not a valid model
    ├── ParseError         text that is not a valid model, picture or recipe
    ├── ModelError         a model that breaks a structural rule
    │   └── ShapeError     shapes, dtypes or ranks that do not fit an operator
    ├── LimitError         work that exceeds a limit of memory or graph calls
    ├── UnsupportedError   something valid that circlekit or the target format lacks
    ├── RewriteError       a pass that is declared or used wrongly
    └── EquivalenceError   two models, or two runs, with different values

A message says what was expected and what was found.  ``note`` adds the place, from the inside out: the
operand, the operator with the lines around it, the graph, the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class CirclekitError(Exception):
    """Base of all errors of this package; ``str`` gives the message and the places, one a line."""

    def __init__(self, message: str, *where: str) -> None:
        super().__init__(message)
        self.message = message
        self.where: list[str] = list(where)

    def note(self, place: str) -> CirclekitError:
        """Add a line or block that says where it happened; return the error, to raise it again."""
        self.where.append(place)
        return self

    def __str__(self) -> str:
        return "\n  ".join([self.message, *self.where])


class FileError(CirclekitError):
    """A path that cannot be read or written."""


class FormatError(CirclekitError):
    """Bytes that are not a valid circle or TFLite flatbuffer."""


class FormatWarning(UserWarning):
    """Something in a file that circlekit skips and cannot keep."""


class ParseError(CirclekitError):
    """Text that does not match the grammar; the message has line, column and a caret."""


class ModelError(CirclekitError):
    """A model that breaks a structural rule."""


class ShapeError(ModelError):
    """Shapes, dtypes or ranks that do not fit an operator."""


class LimitError(CirclekitError):
    """Work that would exceed a limit of memory or graph calls; nothing was allocated for it."""


class UnsupportedError(CirclekitError):
    """Valid, but not supported: an operator, a dtype, a form, or a feature of the target format."""


class RewriteError(CirclekitError):
    """A pass that is declared or used wrongly."""


class EquivalenceError(CirclekitError):
    """Two models that should compute the same values but do not."""


def near_miss(word: str, names: Iterable[str], limit: int = 1) -> str:
    """Return ``; did you mean NAME?`` with up to ``limit`` of ``names`` that resemble ``word``, or ""."""
    if len(word) >= SEARCH_LIMIT_CHARACTERS:
        return ""
    known = list(names)
    completions = [name for name in known if len(word) > 2 and name.startswith(word)]
    nearest = completions[:limit] or get_close_matches(word, known, limit)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""


SEARCH_LIMIT_CHARACTERS = 100
"""No names are suggested for a word of this length or longer: the search takes quadratic time."""
