# SPDX-License-Identifier: Apache-2.0
"""Rules: what must hold for a model after passes, written in ``.ck`` recipes or ONE's ``test.rule`` files."""
