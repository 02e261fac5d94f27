# SPDX-License-Identifier: Apache-2.0
"""Fuzzing: mutated models and recipes through load, verify, O1 and save.

seeds --trees, blind, words--> case --runner--> outcome --pool, report--> a table, and the files that failed
"""
