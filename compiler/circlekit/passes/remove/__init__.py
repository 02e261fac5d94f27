# SPDX-License-Identifier: Apache-2.0
"""Passes that remove operators without effect, or whose effect another operator undoes."""
