# SPDX-License-Identifier: Apache-2.0
"""Checking: all violated rules of a model file, each with its path in the file."""
