//! Whole flow files, through the public interface only.

mod flow_files;
mod hub;
mod reference;
