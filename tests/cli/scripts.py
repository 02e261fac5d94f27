# SPDX-License-Identifier: Apache-2.0
"""The commands that pyproject.toml installs."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = (Path(__file__).parents[2] / "pyproject.toml").read_text()
SCRIPTS = dict(re.findall(r'^([\w-]+) = "(circlekit\.[\w.:]+)"$', PROJECT, re.MULTILINE))
"""The name of each command, and ``module:function``."""
