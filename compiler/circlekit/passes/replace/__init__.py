# SPDX-License-Identifier: Apache-2.0
"""Passes that say the same with other operators, some of them for what a target format can read."""
