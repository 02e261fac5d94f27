# SPDX-License-Identifier: Apache-2.0
"""Operators that mainly move data: reshape, slice, gather, join, resize, sparse look-ups."""
