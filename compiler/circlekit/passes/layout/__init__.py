# SPDX-License-Identifier: Apache-2.0
"""Passes that choose the order of axes."""
