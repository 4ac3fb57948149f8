//! Reports as Jetstress wrote them, made up.

use std::fmt::Write;

pub fn table(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!("<h3>{title}</h3>\n<table class=\"grid\">\n");
    if !head.is_empty() {
        let cells: String =
            head.iter().map(|cell| format!("<td class=\"grid_header\">{cell}</td>")).collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    for row in rows {
        let cells: String = row
            .iter()
            .enumerate()
            .map(|(n, cell)| match (n, cell.as_str()) {
                (_, "Pass") => "<td class=\"success\">Pass</td>".to_owned(),
                (0, _) => format!("<td class=\"grid_row_header\">{cell}</td>"),
                _ => format!("<td>{cell}</td>"),
            })
            .collect();
        let _ = writeln!(html, "<tr>{cells}</tr>");
    }
    html + "</table>\n"
}

pub fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

pub const IO_HEAD: [&str; 13] = [
    "MSExchange Database ==&gt; Instances",
    "I/O Database Reads Average Latency (msec)",
    "I/O Database Writes Average Latency (msec)",
    "I/O Database Reads/sec",
    "I/O Database Writes/sec",
    "I/O Database Reads Average Bytes",
    "I/O Database Writes Average Bytes",
    "I/O Log Reads Average Latency (msec)",
    "I/O Log Writes Average Latency (msec)",
    "I/O Log Reads/sec",
    "I/O Log Writes/sec",
    "I/O Log Reads Average Bytes",
    "I/O Log Writes Average Bytes",
];

/// Tables of a report about the tested system and the settings of the test.
fn about(version: &str, ese: &str, machine: &str) -> String {
    let summary = table(
        "Test Summary",
        &[],
        &[
            row(&["Overall Test Result", "Pass"]),
            row(&["Machine Name", machine]),
            row(&["Test Start Time", "2/9/2014 4:20:54 PM"]),
            row(&["Test End Time", "2/9/2014 6:51:11 PM"]),
            row(&["Collection Start Time", "2/9/2014 4:27:59 PM"]),
            row(&["Collection End Time", "2/9/2014 6:27:59 PM"]),
            row(&["Jetstress Version", version]),
            row(&["ESE Version", ese]),
            row(&["Operating System", "Windows Server (6.2.9200.0)"]),
        ],
    );
    let sizing = table(
        "Database Sizing and Throughput",
        &[],
        &[
            row(&["Achieved Transactional I/O per Second", "90.500"]),
            row(&["Target Transactional I/O per Second", "60.5"]),
            row(&["Initial Database Size (bytes)", "2,000,000,000"]),
            row(&["Final Database Size (bytes)", "2,100,000,000"]),
            row(&["Database Files (Count)", "2"]),
        ],
    );
    let parameters = table(
        "Jetstress System Parameters",
        &[],
        &[
            row(&["Thread Count", "16"]),
            row(&["Minimum Database Cache", "64.0 MB"]),
            row(&["Maximum Database Cache", "512.0 MB"]),
            row(&["Insert Operations", "40%"]),
            row(&["Delete Operations", "20%"]),
            row(&["Replace Operations", "5%"]),
            row(&["Read Operations", "35%"]),
            row(&["Lazy Commits", "70%"]),
            row(&["Number of Copies per Database", "2"]),
        ],
    );
    summary + &sizing + &parameters
}

/// A performance report with two instances in the tables of 2010 and 2013.
pub fn modern(title: &str, version: &str, ese: &str, machine: &str) -> String {
    let about = about(version, ese, machine);
    let io = |name: &str, reads: &str, bytes: &str, log_reads: &str| {
        row(&[
            name, "15.142", "7.448", reads, "14.125", bytes, "35540.7", "0.843", "2.445", log_reads, "3.304",
            "113743.8", "20732.1",
        ])
    };
    let names = ["Instance3068.1", "Instance3068.2"];
    let transactional = names.map(|name| io(name, "31.125", "33595.779", "0.000"));
    let total = names.map(|name| io(name, "40.175", "85080.083", "0.580"));
    let bdm = names.map(|name| row(&[name, "9.050", "261851.56"]));
    let replication = names.map(|name| row(&[name, "0.580", "113743.842"]));
    let host = [
        row(&["% Processor Time", "1.571", "0.754", "3.382"]),
        row(&["Database Page Fault Stalls/sec", "0.000", "0.000", "0.000"]),
    ];
    format!(
        "<!DOCTYPE html PUBLIC \"x\">\n<html><head><title>{title}</title><style>td {{}}</style></head><body>\n\
         <h1>Microsoft Exchange Jetstress</h1><h2>{title} Test Result Report</h2>\n{about}{}{}{}{}{}\
         <h3>Test Log</h3><pre>2/9/2014 4:21:00 PM -- Dispatching transactions begins ...\n\
         2/9/2014 6:28:00 PM -- Performance logging has ended.</pre></body></html>\n",
        table("Transactional I/O Performance", &IO_HEAD, &transactional),
        table(
            "Background Database Maintenance I/O Performance",
            &[IO_HEAD[0], "Database Maintenance IO Reads/sec", "Database Maintenance IO Reads Average Bytes"],
            &bdm
        ),
        table(
            "Log Replication I/O Performance",
            &[IO_HEAD[0], "I/O Log Reads/sec", "I/O Log Reads Average Bytes"],
            &replication
        ),
        table("Total I/O Performance", &IO_HEAD, &total),
        table("Host System Performance", &["Counter", "Average", "Minimum", "Maximum"], &host),
    )
}

/// A report by volume, latencies in seconds.
pub fn by_volume(version: &str, ese: &str) -> String {
    let head = [
        "LogicalDisk",
        "Avg. Disk sec/Read",
        "Avg. Disk sec/Write",
        "Disk Reads/sec",
        "Disk Writes/sec",
        "Avg. Disk Bytes/Write",
    ];
    let rows = [
        row(&["Database (E:)", "0.014", "0.004", "351.27", "196.35", "n/a"]),
        row(&["Log (L:)", "0.000", "0.001", "0.000", "47.63", "6144.0"]),
    ];
    format!(
        "<html><body><h2>Performance Test Result Report</h2>{}{}{}</body></html>",
        table(
            "Test Summary",
            &[],
            &[
                row(&["Overall Test Result", "Pass"]),
                row(&["Machine Name", "OLD-1"]),
                row(&["Jetstress Version", version]),
                row(&["ESE Version", ese]),
            ]
        ),
        table(
            "Database Sizing and Throughput",
            &[],
            &[
                row(&["Achieved Transactional I/O per Second", "547.62"]),
                row(&["Target Transactional I/O per Second", "500"]),
            ]
        ),
        table("Disk Subsystem Performance", &head, &rows),
    )
}

/// The text of a paper: labels and tables between prose.
pub fn paper_text() -> String {
    let mut text = "A storage solution\nIt is fast.\n\nStress Test Result Report\nTest Summary\nOverall Test Result   Pass\nMachine Name   VM1\n".to_owned();
    text.push_str("Achieved Transactional I/O per Second   90.500\nTarget Transactional I/O per Second   60.5\nTransactional I/O Performance\n");
    let head: Vec<String> = IO_HEAD.iter().map(|cell| cell.replace("&gt;", ">")).collect();
    let _ = writeln!(text, "{}", head.join("  "));
    for n in 1..=2 {
        let _ = writeln!(
            text,
            "Instance1.{n}  15.142  7.448  31.125  14.125  33595.8  35540.7  0.000  2.445  0.000  3.304  0.0  2O732.1"
        );
    }
    text
}
