# SPDX-License-Identifier: Apache-2.0
"""Operators that mainly move data: reshape, slice, pad, gather, join, resize, sparse look-ups."""
