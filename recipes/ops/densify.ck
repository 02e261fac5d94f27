# SPDX-License-Identifier: Apache-2.0
# A constant that is stored sparse (last dimension compressed) as a dense tensor.

model tflite

graph main(%x: f32[2,4]) -> %y {
  %sparse = const f32[2,4] extra(sparsity: {
    traversal_order: array(i32, [0, 1]), block_map: array(i32, []),
    dim_metadata: [
      {dense_size: 2},
      {
        format: "SPARSE_CSR",
        array_segments: {"": "Int32Vector", values: array(i32, [0, 1, 3])},
        array_indices: {"": "Int32Vector", values: array(i32, [1, 0, 3])}
      }
    ]
  }) raw("AADAPwAAAMAAAAA/")
  %dense = Densify(%sparse)
  %y = Mul(%x, %dense)
}
