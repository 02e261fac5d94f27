# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators: arithmetic, comparison, activation and cast."""
