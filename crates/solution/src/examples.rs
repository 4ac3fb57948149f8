//! The solution files that ship inside the program.

/// Example solution file that ships with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Example {
    /// Name of the example: that of its file without `.toml`.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Text of the file.
    pub text: &'static str,
}

macro_rules! example {
    ($name:literal, $about:literal) => {
        Example {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../solutions/", $name, ".toml")),
        }
    };
}

/// All examples; the one for a first run comes first.
pub const EXAMPLES: [Example; 8] = [
    example!("laptop", "every test in short form: 85 s, 8 GiB of disk space"),
    example!("dell-md3260-15000", "published: 15,000 mailboxes on Dell PowerVault MD3260"),
    example!("dell-r740xd-10000", "published: 10,000 mailboxes on disks inside Dell PowerEdge R740xd"),
    example!("emc-cx3-20c-500", "published: 500 mailboxes on EMC CLARiiON CX3-20c"),
    example!("lenovo-hx7510-30000", "published: 30,000 mailboxes on Lenovo ThinkAgile HX7510"),
    example!("nimble-cs700-100000", "published: 100,000 mailboxes on Nimble Storage CS700"),
    example!("exchange-se-golden", "Exchange SE by the Preferred Architecture: 8,000 mailboxes, 8 servers"),
    example!("catalogue", "disks and servers for `plan --search`; no solution"),
];
