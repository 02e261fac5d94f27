# SPDX-License-Identifier: Apache-2.0
"""Rules: conditions on a model after passes, in blocks of a ``.ck`` recipe or in ONE's ``test.rule``."""
