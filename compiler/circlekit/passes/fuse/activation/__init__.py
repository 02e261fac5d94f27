# SPDX-License-Identifier: Apache-2.0
"""Recognize activation functions and fuse them into other operators."""
