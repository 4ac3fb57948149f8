//! How a plan is shown.

mod html;
mod search;
mod terminal;

pub use html::html;
pub use terminal::terminal;
