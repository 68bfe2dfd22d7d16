mod encodings;
mod lowering;
mod reaches;
