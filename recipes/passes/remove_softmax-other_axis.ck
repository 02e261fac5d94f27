# SPDX-License-Identifier: Apache-2.0
# Refused: %z: expected the last axis of %x alone, got axes [1]

graph main(%x: f32[2,3,5]) -> %z {
  %s = LogSoftmax(%x)
  %z = ArgMax(%s, 1) {output_type: i32}
}

rules {
  passes(remove_softmax)
  unchanged()
  refused("%z: expected the last axis of %x alone, got axes [1]")
}
