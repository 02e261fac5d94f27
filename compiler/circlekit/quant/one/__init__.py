# SPDX-License-Identifier: Apache-2.0
"""ONE's quantizer: the same results as ONE's circle-quantizer, bit for bit, except where ONE's are wrong."""
