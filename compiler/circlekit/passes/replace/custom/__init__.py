# SPDX-License-Identifier: Apache-2.0
"""Replace TensorFlow custom operators by operators of the schema."""
