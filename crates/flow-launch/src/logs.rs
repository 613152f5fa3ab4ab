//! Lines of children: read, kept, passed on as events and written to log files.

pub(crate) mod line_reader;
pub(crate) mod lines;
pub(crate) mod log_files;
pub(crate) mod log_line;
pub(crate) mod relay;
