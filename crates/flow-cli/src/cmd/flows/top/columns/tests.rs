use super::*;
use crate::cmd::flows::top::fixture::sample;
use crate::cmd::flows::top::model::FlowModel;

fn rows() -> Vec<Row> {
    let mut model = FlowModel::default();
    (0..=5).for_each(|second| model.push(sample(second)));
    model.rows()
}

fn names_by(column: Option<Column>, is_reversed: bool) -> Vec<String> {
    let mut rows = rows();
    let sort = Sort {
        column,
        is_reversed,
    };
    sort.apply(&mut rows);
    rows.into_iter().map(|row| row.name).collect()
}

const RANKER: &str = "ranker@10.0.0.7:54400";

#[test]
fn the_largest_number_comes_first_and_what_is_not_known_last() {
    let by_memory = [
        "index",
        "encoder/rep-1",
        "encoder/rep-0",
        "segmenter",
        "gateway",
        RANKER,
    ];
    assert_eq!(names_by(Some(Column::Memory), false), by_memory);
    let reversed = [
        "gateway",
        "segmenter",
        "encoder/rep-0",
        "encoder/rep-1",
        "index",
        RANKER,
    ];
    assert_eq!(names_by(Some(Column::Memory), true), reversed);
}

#[test]
fn texts_are_sorted_from_a_to_z_and_without_a_column_the_flow_decides() {
    let by_name = [
        "encoder/rep-0",
        "encoder/rep-1",
        "gateway",
        "index",
        RANKER,
        "segmenter",
    ];
    assert_eq!(names_by(Some(Column::Process), false), by_name);
    let of_flow = [
        "gateway",
        "segmenter",
        "encoder/rep-0",
        "encoder/rep-1",
        "index",
        RANKER,
    ];
    assert_eq!(names_by(None, false), of_flow);
    let mut reversed = of_flow;
    reversed.reverse();
    assert_eq!(names_by(None, true), reversed);
}

#[test]
fn equal_rows_keep_the_order_of_the_flow() {
    let by_state = names_by(Some(Column::State), false);
    let ready = [
        "gateway",
        "segmenter",
        "encoder/rep-0",
        "encoder/rep-1",
        "index",
    ];
    assert_eq!(by_state[1..], ready);
}

#[test]
fn the_sorted_column_moves_among_those_that_are_shown() {
    let shown = [Column::Process, Column::State, Column::Requests];
    let step = |column, steps| {
        Sort {
            column,
            is_reversed: true,
        }
        .step(&shown, steps)
        .column
    };
    assert_eq!(step(None, 1), Some(Column::Process));
    assert_eq!(step(Some(Column::State), 1), Some(Column::Requests));
    assert_eq!(step(Some(Column::Requests), 1), None);
    assert_eq!(step(None, -1), Some(Column::Requests));
    assert_eq!(step(Some(Column::Process), -1), None);
    // The terminal became narrower.
    assert_eq!(step(Some(Column::Address), 1), Some(Column::Process));
}

#[test]
fn columns_fit_every_terminal() {
    let names = || rows().into_iter().map(|row| width(&row.name));
    // Rates and a letter of the name are always shown.
    for room in 9..200 {
        let columns = fitted(names(), room);
        let used: usize = columns.iter().map(|(_, width)| width).sum();
        assert!(used <= room, "{room}: {columns:?}");
        assert_eq!(columns[0].0, Column::Process);
    }
    assert_eq!(fitted(names(), 160).len(), ALL.len());
    // The usual width has everything that changes from second to second.
    let usual = fitted(names(), 80).into_iter().map(|(column, _)| column);
    assert_eq!(usual.collect::<Vec<_>>(), ALL[..10]);
}

#[test]
fn no_cell_is_wider_than_its_column() {
    let columns = fitted(rows().into_iter().map(|row| width(&row.name)), 200);
    for (column, room) in columns {
        for row in rows() {
            let text = column.text(&row);
            assert!(width(&text) <= room, "{text} in {room}");
        }
    }
}

#[test]
fn numbers_have_few_digits() {
    let rates = [0.0, 0.04, 0.05, 61.72, 99.96, 12_345.6, 123_456.0].map(rate);
    assert_eq!(rates, ["0", "0", "0.1", "61.7", "100", "12346", "123k"]);
    let times = [12, 310, 3_140, 61_400, 999_600, 61_000_000];
    let times = times.map(|micros| short_time(Duration::from_micros(micros)));
    assert_eq!(times, ["0.01ms", "0.31ms", "3.1ms", "61ms", "1.0s", "61s"]);
    let sizes = [45 << 20, 1_200 << 20, 20 << 30].map(memory);
    assert_eq!(sizes, ["45MiB", "1.2GiB", "20GiB"]);
    let ages = [3, 62, 7_500, 360_000].map(|it| age(Duration::from_secs(it)));
    assert_eq!(ages, ["3s", "1m2s", "2h5m", "4d4h"]);
}
