// Matrix products in 32-bit floats, without tensor cores: C = activation(A × Bᵀ + bias) + residual, as in matmul.cuh.
//
// A block of 256 threads computes a tile of C. Each thread computes groups of 4 × 4 values that are 64 apart. While a step is
// multiplied, the next one is loaded into registers. In shared memory, steps are transposed, so that a thread reads four rows in
// one access.
#pragma once

#include "matmul.cuh"

constexpr int F32_STEP = 16;
constexpr int F32_THREADS = 256;

template <int groups>
struct MatmulF32Shared {
    // Padded by 4 values, so that rows begin in different banks.
    alignas(16) float a[2][F32_STEP][groups * 64 + 4];
    alignas(16) float b[2][F32_STEP][groups * 64 + 4];
};

/// Computes a tile of 64 · `groups` rows and columns.
template <int groups>
struct MatmulF32 {
    static constexpr int TILE = groups * 64;
    using Float4 = Group<float, 4>;

    const MatmulParams &p;
    MatmulF32Shared<groups> &shared;
    const int first_row, first_column;

    /// Loads four values of a row. Elements outside of the matrix are 0.
    DEVICE_MEMBER Float4 fetch(const void *matrix, int row, int rows, int stride, int start) {
        Float4 four = {};
        if (row < rows && start < p.depth) {
            four = *reinterpret_cast<const Float4 *>(static_cast<const float *>(matrix) + size_t(row) * stride + start);
            UNROLL for (int i = 0; i < 4; i++) {
                four.values[i] = start + i < p.depth ? four.values[i] : 0.0f;
            }
        }
        return four;
    }

    DEVICE_MEMBER void fetch_step(int step, Float4 (&a)[groups], Float4 (&b)[groups]) {
        UNROLL for (int i = 0; i < groups; i++) {
            const int row = thread_index() / 4 + i * 64;
            const int start = step * F32_STEP + thread_index() % 4 * 4;
            a[i] = fetch(p.a, first_row + row, p.rows, p.a_stride, start);
            b[i] = fetch(p.b, first_column + row, p.columns, p.b_stride, start);
        }
    }

    /// Stores a step in shared memory, transposed.
    DEVICE_MEMBER void store_step(int stage, const Float4 (&a)[groups], const Float4 (&b)[groups]) {
        UNROLL for (int i = 0; i < groups; i++) {
            const int row = thread_index() / 4 + i * 64;
            UNROLL for (int j = 0; j < 4; j++) {
                shared.a[stage][thread_index() % 4 * 4 + j][row] = a[i].values[j];
                shared.b[stage][thread_index() % 4 * 4 + j][row] = b[i].values[j];
            }
        }
    }

    DEVICE_MEMBER void multiply_stage(int stage, float (&sums)[groups * 4][groups][4]) {
        const int top = thread_index() / 16 * 4, left = thread_index() % 16 * 4;
        UNROLL for (int k = 0; k < F32_STEP; k++) {
            Float4 a[groups], b[groups];
            UNROLL for (int i = 0; i < groups; i++) {
                a[i] = *reinterpret_cast<const Float4 *>(&shared.a[stage][k][top + i * 64]);
                b[i] = *reinterpret_cast<const Float4 *>(&shared.b[stage][k][left + i * 64]);
            }
            UNROLL for (int i = 0; i < groups * 4; i++) {
                UNROLL for (int j = 0; j < groups * 4; j++) {
                    float &sum = sums[i][j / 4][j % 4];
                    sum = fma_f32(a[i / 4].values[i % 4], b[j / 4].values[j % 4], sum);
                }
            }
        }
    }

    template <int activation, bool has_residual>
    DEVICE_MEMBER void store(const float (&sums)[groups * 4][groups][4]) const {
        const int top = first_row + thread_index() / 16 * 4, left = first_column + thread_index() % 16 * 4;
        float bias[groups][4];
        UNROLL for (int j = 0; j < groups; j++) {
            load_bias(p, left + j * 64, bias[j]);
        }
        UNROLL for (int i = 0; i < groups * 4; i++) {
            const int row = top + i / 4 * 64 + i % 4;
            UNROLL for (int j = 0; j < groups; j++) {
                // Rows of C are padded to whole groups.
                if (row < p.rows && left + j * 64 < p.columns) {
                    const size_t offset = size_t(row) * p.c_stride + left + j * 64;
                    store_values<float, activation, true, has_residual, 4>(p, offset, sums[i][j], bias[j]);
                }
            }
        }
    }

    DEVICE_MEMBER void run() {
        float sums[groups * 4][groups][4] = {};
        Float4 a[groups], b[groups];
        const int steps = (p.depth + F32_STEP - 1) / F32_STEP;
        fetch_step(0, a, b);
        for (int step = 0; step < steps; step++) {
            store_step(step % 2, a, b);
            // All threads have stored this step, and have finished the step before the last, whose stage it replaced.
            block_sync();
            fetch_step(step + 1, a, b);
            multiply_stage(step % 2, sums);
        }
        store_tile(*this, sums);
    }
};
