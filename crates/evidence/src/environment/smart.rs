//! Counters of errors that a disk keeps, by `smartctl`.

use std::process::Command;

use serde_json::Value;

/// Numbers of SMART attributes of ATA disks that count errors: reallocated, reported uncorrectable, pending, offline
/// uncorrectable, CRC.
const ATA: [u64; 5] = [5, 187, 197, 198, 199];
const NVME: [&str; 3] = ["media_errors", "num_err_log_entries", "critical_warning"];

/// SMART error counters of a disk by name, from `smartctl`; the error says why there are none.
pub fn counters(disk: &str) -> Result<Vec<(String, u64)>, String> {
    let output = Command::new("smartctl").args(["-j", "-a", &format!("/dev/{disk}")]).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "smartctl is not installed".to_owned(),
        _ => error.to_string(),
    })?;
    // The exit status is a set of bits that are also set by old errors; the JSON says what there is.
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(json: &str) -> Result<Vec<(String, u64)>, String> {
    let report: Value = serde_json::from_str(json).map_err(|_| "smartctl printed no JSON".to_owned())?;
    let nvme = &report["nvme_smart_health_information_log"];
    let of_nvme = NVME.iter().filter_map(|name| Some(((*name).to_owned(), nvme[*name].as_u64()?)));
    let table = report["ata_smart_attributes"]["table"].as_array();
    let of_ata = table.into_iter().flatten().filter_map(|row| {
        let counts = ATA.contains(&row["id"].as_u64()?);
        counts.then_some((row["name"].as_str()?.to_owned(), row["raw"]["value"].as_u64()?))
    });
    let scsi = &report["scsi_grown_defect_list"];
    let of_scsi = scsi.as_u64().map(|count| ("grown_defects".to_owned(), count));
    let counters: Vec<(String, u64)> = of_nvme.chain(of_ata).chain(of_scsi).collect();
    if counters.is_empty() {
        let said =
            report["smartctl"]["messages"][0]["string"].as_str().unwrap_or("the disk keeps no counters");
        return Err(said.to_owned());
    }
    Ok(counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_errors_are_taken_and_others_left() {
        let nvme = r#"{"nvme_smart_health_information_log": {"media_errors": 2, "num_err_log_entries": 9, "temperature": 40}}"#;
        let expected = [("media_errors".to_owned(), 2), ("num_err_log_entries".to_owned(), 9)];
        assert_eq!(parse(nvme).unwrap(), expected);
        let ata = r#"{"ata_smart_attributes": {"table": [
            {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": 1}},
            {"id": 9, "name": "Power_On_Hours", "raw": {"value": 31000}}]}}"#;
        assert_eq!(parse(ata).unwrap(), [("Reallocated_Sector_Ct".to_owned(), 1)]);
        let refused = r#"{"smartctl": {"messages": [{"string": "Permission denied", "severity": "error"}]}}"#;
        assert_eq!(parse(refused), Err("Permission denied".to_owned()));
        assert!(parse("").is_err());
    }
}
