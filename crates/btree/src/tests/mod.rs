mod database;
mod log_record;
mod trees;
