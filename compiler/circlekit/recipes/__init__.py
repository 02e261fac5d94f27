# SPDX-License-Identifier: Apache-2.0
"""Recipes (models as texts that people read and write, with rules), and dredd, which tests passes on them.

A recipe is written in one of two languages: the text form (``.ck``) or ONE's ``test.recipe``.  ``load``
reads both languages, ``recipe_export`` writes them.
"""
