# SPDX-License-Identifier: Apache-2.0
"""Data movement: reshape, slice, gather, join, resize and sparse look-ups."""
