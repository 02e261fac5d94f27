# SPDX-License-Identifier: Apache-2.0
"""Combine elementwise arithmetic operators."""
