//! Where cards and links go: columns from left to right, each card in the column after its last parent.
//!
//! A link that passes by columns takes a lane in each of them, so that it runs into nothing. Heights are
//! found by moving each column towards its neighbours as far as its cells have room.

use super::cell::Cell;
use super::order::{self, Columns};
use super::picture::Link;

/// Between cards of a column, and beside a lane.
const CARD_GAP: f64 = 28.0;
const LANE_GAP: f64 = 16.0;
const LANE_HEIGHT: f64 = 4.0;
/// Between columns, and what each further link takes of it.
const COLUMN_GAP: f64 = 64.0;
const LINK_GAP: f64 = 5.0;
const LINKS_MAX: f64 = 12.0;
/// Sweeps after which nothing moves any more that anybody would see.
const SWEEPS: usize = 24;
/// What is beside the flow gives way to it.
const ASIDE_WEIGHT: f64 = 0.000_001;
const LANE_WEIGHT: f64 = 0.1;

/// What a card takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) is_aside: bool,
}

/// The positions of cards and links.
#[derive(Debug)]
pub(super) struct Layout {
    /// Of each card its column, and the height of its middle.
    pub(super) cards: Vec<(usize, f64)>,
    /// Left and right end of each column.
    pub(super) columns: Vec<(f64, f64)>,
    /// Of each link, the columns that it passes by, and at what height.
    pub(super) lanes: Vec<Vec<(usize, f64)>>,
    pub(super) height: f64,
}

pub(super) fn layout(sizes: &[Size], links: &[Link]) -> Layout {
    let ranks = ranks(sizes.len(), links);
    let (cells, lanes) = cells(sizes, links, &ranks);
    let columns = order::columns(&cells);
    let heights = heights(&cells, &columns);
    let top = cells
        .iter()
        .zip(&heights)
        .map(|(it, y)| y - it.height / 2.0);
    let top = top.fold(f64::INFINITY, f64::min);
    let bottom = cells
        .iter()
        .zip(&heights)
        .map(|(it, y)| y + it.height / 2.0);
    let bottom = bottom.fold(f64::NEG_INFINITY, f64::max);
    let at = |cell: &usize| (cells[*cell].rank, heights[*cell] - top);
    Layout {
        cards: (0..sizes.len()).map(|card| at(&card)).collect(),
        lanes: lanes
            .iter()
            .map(|lane| lane.iter().map(at).collect())
            .collect(),
        columns: widths(sizes, &ranks, &cells),
        height: bottom - top,
    }
}

/// The column of each card: links go to the right, and the last card is alone at the end.
fn ranks(cards: usize, links: &[Link]) -> Vec<usize> {
    let mut ranks = vec![0; cards];
    for card in 1..cards {
        let into = links.iter().filter(|link| link.to == card);
        ranks[card] = into.map(|link| ranks[link.from] + 1).max().unwrap_or(1);
    }
    let last = ranks[..cards - 1].iter().max().map_or(0, |rank| rank + 1);
    ranks[cards - 1] = last;
    ranks
}

/// Cards and lanes, and of each link its lanes.
fn cells(sizes: &[Size], links: &[Link], ranks: &[usize]) -> (Vec<Cell>, Vec<Vec<usize>>) {
    let card = |(size, rank): (&Size, &usize)| Cell {
        rank: *rank,
        is_aside: size.is_aside,
        before: Vec::new(),
        after: Vec::new(),
        is_lane: false,
        height: size.height,
    };
    let mut cells: Vec<Cell> = sizes.iter().zip(ranks).map(card).collect();
    let mut lanes = Vec::with_capacity(links.len());
    for link in links {
        let first = cells.len();
        let between = ranks[link.from] + 1..ranks[link.to];
        cells.extend(between.map(|rank| Cell {
            rank,
            is_aside: link.is_aside,
            before: Vec::new(),
            after: Vec::new(),
            is_lane: true,
            height: LANE_HEIGHT,
        }));
        let lane: Vec<usize> = (first..cells.len()).collect();
        let stops: Vec<usize> = [link.from]
            .into_iter()
            .chain(lane.iter().copied())
            .chain([link.to])
            .collect();
        for pair in stops.windows(2) {
            cells[pair[0]].after.push(pair[1]);
            cells[pair[1]].before.push(pair[0]);
        }
        lanes.push(lane);
    }
    (cells, lanes)
}

/// The height of each cell's middle.
fn heights(cells: &[Cell], columns: &Columns) -> Vec<f64> {
    let mut heights = vec![0.0; cells.len()];
    for column in columns {
        settle(cells, column, &mut heights, |_| Vec::new());
    }
    for sweep in 0..SWEEPS {
        let is_last = sweep + 4 >= SWEEPS;
        let neighbours = |cell: &Cell| match (is_last, sweep % 2 == 0) {
            (true, _) => [cell.before.as_slice(), &cell.after].concat(),
            (false, true) => cell.before.clone(),
            (false, false) => cell.after.clone(),
        };
        let mut settle = |column: &Vec<usize>| settle(cells, column, &mut heights, neighbours);
        if sweep % 2 == 0 {
            columns.iter().for_each(&mut settle);
        } else {
            columns.iter().rev().for_each(&mut settle);
        }
    }
    heights
}

/// Moves the cells of a column to the middle of their neighbours, as near as they come without
/// touching: what must stand together forms blocks, and each block stands where its cells want to be
/// on average.
fn settle(
    cells: &[Cell],
    column: &[usize],
    heights: &mut [f64],
    neighbours: impl Fn(&Cell) -> Vec<usize>,
) {
    let mut blocks: Vec<Block> = Vec::new();
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(column.len());
    for (place, cell) in column.iter().enumerate() {
        if place > 0 {
            offset += distance(&cells[column[place - 1]], &cells[*cell]);
        }
        offsets.push(offset);
        let wanted = wanted(cells, *cell, heights, &neighbours(&cells[*cell]));
        let mut block = Block {
            cells: 1,
            weight: weight(&cells[*cell]),
            at: wanted - offset,
        };
        while let Some(above) = blocks.pop_if(|above| above.at > block.at) {
            block = above.with(&block);
        }
        blocks.push(block);
    }
    let places = blocks
        .iter()
        .flat_map(|block| std::iter::repeat_n(block.at, block.cells));
    for ((cell, at), offset) in column.iter().zip(places).zip(offsets) {
        heights[*cell] = at + offset;
    }
}

/// Cells that are as close as they may be, and the position of the first of them at offset 0.
struct Block {
    cells: usize,
    weight: f64,
    at: f64,
}

impl Block {
    fn with(&self, below: &Self) -> Self {
        let weight = self.weight + below.weight;
        Self {
            cells: self.cells + below.cells,
            weight,
            at: (self.at * self.weight + below.at * below.weight) / weight,
        }
    }
}

/// The middle of the neighbours, or where it is already.
fn wanted(cells: &[Cell], cell: usize, heights: &[f64], neighbours: &[usize]) -> f64 {
    let weights: f64 = neighbours.iter().map(|it| pull(&cells[*it])).sum();
    if weights == 0.0 {
        return heights[cell];
    }
    let sum: f64 = neighbours
        .iter()
        .map(|it| heights[*it] * pull(&cells[*it]))
        .sum();
    sum / weights
}

fn weight(cell: &Cell) -> f64 {
    match (cell.is_aside, cell.is_lane) {
        (true, _) => ASIDE_WEIGHT,
        (false, true) => LANE_WEIGHT,
        (false, false) => 1.0,
    }
}

/// How strongly a neighbour draws: what is beside the flow does not move it.
fn pull(cell: &Cell) -> f64 {
    if cell.is_aside { ASIDE_WEIGHT } else { 1.0 }
}

fn distance(above: &Cell, below: &Cell) -> f64 {
    let gap = if above.is_lane || below.is_lane {
        LANE_GAP
    } else {
        CARD_GAP
    };
    gap + f64::midpoint(above.height, below.height)
}

/// Left and right end of each column; between busy columns there is more room.
fn widths(sizes: &[Size], ranks: &[usize], cells: &[Cell]) -> Vec<(f64, f64)> {
    let last = ranks.iter().max().copied().unwrap_or(0);
    let mut columns = Vec::with_capacity(last + 1);
    let mut left = 0.0;
    for rank in 0..=last {
        let of_rank = sizes.iter().zip(ranks).filter(|(_, it)| **it == rank);
        let width = of_rank.map(|(size, _)| size.width).fold(0.0, f64::max);
        columns.push((left, left + width));
        let out = cells
            .iter()
            .filter(|cell| cell.rank == rank)
            .flat_map(|cell| &cell.after);
        let links = out
            .take(64)
            .fold(0.0, |links: f64, _| links + 1.0)
            .min(LINKS_MAX);
        left += width + COLUMN_GAP + LINK_GAP * (links - 1.0).max(0.0);
    }
    columns
}
