// What is done to each row by itself: embeddings and layer norms. A warp takes a row and reads it three times, of which
// the second and third find it in the first cache; so a row may be of any length.
#pragma once

#include "device.cuh"

constexpr int ROWS_PER_BLOCK = 4;

struct NormParameters {
    const void *sums;
    void *states;
    const float *scale;
    const float *shift;
    int32_t rows, width;
    // Numbers from one row to the next, in both: a multiple of 8.
    int32_t stride;
    float epsilon;
};

struct EmbedParameters {
    const uint32_t *ids;
    // The place of each token in its text.
    const uint32_t *places;
    const void *words;
    // By place; what all tokens have in common is part of it.
    const float *positions;
    void *states;
    const float *scale;
    const float *shift;
    int32_t rows, width, vocabulary;
    // Of words and of states; rows of positions have `width` numbers.
    int32_t words_stride, stride;
    float epsilon;
};

/// Eight numbers of a row.
template <typename T>
using Eight = Group<T, 8>;

/// A row that is read.
template <typename T>
struct PlainRow {
    const T *values;

    DEVICE_MEMBER void read(int column, int, float (&eight)[8]) const {
        const auto group = *reinterpret_cast<const Eight<T> *>(values + column);
        UNROLL for (int i = 0; i < 8; i++) {
            eight[i] = widen(group.values[i]);
        }
    }
};

/// A row that is the sum of two.
template <typename T>
struct EmbeddedRow {
    PlainRow<T> word;
    const float *position;

    DEVICE_MEMBER void read(int column, int width, float (&eight)[8]) const {
        word.read(column, width, eight);
        UNROLL for (int i = 0; i < 8; i++) {
            eight[i] += column + i < width ? position[column + i] : 0.0f;
        }
    }
};

/// Gives a row the mean 0 and the variance 1, then scale and shift. The row is filled up to whole groups of eight.
template <typename T, typename Row>
DEVICE void normalise(const Row &row, T *out, int width, const float *scale, const float *shift, float epsilon) {
    const int start = lane_number() * 8;
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
            const float off = column + i < width ? eight[i] - mean : 0.0f;
            squares = fused(off, off, squares);
        }
    }
    const float by = 1.0f / sqrtf(warp_sum(squares) / width + epsilon);
    for (int column = start; column < width; column += 256) {
        row.read(column, width, eight);
        Eight<T> group;
        UNROLL for (int i = 0; i < 8; i++) {
            const int at = at_most(column + i, width - 1);
            group.values[i] = narrow<T>(fused((eight[i] - mean) * by, scale[at], shift[at]));
        }
        *reinterpret_cast<Eight<T> *>(out + column) = group;
    }
}

DEVICE int own_row() { return block_x() * ROWS_PER_BLOCK + warp_number(); }

template <typename T>
DEVICE void norm(const NormParameters &p) {
    const int row = own_row();
    if (row < p.rows) {
        const size_t start = size_t(row) * p.stride;
        const PlainRow<T> from{static_cast<const T *>(p.sums) + start};
        normalise<T>(from, static_cast<T *>(p.states) + start, p.width, p.scale, p.shift, p.epsilon);
    }
}

/// An id beyond the table is that of the last word.
template <typename T>
DEVICE void embed(const EmbedParameters &p) {
    const int row = own_row();
    if (row < p.rows) {
        const uint32_t last = p.vocabulary - 1, id = p.ids[row] < last ? p.ids[row] : last;
        const PlainRow<T> word{static_cast<const T *>(p.words) + size_t(id) * p.words_stride};
        const EmbeddedRow<T> from{word, p.positions + size_t(p.places[row]) * p.width};
        T *to = static_cast<T *>(p.states) + size_t(row) * p.stride;
        normalise<T>(from, to, p.width, p.scale, p.shift, p.epsilon);
    }
}
