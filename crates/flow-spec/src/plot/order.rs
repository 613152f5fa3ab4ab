//! The order of the cells of each column: the one with the fewest crossings that is found by
//! putting each cell at the middle of its neighbours, forth and back.

use super::cell::Cell;

const SWEEPS: usize = 12;

/// Columns of cells, from top to bottom.
pub(super) type Columns = Vec<Vec<usize>>;

pub(super) fn columns(cells: &[Cell]) -> Columns {
    let mut columns: Columns =
        vec![Vec::new(); cells.iter().map(|it| it.rank + 1).max().unwrap_or(0)];
    for (at, cell) in cells.iter().enumerate() {
        columns[cell.rank].push(at);
    }
    // Nodes that the reply does not wait for go below.
    for column in &mut columns {
        column.sort_by_key(|cell| (cells[*cell].is_aside, *cell));
    }
    let mut best = (crossings(cells, &columns), columns.clone());
    for sweep in 0..SWEEPS {
        if sweep % 2 == 0 {
            (1..columns.len()).for_each(|at| settle(cells, &mut columns, at, |it| &it.before));
        } else {
            let back = (0..columns.len().saturating_sub(1)).rev();
            back.for_each(|at| settle(cells, &mut columns, at, |it| &it.after));
        }
        let crossings = crossings(cells, &columns);
        if crossings < best.0 {
            best = (crossings, columns.clone());
        }
    }
    best.1
}

/// Sorts a column by the middle of each cell's neighbours.
fn settle(cells: &[Cell], columns: &mut Columns, at: usize, neighbours: fn(&Cell) -> &Vec<usize>) {
    let places = places(cells, columns);
    let middle = |cell: usize| {
        let neighbours = neighbours(&cells[cell]);
        let sum: usize = neighbours.iter().map(|it| places[*it]).sum();
        match neighbours.len() {
            0 => to_float(places[cell]),
            len => to_float(sum) / to_float(len),
        }
    };
    let key = |cell: usize| (cells[cell].is_aside, middle(cell));
    columns[at].sort_by(|a, b| {
        let ((a_aside, a), (b_aside, b)) = (key(*a), key(*b));
        a_aside.cmp(&b_aside).then(a.total_cmp(&b))
    });
}

/// The index of each cell in its column.
fn places(cells: &[Cell], columns: &Columns) -> Vec<usize> {
    let mut places = vec![0; cells.len()];
    for column in columns {
        for (place, cell) in column.iter().enumerate() {
            places[*cell] = place;
        }
    }
    places
}

/// How many pairs of links cross between neighbouring columns.
pub(super) fn crossings(cells: &[Cell], columns: &Columns) -> usize {
    let places = places(cells, columns);
    let between = |column: &Vec<usize>| {
        let mut ends = Vec::new();
        for cell in column {
            let mut after: Vec<usize> = cells[*cell].after.iter().map(|it| places[*it]).collect();
            after.sort_unstable();
            ends.extend(after);
        }
        inversions(&ends)
    };
    columns.iter().map(between).sum()
}

/// The number of pairs in the wrong order, counted with a binary indexed tree.
fn inversions(ends: &[usize]) -> usize {
    let mut tree = vec![0_usize; ends.iter().max().map_or(0, |max| max + 2)];
    let mut found = 0;
    for (seen, end) in ends.iter().enumerate() {
        let (mut at, mut not_after) = (end + 1, 0);
        while at > 0 {
            not_after += tree[at];
            at -= at & at.wrapping_neg();
        }
        found += seen - not_after;
        at = end + 1;
        while at < tree.len() {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    found
}

/// Exact: no picture has 2^52 cells.
#[expect(clippy::cast_precision_loss, reason = "no picture has 2^52 cells")]
fn to_float(number: usize) -> f64 {
    number as f64
}
