# SPDX-License-Identifier: Apache-2.0
# The best boxes that do not overlap much, and how many there are.

graph main(%boxes: f32[4,4], %scores: f32[4]) -> %y, %count {
  %y, %count = NonMaxSuppressionV4(%boxes, %scores, 3, 0.5, 0.1)
}
