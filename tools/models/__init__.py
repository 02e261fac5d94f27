# SPDX-License-Identifier: Apache-2.0
"""Properties that hold for every model, each a function that yields what is wrong with one model."""
