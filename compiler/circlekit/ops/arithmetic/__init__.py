# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparison, activation and cast, mostly elementwise; operators on bits; random numbers."""
