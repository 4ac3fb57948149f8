mod database;
mod log_record;
mod rows;
mod trees;
