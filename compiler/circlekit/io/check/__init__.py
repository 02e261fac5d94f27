# SPDX-License-Identifier: Apache-2.0
"""Check a model file: find all violated rules, each with its path in the file."""
