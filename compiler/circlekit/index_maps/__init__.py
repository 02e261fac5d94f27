# SPDX-License-Identifier: Apache-2.0
"""Describe operators that only move elements as index maps; compose the maps; write them as few operators."""
