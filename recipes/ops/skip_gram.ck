# SPDX-License-Identifier: Apache-2.0
# Pairs of words of a text with at most one word between them.

model tflite

graph main() -> %y {
  %text = const str[1] raw("AQAAAAwAAAAZAAAAb25lIHR3byB0aHJlZQ==")
  %y = SkipGram(%text) {ngram_size: 2, max_skip_size: 1}  : str[?]
}
