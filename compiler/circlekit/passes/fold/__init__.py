# SPDX-License-Identifier: Apache-2.0
"""Passes that compute constants, and remove dead code and duplicates."""
