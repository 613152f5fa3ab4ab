//! Whole flow files, through the public interface only.

mod flow_files;
mod flows_in_the_wild;
mod hub;
mod reference;
