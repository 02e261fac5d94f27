# SPDX-License-Identifier: Apache-2.0
"""What each runtime can run, as data, and what follows from it: checks, costs and memory plans."""
