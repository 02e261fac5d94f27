# SPDX-License-Identifier: Apache-2.0
# The best boxes without large overlap, and their number.

graph main(%boxes: f32[4,4], %scores: f32[4]) -> %y, %count {
  %y, %count = NonMaxSuppressionV4(%boxes, %scores, 3, 0.5, 0.1)
}
