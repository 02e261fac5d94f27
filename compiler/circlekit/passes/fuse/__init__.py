# SPDX-License-Identifier: Apache-2.0
"""Passes that make one operator of several."""
