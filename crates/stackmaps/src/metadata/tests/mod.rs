mod gc_map;
mod pc_section;
mod safepoints;
