// Embeddings and layer norms (Ba, Kiros and Hinton, 2016). A warp processes a row, and reads it three times; after the first time
// it is in the L1 cache. A row may have any length.
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
    // The position of each token in its text.
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
        UNROLL for (int i = 0; i < 8; i++) {
            eight[i] += column + i < width ? position[column + i] : 0.0f;
        }
    }
};

/// Applies a layer norm to a row, and writes it, padded to whole groups of eight values.
template <typename T, typename Row>
DEVICE void normalize_row(const Row &row, T *out, int width, const float *scale, const float *shift, float epsilon) {
    const int start = lane_index() * 8;
    float eight[8], sum = 0.0f, squares = 0.0f;
    for (int column = start; column < width; column += 256) {
        row.read(column, width, eight);
        UNROLL for (int i = 0; i < 8; i++) {
            sum += column + i < width ? eight[i] : 0.0f;
        }
    }
    const float mean = warp_sum(sum) / width;
    for (int column = start; column < width; column += 256) {
        row.read(column, width, eight);
        UNROLL for (int i = 0; i < 8; i++) {
            const float deviation = column + i < width ? eight[i] - mean : 0.0f;
            squares = fma_f32(deviation, deviation, squares);
        }
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / width + epsilon);
    for (int column = start; column < width; column += 256) {
        row.read(column, width, eight);
        Vec8<T> group;
        UNROLL for (int i = 0; i < 8; i++) {
            const int index = min_int(column + i, width - 1);
            group.values[i] = from_float<T>(fma_f32((eight[i] - mean) * factor, scale[index], shift[index]));
        }
        *reinterpret_cast<Vec8<T> *>(out + column) = group;
    }
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
