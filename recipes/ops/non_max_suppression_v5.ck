# SPDX-License-Identifier: Apache-2.0
# Non-maximum suppression with scores that decrease with the overlap.

graph main(%boxes: f32[4,4], %scores: f32[4]) -> %y, %kept, %count {
  %y, %kept, %count = NonMaxSuppressionV5(%boxes, %scores, 3, 0.5, 0.1, 0.5)
}
