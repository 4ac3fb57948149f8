//! What a controller says to people.

/// Note for people about the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Host that the note is about; `None` for the run.
    pub host: Option<String>,
    /// Text of the note, one line.
    pub text: String,
    /// Details for the report.
    pub detail: Option<String>,
}

impl Note {
    /// Creates a note from one line of text.
    pub fn new(host: Option<&str>, text: String) -> Note {
        Note { host: host.map(str::to_owned), text, detail: None }
    }
}
