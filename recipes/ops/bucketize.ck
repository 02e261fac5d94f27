# SPDX-License-Identifier: Apache-2.0
# The bucket index of each element, given the boundaries.

graph main(%x: f32[6]) -> %y {
  %y = Bucketize(%x) {boundaries: [-1.0, 0.0, 1.0]}
}
