//! `probe --next` and `calibrate`: from the choice of points to predictions, over files.

use std::path::Path;

use crate::program::{folder_with, output, small_deployment};
use testkit::claims::HONEST;

/// All usual points as the program lists them, with the rate of a storage that has a latency and a bandwidth.
fn measured(folder: &Path) -> String {
    let (status, points, stderr) = output(folder, &["probe", "--next", "315"]);
    assert_eq!(status, 0, "{stderr}");
    let rows = points.lines().map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let (Ok(block), Ok(share)) = (cells[0].parse::<f64>(), cells.get(1).unwrap_or(&"").parse::<f64>())
        else {
            return line.to_owned();
        };
        let outstanding: f64 = cells[3].parse().expect("a closed loop");
        let alone = 2e-4 + 3e-3 * share + block / 3e8;
        let iops = outstanding / (alone + outstanding * (block / 8e8 + 4e-5 * (2.0 - share)));
        let mut cells: Vec<String> = cells.iter().map(|&cell| cell.to_owned()).collect();
        cells[5] = format!("{iops:.3}");
        cells.join(",")
    });
    rows.map(|row| row + "\n").collect()
}

#[test]
fn points_that_were_chosen_and_measured_predict_the_others() {
    let folder = folder_with("none.csv", "");
    let at = folder.path();
    std::fs::write(at.join("all.csv"), measured(at)).unwrap();
    let (_, first, _) = output(at, &["probe", "--from", "all.csv", "--next", "20"]);
    std::fs::write(at.join("first.csv"), &first).unwrap();
    let (_, next, _) = output(at, &["probe", "--from", "all.csv", "--next", "10", "--after", "first.csv"]);
    assert!(next.lines().skip(2).all(|row| !first.contains(row)), "no point twice:\n{next}");
    std::fs::write(at.join("next.csv"), &next).unwrap();
    let (_, predicted, stderr) = output(at, &["calibrate", "first.csv", "next.csv", "--predict", "all.csv"]);
    let proved = predicted.lines().filter(|row| row.ends_with(",yes")).count();
    assert!(predicted.lines().count() == 316 && proved >= 295, "{proved}: {stderr}");
    let mean = stderr.split("off by ").last().and_then(|rest| rest.split(' ').next());
    let mean: f64 = mean.and_then(|mean| mean.parse().ok()).unwrap_or_else(|| panic!("{stderr}"));
    assert!(mean < 3.0, "{stderr}");
}

#[test]
fn what_cannot_be_calibrated_or_predicted_is_said() {
    let folder = folder_with("none.csv", "");
    let at = folder.path();
    let all = measured(at);
    std::fs::write(at.join("all.csv"), &all).unwrap();
    let heading = "block_bytes,read_share,outstanding,iops";
    let far = format!("{heading}\n67108864,0.5,4,\n4096,0.5,4,\n");
    let impossible = format!("{heading},read_mean_ms\n4096,1,4,1000,40\n");
    for (name, text) in [("far.csv", far), ("impossible.csv", impossible), ("open.csv", far_open(heading))] {
        std::fs::write(at.join(name), text).unwrap();
    }
    for (arguments, wanted_status, wanted) in [
        (["all.csv", "--predict", "far.csv"], 1, "1 of 2 points are unproved"),
        (["impossible.csv", "--predict", "far.csv"], 2, "line 2: breaks Little's law"),
        (["far.csv", "--predict", "far.csv"], 2, "0 measured points"),
        (["all.csv", "--predict", "open.csv"], 2, "a point of an open loop cannot be predicted"),
        (["all.csv", "--predict", "missing.csv"], 2, "cannot read missing.csv"),
    ] {
        let (status, stdout, stderr) = output(at, &[&["calibrate"], &arguments[..]].concat());
        assert!(status == wanted_status && stderr.contains(wanted), "{arguments:?}: {status} {stderr}");
        assert_eq!(stdout.lines().count(), if status == 1 { 3 } else { 0 }, "nothing half-written: {stdout}");
    }
}

fn far_open(heading: &str) -> String {
    format!("{}\n4096,0.5,500,\n", heading.replace("outstanding", "offered_iops"))
}

#[test]
fn a_probe_of_a_model_is_repeatable_and_one_of_a_folder_leaves_nothing_behind() {
    let folder = folder_with("s.toml", &small_deployment("probed", 16, 1));
    let at = folder.path();
    std::fs::write(at.join("few.csv"), "block_bytes,read_share,outstanding\n4096,0.5,4\n65536,1,1\n")
        .unwrap();
    let modelled = ["probe", "--simulated", "s.toml", "--from", "few.csv", "--size-mib", "1024"];
    let (status, first, stderr) = output(at, &modelled);
    assert_eq!((status, first.lines().count()), (0, 4), "{stderr}");
    assert_eq!(output(at, &modelled).1, first);
    let (status, real, stderr) =
        output(at, &["probe", "--folder", "made", "--from", "few.csv", "--size-mib", "64"]);
    let row = real.lines().nth(2).unwrap_or_else(|| panic!("{stderr}"));
    assert!(status == 0 && row.starts_with("4096,0.5,random,4,,"), "{real} {stderr}");
    assert!(!at.join("made").exists(), "{stderr}");
    std::fs::create_dir(at.join("theirs")).unwrap();
    let (status, stdout, stderr) = output(at, &["probe", "--folder", "theirs", "--for", "10s"]);
    assert!((status, stdout.as_str()) == (3, "") && stderr.contains("was not made by proofload"), "{stderr}");
    let (status, _, stderr) = output(at, &["probe", "--folder", "made", "--next", "3"]);
    assert!(status == 2 && stderr.contains("cannot be used with"), "{stderr}");
}

#[test]
fn a_probe_whose_time_ends_before_its_first_point_is_no_success() {
    let folder = folder_with("s.toml", HONEST);
    let slow = "[link.sas-6g-x4]\nmb_per_s = { value = 0.05, source = \"assumption: none is so slow\" }\n";
    std::fs::write(folder.path().join("own.toml"), slow).unwrap();
    let probe = ["probe", "--simulated", "s.toml", "--for", "10s", "--assumptions", "own.toml"];
    let (status, stdout, stderr) = output(folder.path(), &probe);
    assert!((status, stdout.lines().count()) == (3, 2), "a heading and no point: {stdout}");
    assert!(stderr.contains("no point was measured") && stderr.contains("--for"), "{stderr}");
}

#[test]
fn a_probed_storage_is_simulated_without_a_described_one_and_nothing_beyond_its_probes_is_proved() {
    let folder = folder_with("s.toml", &small_deployment("probed", 16, 1));
    let at = folder.path();
    let all = measured(at);
    let of_block = |line: &&str| line.split(',').next().and_then(|block| block.parse::<u64>().ok());
    let small: Vec<&str> =
        all.lines().filter(|line| of_block(line).is_none_or(|block| block < 16384)).collect();
    let few: Vec<&str> = all.lines().take(9).collect();
    for (name, text) in [("all.csv", &all), ("small.csv", &small.join("\n")), ("few.csv", &few.join("\n"))] {
        std::fs::write(at.join(name), text).unwrap();
    }
    let simulate = |model: &str| {
        let test = ["--tests", "performance", "--duration", "5", "--assumptions", model];
        output(at, &[&["simulate", "s.toml"], &test[..]].concat())
    };
    // No syncs were probed, so the writes of the log are unproved, and of small blocks the pages as well.
    for points in ["all.csv", "small.csv"] {
        let (status, _, stderr) = output(at, &["calibrate", points, "--out", "own.toml"]);
        assert_eq!(status, 0, "{stderr}");
        let (status, stdout, stderr) = simulate("own.toml");
        let told = format!("{stdout}{stderr}");
        assert!(status != 2 && told.contains("storage_probed"), "{points}: {status} {told}");
        let rule = told.lines().find(|line| line.contains("storage_probed")).unwrap();
        assert!(rule.contains("not proved"), "{points}: {rule}");
    }
    let runs = std::fs::read_dir(at.join("runs")).unwrap().flatten().map(|run| run.path());
    for run in runs {
        let report = std::fs::read_to_string(run.join("report.json")).unwrap();
        let claim = "predicted from measurements: ";
        let named =
            report.split(claim).nth(1).is_some_and(|rest| rest.contains(".csv; points that were left out"));
        assert!(named && !report.contains("there is no [array]"), "{report}");
        let (_, findings, stderr) = output(at, &["lint", run.to_str().unwrap()]);
        assert!(!findings.contains("set out to show"), "{findings}{stderr}");
    }
    let own = std::fs::read_to_string(at.join("own.toml")).unwrap();
    std::fs::write(at.join("older.toml"), own.replace("form = { value = 2,", "form = { value = 1,")).unwrap();
    let (status, _, stderr) = simulate("older.toml");
    assert!(status == 2 && stderr.contains("has form 1, this program reads form 2"), "{stderr}");
    for (volume, wanted) in [("V", None), ("W", Some("no volume is called W"))] {
        let (status, _, stderr) =
            output(at, &["calibrate", "all.csv", "--out", "volume.toml", "--volume", volume]);
        assert_eq!(status, 0, "{stderr}");
        let (status, _, stderr) = simulate("volume.toml");
        assert!(wanted.map_or(status != 2, |wanted| status == 2 && stderr.contains(wanted)), "{stderr}");
    }
    let (status, stdout, stderr) = output(at, &["calibrate", "few.csv", "--out", "few.toml"]);
    assert!((status, stdout.as_str()) == (2, "") && stderr.contains("too few"), "{stderr}");
    assert!(!at.join("few.toml").exists(), "nothing half-written");
}
