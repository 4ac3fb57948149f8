//! What a controller says to people.

/// Something that a person wants to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The host that it is about, if it is about one.
    pub host: Option<String>,
    /// What happened.
    pub text: String,
    /// More about it, for the report and for a person who asks for it.
    pub detail: Option<String>,
}

impl Note {
    /// What happened, in one line.
    pub fn new(host: Option<&str>, text: String) -> Note {
        Note { host: host.map(str::to_owned), text, detail: None }
    }
}
