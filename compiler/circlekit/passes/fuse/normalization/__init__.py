# SPDX-License-Identifier: Apache-2.0
"""Recognize instance, layer and root-mean-square normalization."""
