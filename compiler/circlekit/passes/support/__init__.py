# SPDX-License-Identifier: Apache-2.0
"""Helpers that several passes share: conditions, permutations, insertion of operators, equal constants."""
