# SPDX-License-Identifier: Apache-2.0
"""Passes that choose the layout of data: the order of its axes."""
