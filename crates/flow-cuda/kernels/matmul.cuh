// Matrix products on tensor cores: C = activation(A × Bᵀ + bias) + residual.
//
// A has the rows of states, and B one row for each column of C, as PyTorch stores weights. A block computes a tile of C. It
// iterates over both matrices 64 bytes at a time, in stages: while one stage is multiplied, the next two are being copied to
// shared memory (cp.async; the scheme is the "multistage" main loop of CUTLASS). In shared memory, a row of a stage is four
// chunks of 16 bytes, swizzled so that ldmatrix has no bank conflicts.
//
// In bytes, 2-byte numbers and TF32 have the same layout everywhere except in `multiply`, so there is one loop. Each value of C
// is one sum in one order, whatever tile it is in, so a row has the same values in any batch.
#pragma once

#include "device.cuh"

enum Activation : int32_t { NONE = 0, GELU = 1, GELU_TANH = 2, RELU = 3 };

struct MatmulParams {
    const void *a;
    const void *b;
    const float *bias;    // may be null
    const void *residual; // may be null; has the shape of C
    void *c;
    // Rows and columns of C, and columns of A and B.
    int32_t rows, columns, depth;
    // Values from one row to the next. A multiple of 16 bytes.
    int32_t a_stride, b_stride, c_stride;
    int32_t activation;
};

constexpr int STAGES = 3;
constexpr int STEP_BYTES = 64;

template <int activation>
DEVICE float activate(float x) {
    if (activation == GELU) {
        return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    }
    if (activation == GELU_TANH) {
        return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    }
    return activation == RELU && x < 0.0f ? 0.0f : x;
}

/// Applies the epilogue to adjacent sums of a row of C, and writes them. `column` is a multiple of `count`.
template <typename T, int activation, int count>
DEVICE void store_values(const MatmulParams &p, int row, int column, const float *sums) {
    if (row >= p.rows || column >= p.columns) {
        return;
    }
    using Values = Group<T, count>;
    // Rows of C are padded to whole groups, so only the bias must not be read beyond the last column.
    const size_t offset = size_t(row) * p.c_stride + column;
    Values residual = {}, result;
    if (p.residual != nullptr) {
        residual = *reinterpret_cast<const Values *>(static_cast<const T *>(p.residual) + offset);
    }
    UNROLL for (int i = 0; i < count; i++) {
        const bool has_bias = p.bias != nullptr && column + i < p.columns;
        float value = activate<activation>(sums[i] + (has_bias ? p.bias[column + i] : 0.0f));
        value += p.residual != nullptr ? to_float(residual.values[i]) : 0.0f;
        result.values[i] = from_float<T>(value);
    }
    *reinterpret_cast<Values *>(static_cast<T *>(p.c) + offset) = result;
}

template <int rows, int columns>
struct MatmulShared {
    unsigned char a[STAGES][rows * STEP_BYTES];
    unsigned char b[STAGES][columns * STEP_BYTES];
};

/// Computes a tile of C of `tile_rows` × `tile_columns`. Each warp computes `warp_rows` × `warp_columns` of it.
template <typename Number, int tile_rows, int tile_columns, int warp_rows, int warp_columns>
struct Matmul {
    using T = typename Storage<Number>::Type;
    using Shared = MatmulShared<tile_rows, tile_columns>;
    static constexpr int WARPS_ACROSS = tile_columns / warp_columns;
    static constexpr int THREADS = tile_rows / warp_rows * WARPS_ACROSS * 32;
    static constexpr int STEP = STEP_BYTES / sizeof(T);
    static constexpr int CHUNK = 16 / sizeof(T);
    static constexpr int ROW_TILES = warp_rows / 16;
    static constexpr int COLUMN_TILES = warp_columns / 8;

    const MatmulParams &p;
    Shared &shared;
    const int first_row, first_column;

    /// Starts to copy a stage of one matrix. Elements outside of the matrix are 0.
    template <int tile>
    DEVICE_MEMBER void fetch(unsigned char *to, const void *matrix, int stride, int first, int count, int start) {
        UNROLL for (int i = 0; i < tile * 4 / THREADS; i++) {
            const int index = thread_index() + i * THREADS;
            const int row = index / 4, chunk = index % 4;
            const int from = start + chunk * CHUNK;
            const int valid = first + row < count ? clamp_int(p.depth - from, 0, CHUNK) : 0;
            const T *values = static_cast<const T *>(matrix);
            values += valid > 0 ? size_t(first + row) * stride + from : 0;
            copy_async(to + swizzled<STEP_BYTES>(row, chunk), values, valid * int(sizeof(T)));
        }
    }

    DEVICE_MEMBER void fetch_step(int step) {
        if (step * STEP < p.depth) {
            const int stage = step % STAGES;
            fetch<tile_rows>(shared.a[stage], p.a, p.a_stride, first_row, p.rows, step * STEP);
            fetch<tile_columns>(shared.b[stage], p.b, p.b_stride, first_column, p.columns, step * STEP);
        }
        // Also if nothing was copied, so that there is one group for each step.
        copy_commit();
    }

    /// Multiplies this warp's part of a stage.
    DEVICE_MEMBER void multiply_stage(int stage, float (&sums)[ROW_TILES][COLUMN_TILES][4]) {
        const int lane = lane_index();
        const int top = warp_index() / WARPS_ACROSS * warp_rows;
        const int left = warp_index() % WARPS_ACROSS * warp_columns;
        UNROLL for (int half = 0; half < 2; half++) {
            uint32_t a[ROW_TILES][4], b[COLUMN_TILES / 2][4];
            UNROLL for (int i = 0; i < ROW_TILES; i++) {
                const int row = top + i * 16 + (lane & 15);
                load_matrices(a[i], shared.a[stage] + swizzled<STEP_BYTES>(row, half * 2 + (lane >> 4)));
            }
            UNROLL for (int j = 0; j < COLUMN_TILES / 2; j++) {
                const int row = left + j * 16 + (lane & 7) + (lane >> 4) * 8;
                load_matrices(b[j], shared.b[stage] + swizzled<STEP_BYTES>(row, half * 2 + ((lane >> 3) & 1)));
            }
            UNROLL for (int i = 0; i < ROW_TILES; i++) {
                UNROLL for (int j = 0; j < COLUMN_TILES; j++) {
                    multiply<Number>(sums[i][j], a[i], b[j / 2] + j % 2 * 2);
                }
            }
        }
    }

    template <int activation>
    DEVICE_MEMBER void store(const float (&sums)[ROW_TILES][COLUMN_TILES][4]) {
        const int lane = lane_index();
        const int top = first_row + warp_index() / WARPS_ACROSS * warp_rows + lane / 4;
        const int left = first_column + warp_index() % WARPS_ACROSS * warp_columns + lane % 4 * 2;
        UNROLL for (int i = 0; i < ROW_TILES; i++) {
            UNROLL for (int j = 0; j < COLUMN_TILES; j++) {
                store_values<T, activation, 2>(p, top + i * 16, left + j * 8, sums[i][j]);
                store_values<T, activation, 2>(p, top + i * 16 + 8, left + j * 8, sums[i][j] + 2);
            }
        }
    }

    DEVICE_MEMBER void run() {
        float sums[ROW_TILES][COLUMN_TILES][4] = {};
        const int steps = (p.depth + STEP - 1) / STEP;
        UNROLL for (int step = 0; step < STAGES - 1; step++) {
            fetch_step(step);
        }
        for (int step = 0; step < steps; step++) {
            copy_wait<STAGES - 2>();
            // All threads have their copies of this step, and have finished the previous step, whose stage is free now.
            block_sync();
            fetch_step(step + STAGES - 1);
            multiply_stage(step % STAGES, sums);
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
