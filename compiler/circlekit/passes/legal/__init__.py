# SPDX-License-Identifier: Apache-2.0
"""Passes (legalizations) that replace operators that a format or runtime lacks.

They have no names, so users cannot run them.  ``passes/engine/legalize.py`` runs them before a model is
written.
"""
