# SPDX-License-Identifier: Apache-2.0
"""Passes that compute constants and drop what is dead or double."""
