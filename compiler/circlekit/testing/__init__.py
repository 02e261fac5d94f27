# SPDX-License-Identifier: Apache-2.0
"""Tools for authors of passes and operators, used by circlekit's own tests.

``check_pass`` tests a pass with its recipes; ``run_litert`` and ``LiteRTProcess`` run a model in LiteRT.
"""

from circlekit.equivalence.litert import LiteRTProcess, is_available, run_litert, tflite_of
from circlekit.testing.check_pass import PassTestError, check_pass

__all__ = ["LiteRTProcess", "PassTestError", "check_pass", "is_available", "run_litert", "tflite_of"]
