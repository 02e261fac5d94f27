# SPDX-License-Identifier: Apache-2.0
"""Models as recipes that a person reads: both languages, what must hold of them, and the runner.

recipe --prototext, messages--> messages --cook, fillers--> tree --io--> model --reverse, keep--> recipe
"""
