# SPDX-License-Identifier: Apache-2.0
"""What each runtime (target) can run, as data in ``tables``; checks, costs and memory plans of a target."""
