# SPDX-License-Identifier: Apache-2.0
"""Fuzzing: seeds are mutated (mutate_*, make_*) into cases, which run_model and run_file judge."""
