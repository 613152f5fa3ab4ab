// Embeddings and layer norms (Ba, Kiros and Hinton, 2016). A warp processes a row, and keeps up to 768 values of it in
// registers. A row may have any length.
#pragma once

#include "device.cuh"

constexpr int ROWS_PER_BLOCK = 4;

struct LayerNormParams {
    const void *sums;
    void *states;
    const float *scale;
    const float *shift;
    int32_t rows, width;
    // Values from one row to the next, in sums and in states. A multiple of 8.
    int32_t stride;
    float epsilon;
};

struct EmbedParams {
    const uint32_t *ids;
    // The row of each token's position embedding.
    const uint32_t *token_positions;
    const void *word_embeddings;
    // Includes the token type embedding.
    const float *position_embeddings;
    void *states;
    const float *scale;
    const float *shift;
    int32_t rows, width, vocab_size;
    // Of word embeddings and of states. Rows of position embeddings have `width` values.
    int32_t words_stride, stride;
    float epsilon;
};

/// Eight values of a row.
template <typename T>
using Vec8 = Group<T, 8>;

/// Eight of `width` floats. Those after the last are 0.
DEVICE Vec8<float> read_floats(const float *values, int column, int width) {
    if (column + 8 <= width) {
        return *reinterpret_cast<const Vec8<float> *>(values + column);
    }
    Vec8<float> eight = {};
    UNROLL for (int i = 0; i < 8; i++) {
        eight.values[i] = column + i < width ? values[column + i] : 0.0f;
    }
    return eight;
}

/// A row in memory.
template <typename T>
struct StoredRow {
    const T *values;

    DEVICE_MEMBER void read(int column, int, float (&eight)[8]) const {
        const auto group = *reinterpret_cast<const Vec8<T> *>(values + column);
        UNROLL for (int i = 0; i < 8; i++) {
            eight[i] = to_float(group.values[i]);
        }
    }
};

/// A row that is the sum of a word embedding and a position embedding.
template <typename T>
struct EmbeddingRow {
    StoredRow<T> word;
    const float *position;

    DEVICE_MEMBER void read(int column, int width, float (&eight)[8]) const {
        word.read(column, width, eight);
        // Rows of position embeddings are not padded.
        const bool is_aligned = width % 8 == 0;
        const Vec8<float> positions = is_aligned ? read_floats(position, column, width) : Vec8<float>{};
        UNROLL for (int i = 0; i < 8; i++) {
            eight[i] += is_aligned || column + i >= width ? positions.values[i] : position[column + i];
        }
    }
};

/// Groups of eight values that a lane keeps in registers. It reads those of longer rows again.
constexpr int KEPT_GROUPS = 3;

/// A lane's part of a row: every 32nd group of eight values.
template <typename Row>
struct RowPart {
    const Row &row;
    const int width;
    float kept[KEPT_GROUPS][8];

    DEVICE_MEMBER RowPart(const Row &row, int width) : row(row), width(width) {
        UNROLL for (int i = 0; i < KEPT_GROUPS; i++) {
            const int column = column_of(i);
            if (column < width) {
                row.read(column, width, kept[i]);
            }
        }
    }

    DEVICE_MEMBER int column_of(int group) const { return (group * 32 + lane_index()) * 8; }

    /// Calls `use` with the first column and the values of each group, in order.
    template <typename Use>
    DEVICE_MEMBER void each(const Use &use) const {
        UNROLL for (int i = 0; i < KEPT_GROUPS; i++) {
            if (column_of(i) < width) {
                use(column_of(i), kept[i]);
            }
        }
        for (int i = KEPT_GROUPS; column_of(i) < width; i++) {
            float eight[8];
            row.read(column_of(i), width, eight);
            use(column_of(i), eight);
        }
    }
};

/// Applies a layer norm to a row, and writes it, padded to whole groups of eight values.
template <typename T, typename Row>
DEVICE void normalize_row(const Row &row, T *out, int width, const float *scale, const float *shift, float epsilon) {
    const RowPart<Row> part(row, width);
    float sum = 0.0f, squares = 0.0f;
    part.each([&](int column, const float (&eight)[8]) {
        UNROLL for (int i = 0; i < 8; i++) {
            sum += column + i < width ? eight[i] : 0.0f;
        }
    });
    const float mean = warp_sum(sum) / width;
    part.each([&](int column, const float (&eight)[8]) {
        UNROLL for (int i = 0; i < 8; i++) {
            const float deviation = column + i < width ? eight[i] - mean : 0.0f;
            squares = fma_f32(deviation, deviation, squares);
        }
    });
    const float factor = 1.0f / sqrtf(warp_sum(squares) / width + epsilon);
    part.each([&](int column, const float (&eight)[8]) {
        const auto factors = read_floats(scale, column, width), offsets = read_floats(shift, column, width);
        float values[8];
        UNROLL for (int i = 0; i < 8; i++) {
            values[i] = fma_f32((eight[i] - mean) * factor, factors.values[i], offsets.values[i]);
        }
        store_group(out + column, values);
    });
}

/// The row of this warp.
DEVICE int row_index() { return block_x() * ROWS_PER_BLOCK + warp_index(); }

template <typename T>
DEVICE void layer_norm(const LayerNormParams &p) {
    const int row = row_index();
    if (row < p.rows) {
        const size_t start = size_t(row) * p.stride;
        const StoredRow<T> from{static_cast<const T *>(p.sums) + start};
        normalize_row<T>(from, static_cast<T *>(p.states) + start, p.width, p.scale, p.shift, p.epsilon);
    }
}

/// An id beyond the vocabulary counts as the last one.
template <typename T>
DEVICE void embed(const EmbedParams &p) {
    const int row = row_index();
    if (row < p.rows) {
        const uint32_t last = p.vocab_size - 1, id = p.ids[row] < last ? p.ids[row] : last;
        const StoredRow<T> word{static_cast<const T *>(p.word_embeddings) + size_t(id) * p.words_stride};
        const EmbeddingRow<T> from{word, p.position_embeddings + size_t(p.token_positions[row]) * p.width};
        T *to = static_cast<T *>(p.states) + size_t(row) * p.stride;
        normalize_row<T>(from, to, p.width, p.scale, p.shift, p.epsilon);
    }
}
