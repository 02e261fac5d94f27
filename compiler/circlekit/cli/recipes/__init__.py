# SPDX-License-Identifier: Apache-2.0
"""Commands that make, test and reduce models written as recipes."""
