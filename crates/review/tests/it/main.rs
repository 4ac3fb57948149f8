//! The integration tests of `review`: one program, which is compiled and linked once.

mod compare_and_paper;
mod compare_pairs;
mod damaged_runs;
mod explain;
mod forgeries;
mod import;
mod import_counters;
mod import_fio;
mod import_group;
mod lint_grades;
mod lint_planted;
mod lint_published;
