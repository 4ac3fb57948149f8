//! What checkers and readers written by others say about a template on disk.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use edb::record::RecordRef;
use workload::schema::Entry;
use workload::template::TemplateDatabase;
use world::TemplatePages;

const SIZES: [(u32, u64); 4] = [(4096, 8 << 20), (8192, 12 << 20), (16384, 24 << 20), (32768, 48 << 20)];

fn write_template(template: &TemplateDatabase) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().suffix(".edb").tempfile().unwrap();
    let mut out = BufWriter::with_capacity(1 << 20, file.as_file());
    let mut page = vec![0; template.page_bytes()];
    for index in 0..template.pages() {
        template.fill(index, &mut page);
        out.write_all(&page).unwrap();
    }
    out.flush().unwrap();
    drop(out);
    file
}

fn template(page_bytes: u32, file_bytes: u64) -> TemplateDatabase {
    TemplateDatabase::of_size(page_bytes, file_bytes, 64, 0xFEED_5EED, 25).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a Python checker over templates of all page sizes.
fn run_checker(script: &Path) {
    if !testkit::has_python() {
        return;
    }
    for (page_bytes, file_bytes) in SIZES {
        let file = write_template(&template(page_bytes, file_bytes));
        let run = Command::new("python3").arg(script).arg(file.path()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{page_bytes}: {said}{}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn the_checksum_checker_accepts_an_template() {
    let script = root().join("../shared/tools/ese_checksum_check.py");
    if testkit::has_neighbour(&script) {
        run_checker(&script);
    }
}

#[test]
fn the_tree_checker_accepts_an_template() {
    let script = root().join("../shared/tools/ese_tree_check.py");
    if testkit::has_neighbour(&script) {
        run_checker(&script);
    }
}

#[test]
fn the_project_checker_accepts_an_template() {
    run_checker(&root().join("tools/edb_check.py"));
}

#[test]
fn libesedb_reads_every_row_of_an_template() {
    if !testkit::has_tool("esedbexport", &["-V"], "sudo apt-get install -y libesedb-utils") {
        return;
    }
    for (page_bytes, file_bytes) in [(4096, 4 << 20), (32768, 8 << 20)] {
        let template = template(page_bytes, file_bytes);
        let file = write_template(&template);
        let target = tempfile::tempdir().unwrap();
        let export = target.path().join("out");
        let arguments = ["-m", "tables", "-t"];
        let run = Command::new("esedbexport").args(arguments).arg(&export).arg(file.path()).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let tables = target.path().join("out.export");
        let rows = |table: &str| {
            let mut found = Vec::new();
            for entry in std::fs::read_dir(&tables).unwrap() {
                let path = entry.unwrap().path();
                if path.file_name().unwrap().to_string_lossy().starts_with(table) {
                    found =
                        std::fs::read_to_string(path).unwrap().lines().skip(1).map(str::to_owned).collect();
                }
            }
            found
        };
        let messages = rows("Messages");
        assert_eq!(messages.len(), template.schema().shape().rows as usize);
        for (line, id) in messages.iter().zip(1u32..) {
            check_message(&template, id, line);
        }
        assert_eq!(rows("Folders").len(), workload::schema::FOLDERS as usize);
        assert_eq!(rows("Proofload").len(), 1);
    }
}

/// A row as esedbexport prints it: Id, Version, Conversation, Properties, Body (long values kept apart are left
/// out, null numbers are 0).
fn check_message(template: &TemplateDatabase, id: u32, line: &str) {
    let columns: Vec<&str> = line.split('\t').collect();
    let record = template.schema().data(Entry::Row { id, version: 0 });
    let record = RecordRef::new(&record);
    let conversation = record.fixed(3, 12, 8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    let properties: String = record.variable(128).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = [id.to_string(), "0".to_owned(), conversation.unwrap_or(0).to_string(), properties];
    assert_eq!(columns[..4], expected);
}
