# SPDX-License-Identifier: Apache-2.0
"""Targets (runtimes): what each can run, as data in ``tables``; checks, costs and memory plans."""
