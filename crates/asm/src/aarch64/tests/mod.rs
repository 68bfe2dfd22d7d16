mod branches;
mod constants;
mod encodings;
mod operations;
mod relocate;
