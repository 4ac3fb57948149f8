//! A configuration of the load generator (XML) into a solution file.
//!
//! What has no counterpart is written as a comment, so that nothing is lost silently. Windows paths become
//! folders below `./volumes`, which the user replaces by folders that do not exist yet, below the mount points. A
//! configuration that is refused names every reason.

use std::fmt::Write;

use roxmltree::{Document, Node};

use super::ImportError;

/// The text of the solution file that describes the configuration.
pub fn solution(xml: &str) -> Result<String, ImportError> {
    let document = Document::parse(xml).map_err(|error| ImportError::Xml(error.to_string()))?;
    let root = document.root_element();
    if root.tag_name().name() != "configuration" {
        return Err(ImportError::Config(format!(
            "its root is <{}>, not <configuration>",
            root.tag_name().name()
        )));
    }
    let mut reasons = Reasons::default();
    let mut part = |name: &str| {
        let node = root.descendants().find(|node| node.has_tag_name(name));
        if node.is_none() {
            reasons.add(format!("<{name}> is missing"));
        }
        node.unwrap_or(root)
    };
    let (design, profile) = (part("TestDesignInfo"), part("ExchangeProfile"));
    let engine = root.descendants().find(|node| node.has_tag_name("JetSystemParams"));
    let instances = instances(profile, &mut reasons);
    let mut text = String::new();
    head(&mut text, root, design, profile, &mut reasons);
    volumes(&mut text, &instances);
    for n in 0..instances.len() {
        instance_table(&mut text, n, &instances, engine, &mut reasons);
    }
    load(&mut text, design, profile, &mut reasons);
    tests(&mut text, design, &instances, &mut reasons);
    match reasons.0.is_empty() {
        true => Ok(text),
        false => Err(ImportError::Config(reasons.0.join("; "))),
    }
}

/// Reasons why a configuration is refused; each is listed once.
#[derive(Default)]
struct Reasons(Vec<String>);

impl Reasons {
    fn add(&mut self, reason: String) {
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    /// The number in a child element of the XML configuration.
    fn figure(&mut self, node: Node<'_, '_>, name: &str) -> Option<f64> {
        let text = text_of(node, name)?;
        let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        if value.is_none() {
            self.add(format!("<{name}> is `{}`, not a number", brief(text)));
        }
        value
    }
}

struct Instance {
    log: String,
    databases: Vec<String>,
    backup: Option<String>,
}

/// The text in a child element of the XML configuration.
fn text_of<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let child = node.children().find(|child| child.has_tag_name(name))?;
    child.text().map(str::trim).filter(|text| !text.is_empty())
}

fn brief(text: &str) -> String {
    text.chars().take(40).collect()
}

fn instances(profile: Node<'_, '_>, reasons: &mut Reasons) -> Vec<Instance> {
    let nodes = profile.descendants().filter(|node| node.has_tag_name("EseInstance"));
    let instances: Vec<Instance> = nodes
        .map(|node| Instance {
            log: text_of(node, "LogPath").unwrap_or_default().to_owned(),
            databases: node
                .descendants()
                .filter(|path| path.has_tag_name("Path"))
                .filter_map(|path| path.text().map(|text| text.trim().to_owned()))
                .filter(|path| !path.is_empty())
                .collect(),
            backup: text_of(node, "DatabaseBackupPath").map(str::to_owned),
        })
        .collect();
    if instances.is_empty() {
        reasons.add("it names no <EseInstance>".to_owned());
    }
    for (n, _) in instances.iter().enumerate().filter(|(_, instance)| instance.databases.is_empty()) {
        reasons.add(format!("<EseInstance> {} has no database <Path>", n + 1));
    }
    instances
}

/// A TOML string in which everything is escaped that could end it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A text as a TOML comment, without line breaks that would end it.
pub(super) fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Volumes for one purpose (databases and logs, logs, backups), in order of appearance.
struct Group {
    /// First letter of the names that these volumes get.
    letter: char,
    role: Option<&'static str>,
    folders: Vec<String>,
}

fn groups(instances: &[Instance]) -> [Group; 3] {
    let mut known: Vec<String> = Vec::new();
    let mut group = |letter: char, role: Option<&'static str>, paths: Vec<&String>| {
        let mut folders: Vec<String> = Vec::new();
        for path in paths.into_iter().filter(|path| !path.is_empty()) {
            let path = volume_of(path);
            if !known.contains(&path) {
                known.push(path.clone());
                folders.push(path);
            }
        }
        Group { letter, role, folders }
    };
    [
        group('V', None, instances.iter().flat_map(|instance| &instance.databases).collect()),
        group('L', Some("log"), instances.iter().map(|instance| &instance.log).collect()),
        group(
            'B',
            Some("backup"),
            instances.iter().filter_map(|instance| instance.backup.as_ref()).collect(),
        ),
    ]
}

/// The volume of a path: its drive letter, or the folder on C: that a volume is mounted at. Windows itself is on C:,
/// so that folders there are mount points.
fn volume_of(path: &str) -> String {
    let folder = path.replace('/', "\\").trim_end_matches('\\').to_lowercase();
    match folder.split_once(':') {
        Some((drive, _)) if drive.len() == 1 && drive != "c" => format!("{drive}:"),
        _ => folder,
    }
}

fn volume_name(instances: &[Instance], path: &str) -> String {
    let wanted = volume_of(path);
    let mut found = groups(instances).into_iter().filter_map(|group| {
        Some(format!("{}{}", group.letter, group.folders.iter().position(|folder| *folder == wanted)? + 1))
    });
    found.next().unwrap_or_else(|| "V1".to_owned())
}

fn head(
    text: &mut String,
    root: Node<'_, '_>,
    design: Node<'_, '_>,
    profile: Node<'_, '_>,
    reasons: &mut Reasons,
) {
    let version = text_of(root, "JetstressVersionGenerated").unwrap_or("unknown");
    let described = text_of(design, "Description").unwrap_or("Imported configuration");
    let generation = match version.split('.').next() {
        Some("6" | "06") => "2003",
        Some("8" | "08") => "2007",
        Some("14") => "2010",
        _ => "2013",
    };
    let mailboxes = reasons.figure(profile, "MailboxCount").unwrap_or(0.0);
    let _ = write!(
        text,
        "# Imported from a configuration of Jetstress {}.\n\
         # Replace the paths of the volumes by folders that do not exist yet, below the mount points\n\
         # (`/mnt/lun{{n}}/proofload`).\n\n\
         [solution]\nname = {}\nschema = 1\n\n[profile]\nexchange = \"{generation}\"\nmailboxes = {}\n",
        comment(version),
        quoted(described),
        (mailboxes as u64).max(1)
    );
    if let Some(quota) = reasons.figure(profile, "MailboxQuota").filter(|value| *value > 0.0) {
        let _ = writeln!(text, "quota_mb = {quota}");
    }
    if let Some(iops) = reasons.figure(profile, "MailboxIops").filter(|value| *value > 0.0) {
        // What Jetstress was told holds the headroom already.
        let _ = writeln!(text, "iops_per_mailbox = {iops}\nheadroom_percent = 0");
    }
    text.push_str("\n[[host]]\nname = \"host\"\n");
}

/// The volumes for one purpose as one entry of the solution file, so that the planner sees that they are alike.
fn volumes(text: &mut String, instances: &[Instance]) {
    for Group { letter, role, folders } in groups(instances).iter().filter(|group| !group.folders.is_empty())
    {
        text.push('\n');
        for (n, folder) in folders.iter().enumerate() {
            let _ = writeln!(text, "# {letter}{} was {}", n + 1, comment(folder));
        }
        let role = role.map_or(String::new(), |role| format!("role = \"{role}\"\n"));
        let _ = write!(
            text,
            "[[volume]]\nname = \"{letter}{{n}}\"\ncount = {}\n{role}path = \"./volumes/{letter}{{n}}\"\n",
            folders.len()
        );
    }
}

fn instance_table(
    text: &mut String,
    n: usize,
    all: &[Instance],
    engine: Option<Node<'_, '_>>,
    reasons: &mut Reasons,
) {
    let instance = &all[n];
    let _ = write!(text, "\n[[instance]]\nname = \"Instance{}\"\n", n + 1);
    if let Some(engine) = engine {
        if let Some(bytes) = reasons.figure(engine, "DatabasePageSize").filter(|bytes| *bytes > 0.0) {
            let _ = writeln!(text, "page_kib = {}", (bytes / 1024.0) as u64);
        }
        if let Some(kib) = reasons.figure(engine, "LogFileSize").filter(|kib| *kib > 0.0) {
            let _ = writeln!(text, "log_file_kib = {}", kib as u64);
        }
    }
    if !instance.log.is_empty() {
        let _ = writeln!(text, "log_volume = \"{}\"", volume_name(all, &instance.log));
    }
    if let [only] = instance.databases.as_slice() {
        let _ = writeln!(text, "volume = \"{}\"", volume_name(all, only));
        return;
    }
    let databases = instance.databases.iter().enumerate().map(|(m, path)| {
        format!("  {{ name = \"Instance{}-{}\", volume = \"{}\" }},\n", n + 1, m + 1, volume_name(all, path))
    });
    let _ = writeln!(text, "databases = [\n{}]", databases.collect::<String>());
}

fn load(text: &mut String, design: Node<'_, '_>, profile: Node<'_, '_>, reasons: &mut Reasons) {
    let (mailboxes, iops) = (reasons.figure(profile, "MailboxCount"), reasons.figure(profile, "MailboxIops"));
    match (text_of(profile, "DatabaseSizing"), reasons.figure(profile, "CapacityPercentage")) {
        (Some("Profile"), _) | (_, None) => {
            let _ = write!(text, "\n[sizing]\nmailboxes = {}\n", mailboxes.unwrap_or(0.0) as u64);
        }
        (_, Some(percent)) => {
            let _ = write!(
                text,
                "\n# A share of the capacity needs capacity_gib at each volume.\n[sizing]\npercent_of_capacity = {percent}\n"
            );
        }
    }
    text.push_str("\n[load]\n");
    if let Some(threads) = reasons.figure(profile, "ThreadCount").filter(|threads| *threads >= 1.0) {
        let _ = match is_tuned(design) {
            true => {
                writeln!(text, "# ThreadCount was {}; the test `tune` finds the sessions.", threads as u64)
            }
            false => writeln!(text, "sessions = {}", threads as u64),
        };
    }
    if let (Some(mailboxes), Some(iops)) = (mailboxes, iops)
        && mailboxes * iops > 0.0
    {
        let _ = writeln!(text, "target_iops = {}", (mailboxes * iops * 100.0).round() / 100.0);
    }
    if let Some(margin) = reasons.figure(profile, "MarginIops").filter(|margin| *margin > 0.0) {
        let _ = writeln!(
            text,
            "# MarginIops was {margin}: tolerance_percent would allow that much below the target."
        );
    }
    if let Some(copies) = reasons.figure(profile, "DatabaseCopyCount").filter(|copies| *copies >= 1.0) {
        let _ = writeln!(text, "copies = {}", copies as u64);
    }
    if let Some(sluggish) = reasons.figure(design, "SluggishSessions") {
        let _ = writeln!(text, "idle_factor = {sluggish}");
    }
    if let Some(mix) = design.children().find(|node| node.has_tag_name("OperationMix")) {
        operation_mix(text, mix, reasons);
    }
}

/// Whether Jetstress was to find the number of threads itself.
fn is_tuned(design: Node<'_, '_>) -> bool {
    text_of(design, "SuppressTuning").is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

fn operation_mix(text: &mut String, mix: Node<'_, '_>, reasons: &mut Reasons) {
    let mut share = |name: &str| {
        let value = mix.attribute(name).unwrap_or("0").trim();
        let share = value.parse::<u32>().ok().filter(|share| *share <= 100);
        if share.is_none() {
            reasons.add(format!("OperationMix {name} is `{}`, not a share", brief(value)));
        }
        share.unwrap_or(0)
    };
    let (insert, delete, replace) = (share("InsertOps"), share("DeleteOps"), share("ReplaceOps"));
    let (lazy, sum) = (share("LazyCommits"), insert + delete + replace);
    let Some(read) = 100u32.checked_sub(sum) else {
        return reasons.add(format!("the operations of OperationMix make {sum} %, more than 100 %"));
    };
    let _ = writeln!(
        text,
        "mix = {{ insert = {insert}, delete = {delete}, replace = {replace}, read = {read}, lazy = {lazy} }}"
    );
}

/// Seconds of an XML duration such as `P0Y0M1DT2H0M0S`; years and months are refused.
fn duration_s(text: &str) -> Option<f64> {
    let (date, time) = text.strip_prefix('P')?.split_once('T').unwrap_or((text.strip_prefix('P')?, ""));
    let part = |text: &str, unit: char| -> Option<f64> {
        let Some(end) = text.find(unit) else { return Some(0.0) };
        let start = text[..end].rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |at| at + 1);
        text[start..end].parse().ok()
    };
    let seconds =
        part(date, 'D')? * 86_400.0 + part(time, 'H')? * 3_600.0 + part(time, 'M')? * 60.0 + part(time, 'S')?;
    (seconds > 0.0 && seconds <= 366.0 * 86_400.0).then_some(seconds)
}

fn tests(text: &mut String, design: Node<'_, '_>, instances: &[Instance], reasons: &mut Reasons) {
    let yes = |name: &str| text_of(design, name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let kind = text_of(design, "Type").unwrap_or("Performance");
    let length = text_of(design, "Duration");
    let seconds = match length.map(duration_s) {
        None => 7_200.0,
        Some(Some(seconds)) => seconds,
        Some(None) => {
            let wrong = brief(length.unwrap_or_default());
            reasons.add(format!("<Duration> is `{wrong}`, not a length such as P0Y0M0DT2H0M0S"));
            0.0
        }
    };
    text.push_str("\n[[test]]\nkind = \"init\"\n");
    let logs = reasons.figure(design, "LogFilesToReplay").unwrap_or(500.0) as u64;
    let backup =
        instances.iter().find_map(|instance| instance.backup.as_ref()).filter(|_| yes("BackupToDisk"));
    match kind {
        // A performance run of more than 6 h is a stress run.
        "Performance" | "Stress" => {
            let stress = kind == "Stress" || seconds > 6.0 * 3600.0;
            let name = if stress { "stress" } else { "performance" };
            if is_tuned(design) {
                text.push_str("\n[[test]]\nkind = \"tune\"\n");
            }
            let _ = write!(text, "\n[[test]]\nkind = \"{name}\"\nduration_s = {seconds}\n");
            text.push_str(&thresholds(design, if stress { "Stress" } else { "Performance" }, reasons));
            if text_of(design, "VerifyChecksum").is_none() || yes("VerifyChecksum") {
                text.push_str("\n[[test]]\nkind = \"database_checksum\"\n");
            }
        }
        "DatabaseBackup" => match backup {
            Some(path) => {
                let volume = volume_name(instances, path);
                let _ = write!(text, "\n[[test]]\nkind = \"backup_to_disk\"\nvolume = \"{volume}\"\n");
            }
            None => text.push_str("\n[[test]]\nkind = \"backup\"\n"),
        },
        "SoftRecovery" => {
            let _ = write!(
                text,
                "\n[[test]]\nkind = \"log_generation\"\nlogs = {logs}\n\n[[test]]\nkind = \"soft_recovery\"\nlogs = {logs}\n"
            );
        }
        other => reasons.add(format!("<Type> is `{}`, an unknown test", brief(other))),
    }
}

/// The latency limits that the configuration states for a kind of test.
fn thresholds(design: Node<'_, '_>, kind: &str, reasons: &mut Reasons) -> String {
    let mut all = design.children().filter(|node| node.has_tag_name("Thresholds"));
    let Some(node) =
        all.find(|node| node.attribute("TestRunTypes").is_some_and(|types| types.contains(kind)))
    else {
        return String::new();
    };
    let mut limits = Vec::new();
    for (name, key) in [
        ("AverageDatabaseReadLatency", "read_avg_ms"),
        ("MaximumDatabaseReadLatency", "read_max_ms"),
        ("AverageLogWriteLatency", "log_write_avg_ms"),
        ("MaximumLogWriteLatency", "log_write_max_ms"),
    ] {
        if let Some(limit) = reasons.figure(node, name) {
            limits.push(format!("{key} = {limit}"));
        }
    }
    if limits.is_empty() { String::new() } else { format!("thresholds = {{ {} }}\n", limits.join(", ")) }
}

#[cfg(test)]
mod tests_of_lengths {
    use super::*;

    #[test]
    fn lengths_are_read_as_the_standard_writes_them() {
        assert_eq!(duration_s("P0Y0M1DT0H0M0S"), Some(86_400.0));
        assert_eq!(duration_s("PT2H"), Some(7_200.0));
        assert_eq!(duration_s("P0Y0M0DT0H1M30S"), Some(90.0));
        assert_eq!((duration_s("2h"), duration_s("P"), duration_s("PTxH")), (None, None, None));
    }
}
