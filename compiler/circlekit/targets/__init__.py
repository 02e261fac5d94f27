# SPDX-License-Identifier: Apache-2.0
"""The operators that each runtime can run, as data; checks, costs and memory plans that follow from them."""
