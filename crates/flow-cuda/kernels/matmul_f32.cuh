// Matrix products in 32-bit floats, on the ordinary units: C = f(A × Bᵀ + bias) + residual, as in product.cuh.
//
// A block of 256 threads computes a tile of C, each thread groups of 4 × 4 of it that lie 64 apart. The next step's
// numbers are on their way to registers while this one's are multiplied; in shared memory they lie turned over, so that
// a thread reads four rows at once.
#pragma once

#include "matmul.cuh"

constexpr int EXACT_STEP = 16;
constexpr int EXACT_THREADS = 256;

template <int groups>
struct ExactShared {
    // 4 more than the tile has, so that rows begin in different banks.
    alignas(16) float a[2][EXACT_STEP][groups * 64 + 4];
    alignas(16) float b[2][EXACT_STEP][groups * 64 + 4];
};

/// A tile of 64 · `groups` rows and columns.
template <int groups>
struct ExactProduct {
    static constexpr int TILE = groups * 64;
    using Four = Group<float, 4>;

    const ProductParameters &p;
    ExactShared<groups> &shared;
    const int first_row, first_column;

    /// Four numbers of a row, 0 where there are none.
    DEVICE_MEMBER Four fetch(const void *matrix, int row, int rows, int stride, int start) {
        Four four = {};
        if (row < rows && start < p.depth) {
            four = *reinterpret_cast<const Four *>(static_cast<const float *>(matrix) + size_t(row) * stride + start);
            UNROLL for (int i = 0; i < 4; i++) {
                four.values[i] = start + i < p.depth ? four.values[i] : 0.0f;
            }
        }
        return four;
    }

    DEVICE_MEMBER void fetch_step(int step, Four (&a)[groups], Four (&b)[groups]) {
        UNROLL for (int i = 0; i < groups; i++) {
            const int row = thread_number() / 4 + i * 64;
            const int start = step * EXACT_STEP + thread_number() % 4 * 4;
            a[i] = fetch(p.a, first_row + row, p.rows, p.a_stride, start);
            b[i] = fetch(p.b, first_column + row, p.columns, p.b_stride, start);
        }
    }

    DEVICE_MEMBER void keep(int stage, const Four (&a)[groups], const Four (&b)[groups]) {
        UNROLL for (int i = 0; i < groups; i++) {
            const int row = thread_number() / 4 + i * 64;
            UNROLL for (int j = 0; j < 4; j++) {
                shared.a[stage][thread_number() % 4 * 4 + j][row] = a[i].values[j];
                shared.b[stage][thread_number() % 4 * 4 + j][row] = b[i].values[j];
            }
        }
    }

    DEVICE_MEMBER void multiply_stage(int stage, float (&sums)[groups * 4][groups][4]) {
        const int top = thread_number() / 16 * 4, left = thread_number() % 16 * 4;
        UNROLL for (int k = 0; k < EXACT_STEP; k++) {
            Four a[groups], b[groups];
            UNROLL for (int i = 0; i < groups; i++) {
                a[i] = *reinterpret_cast<const Four *>(&shared.a[stage][k][top + i * 64]);
                b[i] = *reinterpret_cast<const Four *>(&shared.b[stage][k][left + i * 64]);
            }
            UNROLL for (int i = 0; i < groups * 4; i++) {
                UNROLL for (int j = 0; j < groups * 4; j++) {
                    float &sum = sums[i][j / 4][j % 4];
                    sum = fused(a[i / 4].values[i % 4], b[j / 4].values[j % 4], sum);
                }
            }
        }
    }

    template <int activation>
    DEVICE_MEMBER void store(const float (&sums)[groups * 4][groups][4]) {
        const int top = first_row + thread_number() / 16 * 4, left = first_column + thread_number() % 16 * 4;
        UNROLL for (int i = 0; i < groups * 4; i++) {
            UNROLL for (int j = 0; j < groups; j++) {
                finish<float, activation, 4>(p, top + i / 4 * 64 + i % 4, left + j * 64, sums[i][j]);
            }
        }
    }

    DEVICE_MEMBER void run() {
        float sums[groups * 4][groups][4] = {};
        Four a[groups], b[groups];
        const int steps = (p.depth + EXACT_STEP - 1) / EXACT_STEP;
        fetch_step(0, a, b);
        for (int step = 0; step < steps; step++) {
            keep(step % 2, a, b);
            // All have kept this step, and are done with the step before last, whose place it took.
            block_sync();
            fetch_step(step + 1, a, b);
            multiply_stage(step % 2, sums);
        }
        switch (p.activation) {
        case GELU:
            return store<GELU>(sums);
        case GELU_TANH:
            return store<GELU_TANH>(sums);
        case RELU:
            return store<RELU>(sums);
        default:
            return store<NONE>(sums);
        }
    }
};
