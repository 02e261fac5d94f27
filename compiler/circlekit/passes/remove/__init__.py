# SPDX-License-Identifier: Apache-2.0
"""Passes that take out operators that do nothing."""
