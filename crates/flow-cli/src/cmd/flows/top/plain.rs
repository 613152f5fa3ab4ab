//! The processes as a table of text, for scripts and for outputs that are not terminals.

use super::columns::ALL;
use super::model::Row;
use crate::table::Table;

/// The table, with all columns.
pub(super) fn table(rows: &[Row]) -> Table {
    let cells = |row| ALL.iter().map(|column| column.text(row)).collect();
    Table {
        head: Some(ALL.iter().map(|it| it.title().to_owned()).collect()),
        rows: rows.iter().map(cells).collect(),
    }
}
