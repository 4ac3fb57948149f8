//! What the kernel writes when storage fails: one table, each entry with the file of the kernel that writes the
//! message.
//!
//! A message of the table counts at every level: some drivers report lost connections as
//! mere notices. Other messages count from a warning on if they come from a part of the kernel that is about
//! storage ([`SUBSYSTEMS`]).
//!
//! Limits: messages of Linux 4.18 to 6.12. Drivers out of the tree of Linux are known by name only.

use results::Severity;

/// An entry of the table of kernel messages: storage has failed, or has been slow to answer.
struct Message {
    /// Parts that the message must hold in this order, lower-case. The first one begins a word.
    says: &'static [&'static str],
    /// An error, or a warning.
    severity: Severity,
    /// The source file and function of Linux that writes the message.
    source: &'static str,
}

const fn error(says: &'static [&'static str], source: &'static str) -> Message {
    Message { says, severity: Severity::Error, source }
}

const fn warning(says: &'static [&'static str], source: &'static str) -> Message {
    Message { says, severity: Severity::Warning, source }
}

/// The table of kernel messages; the first entry that a message fits decides.
const MESSAGES: [Message; 68] = [
    // The block layer: the table `blk_errors` names each status, and each is printed as "NAME error, dev DEVICE, ...".
    warning(&["operation not supported error, dev "], "block/blk-core.c: BLK_STS_NOTSUPP"),
    warning(&["nonblocking retry error, dev "], "block/blk-core.c: BLK_STS_AGAIN"),
    warning(&["kernel resource error, dev "], "block/blk-core.c: BLK_STS_RESOURCE"),
    warning(&["device resource error, dev "], "block/blk-core.c: BLK_STS_DEV_RESOURCE"),
    warning(&["dm internal retry error, dev "], "block/blk-core.c: BLK_STS_DM_REQUEUE"),
    error(&["timeout error, dev "], "block/blk-core.c: BLK_STS_TIMEOUT"),
    error(&["critical space allocation error, dev "], "block/blk-core.c: BLK_STS_NOSPC"),
    error(&["recoverable transport error, dev "], "block/blk-core.c: BLK_STS_TRANSPORT"),
    error(&["critical target error, dev "], "block/blk-core.c: BLK_STS_TARGET"),
    error(&["critical nexus error, dev "], "block/blk-core.c: BLK_STS_NEXUS, before Linux 6.5"),
    error(&["reservation conflict error, dev "], "block/blk-core.c: BLK_STS_RESV_CONFLICT"),
    error(&["critical medium error, dev "], "block/blk-core.c: BLK_STS_MEDIUM"),
    error(&["protection error, dev "], "block/blk-core.c: BLK_STS_PROTECTION"),
    error(&["device offline error, dev "], "block/blk-core.c: BLK_STS_OFFLINE"),
    error(&["duration limit exceeded error, dev "], "block/blk-core.c: BLK_STS_DURATION_LIMIT"),
    error(&["invalid error, dev "], "block/blk-core.c: BLK_STS_INVAL"),
    error(&["i/o error, dev "], "block/blk-core.c: BLK_STS_IOERR"),
    error(&["attempt to access beyond end of device"], "block/blk-core.c: bio_check_eod"),
    error(&["buffer i/o error on dev"], "fs/buffer.c: buffer_io_error"),
    error(&["lost page write due to i/o error"], "fs/buffer.c, before Linux 4.2"),
    error(&["lost async page write"], "fs/buffer.c: end_buffer_async_write"),
    error(&["lost sync page write"], "fs/buffer.c: end_buffer_write_sync"),
    error(&["page cache invalidation failure on direct i/o"], "mm/filemap.c: dio_warn_stale_pagecache"),
    error(&["info: task ", " blocked for more than "], "kernel/hung_task.c: check_hung_task"),
    // SCSI, SATA and their transports.
    error(&["rejecting i/o to offline device"], "drivers/scsi/scsi_lib.c: scsi_device_state_check"),
    error(&["rejecting i/o to dead device"], "drivers/scsi/scsi_lib.c: scsi_device_state_check"),
    error(
        &["device offlined - not ready after error recovery"],
        "drivers/scsi/scsi_error.c: scsi_eh_offline_sdevs",
    ),
    error(&["timing out command, waited "], "drivers/scsi/scsi_lib.c: scsi_cmd_runtime_exceeced"),
    error(&["synchronize cache", " failed: result:"], "drivers/scsi/sd.c: sd_sync_cache"),
    error(&["tag#", " failed result: hostbyte="], "drivers/scsi/scsi_logging.c: scsi_print_result"),
    error(&["sense key : medium error"], "drivers/scsi/scsi_logging.c: scsi_print_sense"),
    error(&["sense key : hardware error"], "drivers/scsi/scsi_logging.c: scsi_print_sense"),
    error(&["sense key : aborted command"], "drivers/scsi/scsi_logging.c: scsi_print_sense"),
    warning(&["power-on or device reset occurred"], "drivers/scsi/scsi_error.c: scsi_report_sense"),
    error(&["ata", "exception emask"], "drivers/ata/libata-eh.c: ata_eh_link_report"),
    error(&["ata", "failed command: "], "drivers/ata/libata-eh.c: ata_eh_link_report"),
    warning(&["ata", "hard resetting link"], "drivers/ata/libata-eh.c: ata_eh_reset"),
    error(&["blocked fc remote port time out"], "drivers/scsi/scsi_transport_fc.c: fc_timeout_deleted_rport"),
    error(&["detected conn error ("], "drivers/scsi/scsi_transport_iscsi.c: iscsi_conn_error_event"),
    error(
        &["session recovery timed out after "],
        "drivers/scsi/scsi_transport_iscsi.c: session_recovery_timedout",
    ),
    // NVMe.
    error(&["nvme", " timeout, aborting"], "drivers/nvme/host/pci.c: nvme_timeout"),
    error(&["nvme", " timeout, reset controller"], "drivers/nvme/host/pci.c: nvme_timeout"),
    error(&["nvme", " timeout, disable controller"], "drivers/nvme/host/pci.c: nvme_timeout"),
    error(&["nvme", " timeout, completion polled"], "drivers/nvme/host/pci.c: nvme_timeout"),
    error(&["nvme", "controller is down; will reset"], "drivers/nvme/host/pci.c: nvme_warn_reset"),
    error(&["nvme", "device not ready; aborting"], "drivers/nvme/host/core.c: nvme_wait_ready"),
    error(&["nvme", "lba ", " blocks, "], "drivers/nvme/host/core.c: nvme_log_error"),
    error(
        &["nvme", "starting error recovery"],
        "drivers/nvme/host/tcp.c and rdma.c: nvme_tcp_error_recovery",
    ),
    // Multipath, md, thin pools, network block devices.
    error(&["device-mapper: multipath: ", "failing path "], "drivers/md/dm-mpath.c: fail_path"),
    error(&["switching pool to out-of-data-space"], "drivers/md/dm-thin.c: notify_of_pool_mode_change"),
    error(&["switching pool to read-only mode"], "drivers/md/dm-thin.c: notify_of_pool_mode_change"),
    warning(&["reached low water mark for data device"], "drivers/md/dm-thin.c: check_low_water_mark"),
    error(&["md/raid", "disk failure on "], "drivers/md/raid1.c, raid10.c, raid5.c: error handlers"),
    error(&["md/raid", "read error not correct"], "drivers/md/raid5.c: raid5_end_read_request"),
    warning(&["md/raid", "read error corrected"], "drivers/md/raid1.c, raid5.c: fix_read_error"),
    error(&["block nbd", "connection timed out"], "drivers/block/nbd.c: nbd_xmit_timeout"),
    error(&["block nbd", "other side returned error"], "drivers/block/nbd.c: nbd_handle_reply"),
    // File systems.
    error(&["ext4-fs error (device "], "fs/ext4/super.c: __ext4_error"),
    error(&["ext4-fs (", "remounting filesystem read-only"], "fs/ext4/super.c: ext4_handle_error"),
    error(&["ext4-fs (", "data will be lost"], "fs/ext4/inode.c: mpage_map_and_submit_extent"),
    error(&["aborting journal on device "], "fs/jbd2/journal.c: __journal_abort_soft"),
    error(&["jbd2: ", "error"], "fs/jbd2/commit.c, recovery.c"),
    error(&["xfs (", "corruption "], "fs/xfs/xfs_error.c, xfs_fsops.c: xfs_corruption_error"),
    error(&["xfs (", "i/o error"], "fs/xfs/xfs_buf.c, xfs_log.c: metadata I/O error, log I/O error"),
    error(&["btrfs error (device "], "fs/btrfs/messages.c: btrfs_err"),
    error(&["btrfs: error (device "], "fs/btrfs/messages.c: __btrfs_handle_fs_error"),
    error(&["nfs: server ", " not responding"], "net/sunrpc/clnt.c: rpc_check_timeout"),
    error(&["cifs: vfs: ", " has not responded in "], "fs/smb/client/connect.c: server_unresponsive"),
];

/// Words that name parts of the kernel about storage: a message that holds one counts from the level of a warning on.
const SUBSYSTEMS: [&str; 15] = [
    "i/o error",
    "buffer i/o",
    "blk_",
    "mmcblk",
    "nvme",
    "scsi",
    "sata",
    "pata_",
    "megaraid",
    "aacraid",
    "multipath",
    "device-mapper",
    "ext4",
    "btrfs",
    "virtio_blk",
];
/// Names of subsystems so short that other words hold them (data, preempt, amd/): they count where a word begins, and
/// those of letters and digits alone where no letter follows (`ata1.00`).
const SUBSYSTEM_WORDS: [&str; 16] = [
    "ata", "libata", "sd ", "md/", "dm-", "mpt2sas", "mpt3sas", "mptbase", "mptsas", "mptspi", "raid",
    "jbd2", "xfs", "zfs", "nfs", "nfsd",
];
/// Level of the kernel for "error"; higher numbers matter less.
const ERROR: u32 = 3;
const WARNING: u32 = 4;

/// Judges a kernel message: storage failed (error) or may have (warning), and the source file of Linux that writes it
/// if the table knows it; `None` if the message is not about storage.
pub fn judge(level: u32, text: &str) -> Option<(Severity, Option<&'static str>)> {
    let text = text.to_lowercase();
    if let Some(message) = MESSAGES.iter().find(|message| message.fits(&text)) {
        return Some((message.severity, Some(message.source)));
    }
    let about_storage = SUBSYSTEMS.iter().any(|part| text.contains(part))
        || SUBSYSTEM_WORDS.iter().any(|word| word_at(&text, word));
    let of_level = if level <= ERROR { Severity::Error } else { Severity::Warning };
    (about_storage && level <= WARNING).then_some((of_level, None))
}

impl Message {
    fn fits(&self, text: &str) -> bool {
        let (first, others) = self.says.split_first().expect("a message says something");
        let begins = |at: usize| !text[..at].ends_with(char::is_alphanumeric);
        text.match_indices(first).any(|(at, _)| {
            let mut rest = &text[at + first.len()..];
            begins(at)
                && others.iter().all(|part| match rest.split_once(part) {
                    Some((_, after)) => {
                        rest = after;
                        true
                    }
                    None => false,
                })
        })
    }
}

/// Whether a text has this word, and not only a longer one that begins or ends with it.
pub fn word_at(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let begins = !text[..at].ends_with(char::is_alphanumeric);
        let goes_on = text[at + word.len()..].starts_with(char::is_alphabetic);
        begins && !(goes_on && word.ends_with(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERR: u32 = ERROR;
    const WARN: u32 = WARNING;
    const NOTICE: u32 = 5;
    const INFO: u32 = 6;

    /// Messages as the kernel logs them, with their levels; each is an error, or a warning.
    const LOGGED: [(u32, &str, Severity); 79] = [
        (
            ERR,
            "operation not supported error, dev loop0, sector 0 op 0x9:(WRITE_ZEROES) flags 0x8000800",
            Severity::Warning,
        ),
        (
            ERR,
            "nonblocking retry error, dev nvme0n1, sector 1 op 0x1:(WRITE) flags 0x8800",
            Severity::Warning,
        ),
        (ERR, "kernel resource error, dev sda, sector 1 op 0x1:(WRITE) flags 0x8800", Severity::Warning),
        (ERR, "device resource error, dev sda, sector 1 op 0x1:(WRITE) flags 0x8800", Severity::Warning),
        (ERR, "dm internal retry error, dev dm-1, sector 1 op 0x1:(WRITE) flags 0x8800", Severity::Warning),
        (
            ERR,
            "timeout error, dev sdb, sector 9920 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            Severity::Error,
        ),
        (
            ERR,
            "critical space allocation error, dev loop1, sector 131072 op 0x1:(WRITE) flags 0x8800",
            Severity::Error,
        ),
        (
            ERR,
            "recoverable transport error, dev sdc, sector 40960 op 0x1:(WRITE) flags 0x4200",
            Severity::Error,
        ),
        (
            ERR,
            "blk_update_request: critical target error, dev sdd, sector 2048 op 0x3:(DISCARD)",
            Severity::Error,
        ),
        (ERR, "critical target error, dev sdd, sector 2048 op 0x0:(READ) flags 0x80700", Severity::Error),
        (ERR, "blk_update_request: critical nexus error, dev sdd, sector 128", Severity::Error),
        (ERR, "reservation conflict error, dev sdd, sector 128 op 0x1:(WRITE) flags 0x0", Severity::Error),
        (
            ERR,
            "critical medium error, dev sda, sector 1953514496 op 0x0:(READ) flags 0x80700",
            Severity::Error,
        ),
        (ERR, "protection error, dev nvme0n1, sector 64 op 0x0:(READ) flags 0x0", Severity::Error),
        (ERR, "device offline error, dev sde, sector 8 op 0x1:(WRITE) flags 0x800", Severity::Error),
        (ERR, "duration limit exceeded error, dev sde, sector 8 op 0x0:(READ) flags 0x0", Severity::Error),
        (ERR, "invalid error, dev nvme1n1, sector 8 op 0x1:(WRITE) flags 0x0", Severity::Error),
        (ERR, "I/O error, dev vda, sector 4196352 op 0x1:(WRITE) flags 0x8800 phys_seg 64", Severity::Error),
        (ERR, "blk_update_request: I/O error, dev sdb, sector 4096", Severity::Error),
        (ERR, "end_request: I/O error, dev sdb, sector 4096", Severity::Error),
        (INFO, "fio: attempt to access beyond end of device\nsda: rw=1, want=9, limit=8", Severity::Error),
        (ERR, "Buffer I/O error on dev sda1, logical block 488378640, async page read", Severity::Error),
        (ERR, "lost page write due to I/O error on sda1", Severity::Error),
        (ERR, "Buffer I/O error on device dm-3, logical block 7, lost async page write", Severity::Error),
        (ERR, "dm-3: lost async page write", Severity::Error),
        (ERR, "dm-3: lost sync page write", Severity::Error),
        (
            2,
            "Page cache invalidation failure on direct I/O.  Possible data corruption due to collision",
            Severity::Error,
        ),
        (ERR, "INFO: task jbd2/sda1-8:411 blocked for more than 120 seconds.", Severity::Error),
        (ERR, "sd 2:0:0:0: rejecting I/O to offline device", Severity::Error),
        (ERR, "sd 2:0:0:0: rejecting I/O to dead device", Severity::Error),
        (INFO, "sd 2:0:0:0: Device offlined - not ready after error recovery", Severity::Error),
        (ERR, "sd 2:0:0:0: [sdb] tag#3 timing out command, waited 180s", Severity::Error),
        (
            NOTICE,
            "sd 2:0:0:0: [sdb] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT",
            Severity::Error,
        ),
        (
            INFO,
            "sd 2:0:0:0: [sdb] tag#3 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK",
            Severity::Error,
        ),
        (INFO, "sd 2:0:0:0: [sdb] tag#3 Sense Key : Medium Error [current]", Severity::Error),
        (INFO, "sd 2:0:0:0: [sdb] tag#3 Sense Key : Hardware Error [current]", Severity::Error),
        (INFO, "sd 2:0:0:0: [sdb] tag#3 Sense Key : Aborted Command [current]", Severity::Error),
        (WARN, "sd 2:0:0:0: Power-on or device reset occurred", Severity::Warning),
        (ERR, "ata1.00: exception Emask 0x0 SAct 0x8000 SErr 0x0 action 0x6 frozen", Severity::Error),
        (ERR, "ata1.00: failed command: READ FPDMA QUEUED", Severity::Error),
        (INFO, "ata1: hard resetting link", Severity::Warning),
        (
            ERR,
            " rport-2:0-1: blocked FC remote port time out: removing target and saving binding",
            Severity::Error,
        ),
        (INFO, " connection1:0: detected conn error (1020)", Severity::Error),
        (INFO, " session1: session recovery timed out after 120 secs", Severity::Error),
        (WARN, "nvme nvme0: I/O 12 QID 3 timeout, aborting", Severity::Error),
        (
            WARN,
            "nvme nvme0: I/O tag 12 (100c) opcode 0x1 (I/O Cmd) QID 3 timeout, aborting req_op:WRITE(1)",
            Severity::Error,
        ),
        (WARN, "nvme nvme0: I/O 12 QID 3 timeout, reset controller", Severity::Error),
        (WARN, "nvme nvme0: I/O 12 QID 0 timeout, disable controller", Severity::Error),
        (WARN, "nvme nvme0: I/O 12 QID 3 timeout, completion polled", Severity::Error),
        (
            WARN,
            "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
            Severity::Error,
        ),
        (ERR, "nvme nvme0: Device not ready; aborting reset, CSTS=0x1", Severity::Error),
        (
            ERR,
            "nvme0n1: Read(0x2) @ LBA 4096, 8 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) DNR",
            Severity::Error,
        ),
        (WARN, "nvme nvme1: starting error recovery", Severity::Error),
        (WARN, "device-mapper: multipath: 253:0: Failing path 8:16.", Severity::Error),
        (WARN, "device-mapper: multipath: Failing path 8:16.", Severity::Error),
        (
            ERR,
            "device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode",
            Severity::Error,
        ),
        (ERR, "device-mapper: thin: 253:4: switching pool to read-only mode", Severity::Error),
        (
            WARN,
            "device-mapper: thin: 253:4: reached low water mark for data device: sending event.",
            Severity::Warning,
        ),
        (2, "md/raid1:md0: Disk failure on sdb1, disabling device.", Severity::Error),
        (WARN, "md/raid:md0: read error not correctable (sector 1024 on sdb1).", Severity::Error),
        (INFO, "md/raid1:md0: read error corrected (8 sectors at 2048 on sdb1)", Severity::Warning),
        (ERR, "block nbd0: Connection timed out, retrying (0/2 alive)", Severity::Error),
        (ERR, "block nbd0: Other side returned error (5)", Severity::Error),
        (
            2,
            "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory",
            Severity::Error,
        ),
        (2, "EXT4-fs (sda1): Remounting filesystem read-only", Severity::Error),
        (2, "EXT4-fs (sdb1): This should not happen!! Data will be lost", Severity::Error),
        (ERR, "Aborting journal on device sda1-8.", Severity::Error),
        (ERR, "JBD2: Detected IO errors while flushing file data on sda1-8", Severity::Error),
        (1, "XFS (dm-0): Metadata corruption detected at xfs_agf_read_verify+0x5a/0x120", Severity::Error),
        (1, "XFS (dm-0): metadata I/O error in \"xfs_trans_read_buf_map\" at daddr 0x1", Severity::Error),
        (1, "XFS (dm-0): log I/O error -5", Severity::Error),
        (
            ERR,
            "BTRFS error (device sda1): bdev /dev/sda1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
            Severity::Error,
        ),
        (
            2,
            "BTRFS: error (device sda1) in btrfs_commit_transaction:2279: errno=-5 IO failure",
            Severity::Error,
        ),
        (NOTICE, "nfs: server filer not responding, still trying", Severity::Error),
        (ERR, "CIFS: VFS: \\\\filer has not responded in 180 seconds. Reconnecting...", Severity::Error),
        // Not in the table: the part of the kernel and the level decide.
        (WARN, "ata2: SError: { PHYRdyChg }", Severity::Warning),
        (
            WARN,
            "mpt3sas_cm0: log_info(0x31110e03): originator(PL), code(0x11), sub_code(0x0e03)",
            Severity::Warning,
        ),
        (WARN, "ahci 0000:00:1f.2: SATA link is slow to respond", Severity::Warning),
        (ERR, "virtio_blk virtio1: probe failed", Severity::Error),
    ];

    /// Messages that say nothing bad about storage.
    const NOT_MEANT: [(u32, &str); 18] = [
        (INFO, "EXT4-fs (sda1): mounted filesystem with ordered data mode"),
        (INFO, "nvme0n1: detected capacity change from 0 to 1000215216"),
        (INFO, "sd 2:0:0:0: [sdb] Attached SCSI disk"),
        (INFO, "sd 2:0:0:0: [sdb] Write cache: enabled, read cache: enabled"),
        (INFO, "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)"),
        (INFO, "md/raid1:md0: active with 2 out of 2 mirrors"),
        (INFO, "XFS (dm-0): Ending clean mount"),
        (NOTICE, "nfs: server filer OK"),
        (INFO, "loop1: detected capacity change from 0 to 262144"),
        (WARN, "e1000e 0000:00:19.0 eth0: bad data in the receive ring"),
        (WARN, "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks"),
        (WARN, "WARNING: CPU: 3 PID: 812 at drivers/gpu/drm/amd/amdgpu/amdgpu_device.c:1512"),
        (ERR, "[drm:dm_helpers_parse_edid_caps] invalid EDID"),
        (WARN, "MPTCP: no subflow is left"),
        (WARN, "systemd/1: attempted to use an empty node"),
        (WARN, "usb 1-1: device descriptor read error"),
        (ERR, "Bluetooth: hci0: command 0x0c03 tx timeout"),
        (ERR, "e1000e 0000:00:19.0 eth0: NETDEV WATCHDOG: transmit queue 0 timed out"),
    ];

    #[test]
    fn every_message_of_the_table_is_judged_by_its_entry() {
        for (level, text, expected) in LOGGED {
            let judged = judge(level, text);
            assert_eq!(judged.map(|(severity, _)| severity), Some(expected), "{text}: {judged:?}");
        }
        for message in &MESSAGES {
            let decides = |text: &str| {
                let first = MESSAGES.iter().find(|other| other.fits(&text.to_lowercase()));
                first.is_some_and(|first| first.says == message.says)
            };
            let shown = LOGGED.iter().any(|(_, text, _)| decides(text));
            assert!(shown, "no example reaches the entry {:?} ({})", message.says, message.source);
        }
    }

    #[test]
    fn messages_about_other_things_or_of_success_do_not_matter() {
        for (level, text) in NOT_MEANT {
            assert_eq!(judge(level, text), None, "{text}");
        }
    }
}
