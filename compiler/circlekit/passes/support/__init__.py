# SPDX-License-Identifier: Apache-2.0
"""Helpers that several passes share: conditions, comparison of constants, binary codes of weights."""
