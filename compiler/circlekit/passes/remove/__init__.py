# SPDX-License-Identifier: Apache-2.0
"""Passes that take out operators whose work is no work, or is done twice."""
