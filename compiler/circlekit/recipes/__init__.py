# SPDX-License-Identifier: Apache-2.0
"""Recipes: models as texts that a person reads and writes, with rules; and the runner of dredd tests.

There are two languages: the text form (``.ck``) and ONE's ``test.recipe``.  ``load`` reads both,
``recipe_export`` writes both.
"""
