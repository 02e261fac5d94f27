# SPDX-License-Identifier: Apache-2.0
"""Models as texts that a person reads and writes, in two languages; their rules; the runner of dredd tests.

test.recipe --prototext.recipe_reader--> tree of tables --io--> model --recipe_export--> .ck or test.recipe
"""
