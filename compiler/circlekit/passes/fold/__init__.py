# SPDX-License-Identifier: Apache-2.0
"""Passes that compute constants, remove dead code, and merge duplicates."""
