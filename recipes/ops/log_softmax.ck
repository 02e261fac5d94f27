# SPDX-License-Identifier: Apache-2.0
# The logarithm of the softmax along the last axis.

graph main(%x: f32[2,5]) -> %y {
  %y = LogSoftmax(%x)
}
