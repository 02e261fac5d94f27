# SPDX-License-Identifier: Apache-2.0
# Locality-sensitive hashing: signs of hashed projections.

graph main(%x: f32[3,2]) -> %y {
  %hash = const f32[2,2] gaussian(0, 1)
  %y = LshProjection(%hash, %x, [1.0, 0.5, 2.0]) {type: DENSE}
}
