# SPDX-License-Identifier: Apache-2.0
"""Recipes (models as texts, with rules for the results of passes), and dredd, which tests passes on recipes.

A recipe is written in one of two languages: the text form (``.ck``) or ONE's ``test.recipe``.  The module
``load`` reads both languages, the module ``recipe_export`` writes them.
"""
