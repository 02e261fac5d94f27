# SPDX-License-Identifier: Apache-2.0
"""Rewriting: pictures, the matcher that explains itself, and the driver to a fixed point."""
