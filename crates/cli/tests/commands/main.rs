//! The integration tests of `proofload`: one program, which is compiled and linked once.
#![allow(
    clippy::disallowed_methods,
    reason = "tests of programs work with files, clocks and threads of the machine"
)]

mod answers;
mod any_numbers;
mod calibrate;
mod capacity;
mod check;
mod circles;
mod claim_matrix;
mod cli;
mod climb;
mod command_line;
mod crash_test;
mod day;
mod deploy;
mod designs;
mod documented;
mod documents;
mod equal_pairs;
mod grade;
mod hostile;
mod killed_run;
mod live;
mod merge;
mod pdf;
mod program;
mod released;
mod review;
mod settings;
mod simulated_grades;
mod surroundings;
mod tidy;
mod verify;
