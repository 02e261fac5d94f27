# SPDX-License-Identifier: Apache-2.0
"""Slices that move before the operators whose results they take."""
