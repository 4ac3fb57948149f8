//! How a plan is shown.

mod html;
mod search;
mod terminal;

pub use html::html;
pub(crate) use search::search;
pub use terminal::terminal;
