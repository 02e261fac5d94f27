# SPDX-License-Identifier: Apache-2.0
# The minimum along an axis.

graph main(%x: f32[2,3,4]) -> %y {
  %y = ReduceMin(%x, [1]) {keep_dims: true}
}
