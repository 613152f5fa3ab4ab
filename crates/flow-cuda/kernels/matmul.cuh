// Matrix products on tensor cores: C = activation(A × Bᵀ + bias) + residual.
//
// A has the rows of states, and B one row for each column of C, as PyTorch stores weights. A block computes a tile of C. It
// iterates over both matrices 64 bytes at a time, in stages: while one stage is multiplied, the next ones are being copied to
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

/// Bytes of a row of a stage.
constexpr int STEP_BYTES = 64;

/// GELU, with Φ by formula 7.1.26 of Abramowitz and Stegun, whose error is at most 1.5e-7. That is less than what products on
/// tensor cores round, and has no branches, which the exact function has.
DEVICE float gelu_approx(float x) {
    // Beyond 8, Φ is 0 or 1 in 32-bit floats.
    const float size = fabsf(x) < 8.0f ? fabsf(x) : 8.0f;
    const float t = reciprocal_approx(fma_f32(size, 0.3275911f * 0.70710678f, 1.0f));
    float tail = fma_f32(t, 1.061405429f, -1.453152027f);
    tail = fma_f32(t, tail, 1.421413741f);
    tail = fma_f32(t, tail, -0.284496736f);
    tail = fma_f32(t, tail, 0.254829592f) * t * exp2_approx(size * size * (-0.5f * LOG2_E));
    return fma_f32(-0.5f * size, tail, x < 0.0f ? 0.0f : x);
}

/// The logistic function. (1 + tanh(x)) / 2 is that of 2x.
DEVICE float logistic_approx(float x) { return reciprocal_approx(1.0f + exp2_approx(-LOG2_E * x)); }

template <int activation, bool is_exact>
DEVICE float activate(float x) {
    if (activation == GELU) {
        return is_exact ? 0.5f * x * (1.0f + erff(x * 0.70710678f)) : gelu_approx(x);
    }
    if (activation == GELU_TANH) {
        const float inner = 0.79788456f * (x + 0.044715f * x * x * x);
        return is_exact ? 0.5f * x * (1.0f + tanhf(inner)) : x * logistic_approx(2.0f * inner);
    }
    return activation == RELU && x < 0.0f ? 0.0f : x;
}

/// The bias of adjacent columns.
template <int count>
DEVICE void load_bias(const MatmulParams &p, int column, float (&bias)[count]) {
    UNROLL for (int i = 0; i < count; i++) {
        bias[i] = p.bias != nullptr && column + i < p.columns ? p.bias[column + i] : 0.0f;
    }
}

/// Applies the epilogue to adjacent sums of a row of C, and writes them, `offset` values after the beginning of C.
template <typename T, int activation, bool is_exact, bool has_residual, int count>
DEVICE void store_values(const MatmulParams &p, size_t offset, const float *sums, const float *bias) {
    Group<T, count> residual = {};
    if (has_residual) {
        residual = *reinterpret_cast<const Group<T, count> *>(static_cast<const T *>(p.residual) + offset);
    }
    float values[count];
    UNROLL for (int i = 0; i < count; i++) {
        values[i] = activate<activation, is_exact>(sums[i] + bias[i]);
        values[i] += has_residual ? to_float(residual.values[i]) : 0.0f;
    }
    store_group(static_cast<T *>(p.c) + offset, values);
}

/// Calls `tile.store`, compiled for this activation, with and without a residual.
template <int activation, typename Tile, typename Sums>
DEVICE void store_with(const Tile &tile, const Sums &sums) {
    if (tile.p.residual != nullptr) {
        tile.template store<activation, true>(sums);
    } else {
        tile.template store<activation, false>(sums);
    }
}

/// Applies the epilogue to a tile of C, and writes it.
template <typename Tile, typename Sums>
DEVICE void store_tile(const Tile &tile, const Sums &sums) {
    switch (tile.p.activation) {
    case GELU:
        return store_with<GELU>(tile, sums);
    case GELU_TANH:
        return store_with<GELU_TANH>(tile, sums);
    case RELU:
        return store_with<RELU>(tile, sums);
    default:
        return store_with<NONE>(tile, sums);
    }
}

template <int rows, int columns, int stages>
struct MatmulShared {
    unsigned char a[stages][rows * STEP_BYTES];
    unsigned char b[stages][columns * STEP_BYTES];
};

/// Computes a tile of C of `tile_rows` × `tile_columns`. Each warp computes `warp_rows` × `warp_columns` of it.
template <typename Number, int tile_rows, int tile_columns, int warp_rows, int warp_columns, int stages>
struct Matmul {
    using T = typename Storage<Number>::Type;
    using Shared = MatmulShared<tile_rows, tile_columns, stages>;
    static constexpr int WARPS_ACROSS = tile_columns / warp_columns;
    static constexpr int THREADS = tile_rows / warp_rows * WARPS_ACROSS * 32;
    static constexpr int STEP = STEP_BYTES / sizeof(T);
    static constexpr int CHUNK = 16 / sizeof(T);
    static constexpr int ROW_TILES = warp_rows / 16;
    static constexpr int COLUMN_TILES = warp_columns / 8;
    /// Rows of a stage that all threads copy at once: each thread copies a chunk of one of them.
    static constexpr int ROWS_AT_ONCE = THREADS / 4;

    const MatmulParams &p;
    Shared &shared;
    const int first_row, first_column;

    /// What this thread copies of one matrix: the same chunk of several rows, and of each stage.
    template <int tile>
    struct Source {
        static constexpr int ROWS = tile / ROWS_AT_ONCE;
        const T *values[ROWS];
        bool exists[ROWS];

        DEVICE_MEMBER Source(const void *matrix, int stride, int first, int count) {
            UNROLL for (int i = 0; i < ROWS; i++) {
                const int row = first + thread_index() / 4 + i * ROWS_AT_ONCE;
                exists[i] = row < count;
                values[i] = static_cast<const T *>(matrix) + size_t(exists[i] ? row : 0) * stride;
            }
        }

        /// Starts to copy a stage. Elements outside of the matrix are 0.
        DEVICE_MEMBER void fetch(unsigned char *to, int start, int depth) const {
            const int from = start + thread_index() % 4 * CHUNK;
            const int valid = clamp_int(depth - from, 0, CHUNK) * int(sizeof(T));
            // Rows that are copied at once are a multiple of eight apart, so they are swizzled alike.
            to += swizzled<STEP_BYTES>(thread_index() / 4, thread_index() % 4);
            UNROLL for (int i = 0; i < ROWS; i++) {
                copy_async(to + i * ROWS_AT_ONCE * STEP_BYTES, values[i] + (valid > 0 ? from : 0), exists[i] ? valid : 0);
            }
        }
    };

    DEVICE_MEMBER void fetch_step(int step, const Source<tile_rows> &a, const Source<tile_columns> &b) {
        if (step * STEP < p.depth) {
            a.fetch(shared.a[step % stages], step * STEP, p.depth);
            b.fetch(shared.b[step % stages], step * STEP, p.depth);
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

    template <int activation, bool has_residual>
    DEVICE_MEMBER void store(const float (&sums)[ROW_TILES][COLUMN_TILES][4]) const {
        const int lane = lane_index();
        const int top = first_row + warp_index() / WARPS_ACROSS * warp_rows + lane / 4;
        const int left = first_column + warp_index() % WARPS_ACROSS * warp_columns + lane % 4 * 2;
        float bias[COLUMN_TILES][2];
        UNROLL for (int j = 0; j < COLUMN_TILES; j++) {
            load_bias(p, left + j * 8, bias[j]);
        }
        const size_t start = size_t(top) * p.c_stride + left;
        UNROLL for (int i = 0; i < ROW_TILES * 2; i++) {
            UNROLL for (int j = 0; j < COLUMN_TILES; j++) {
                // Rows of C are padded to whole pairs.
                if (top + i * 8 < p.rows && left + j * 8 < p.columns) {
                    const size_t offset = start + i * 8 * p.c_stride + j * 8;
                    store_values<T, activation, false, has_residual, 2>(p, offset, sums[i / 2][j] + i % 2 * 2, bias[j]);
                }
            }
        }
    }

    DEVICE_MEMBER void run() {
        float sums[ROW_TILES][COLUMN_TILES][4] = {};
        const int steps = (p.depth + STEP - 1) / STEP;
        const Source<tile_rows> a(p.a, p.a_stride, first_row, p.rows);
        const Source<tile_columns> b(p.b, p.b_stride, first_column, p.columns);
        UNROLL for (int step = 0; step < stages - 1; step++) {
            fetch_step(step, a, b);
        }
        for (int step = 0; step < steps; step++) {
            copy_wait<stages - 2>();
            // All threads have their copies of this step, and have finished the previous step, whose stage is free now.
            block_sync();
            fetch_step(step + stages - 1, a, b);
            multiply_stage(step % stages, sums);
        }
        store_tile(*this, sums);
    }
};
