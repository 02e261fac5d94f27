# SPDX-License-Identifier: Apache-2.0
"""Data movement as index maps: compose operators that only move elements, and write the fewest back."""
