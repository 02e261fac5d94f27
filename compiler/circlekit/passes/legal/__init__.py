# SPDX-License-Identifier: Apache-2.0
"""Legalizations: replacements of operators that a format or runtime lacks.  They have no names as passes."""
