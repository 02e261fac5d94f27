# SPDX-License-Identifier: Apache-2.0
"""All that pyproject.toml cannot say: a build starts from nothing.

setuptools puts whatever an earlier build left in ``build/`` into the wheel as well.  Here that is no dead
weight: passes and operators are found, not listed, so a file that is gone from the sources would still act.
"""

from __future__ import annotations

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildFromNothing(build_py):
    """Copies the sources into an empty directory."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": BuildFromNothing})
