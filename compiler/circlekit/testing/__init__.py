# SPDX-License-Identifier: Apache-2.0
"""Tools for authors of passes and operators; circlekit's own tests use them, too.

``check_pass`` tests a pass with its recipes; it raises ``PassTestError``.  ``random_model`` generates models.
``tflite_of`` returns the TFLite file of a model.  ``run_litert`` runs such a file once in LiteRT;
``run_litert_forked`` runs it in another process, once for each item of a list of inputs.  ``is_available``
says whether LiteRT is installed.
``format_columns`` formats a table as text.
"""

from circlekit.equivalence.litert import is_available, run_litert, run_litert_forked, tflite_of
from circlekit.ir.text.columns import format_columns
from circlekit.testing.check_pass import PassTestError, check_pass
from circlekit.testing.random_models import random_model

__all__ = [
    "PassTestError",
    "check_pass",
    "format_columns",
    "is_available",
    "random_model",
    "run_litert",
    "run_litert_forked",
    "tflite_of",
]
