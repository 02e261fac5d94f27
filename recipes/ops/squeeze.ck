# SPDX-License-Identifier: Apache-2.0
# Removal of a dimension of size 1.

graph main(%x: f32[1,2,1,3]) -> %y {
  %y = Squeeze(%x) {squeeze_dims: [0]}
}
