# SPDX-License-Identifier: Apache-2.0
# Random draws from the distribution of each row.

graph main(%logits: f32[2,4]) -> %y {
  %y = Multinomial(%logits, 3) {seed: 1, seed2: 2}  : i64[2,3]
}
