-- run.db, version 1. What each table and column means: docs/run-db.md.
CREATE TABLE run (
    id TEXT NOT NULL PRIMARY KEY, solution TEXT NOT NULL, solution_text TEXT NOT NULL, started_unix_ms INTEGER NOT NULL,
    tool_version TEXT NOT NULL, world TEXT NOT NULL, world_detail TEXT NOT NULL, seed TEXT NOT NULL,
    ended_ms INTEGER, ending TEXT
);
CREATE TABLE rule (
    name TEXT NOT NULL PRIMARY KEY, world TEXT NOT NULL, unit TEXT NOT NULL, least REAL, most REAL,
    published_least REAL, published_most REAL
);
CREATE TABLE claim (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1), world TEXT NOT NULL, mailboxes REAL, iops_per_server REAL,
    failure TEXT, hosts TEXT NOT NULL, tests TEXT NOT NULL, iops_per_mailbox REAL, profile_iops_per_mailbox REAL,
    database_bytes REAL, doubts TEXT, storage TEXT, copies INTEGER, engine TEXT, day_mean_percent REAL
);
CREATE TABLE host (name TEXT NOT NULL PRIMARY KEY, world TEXT NOT NULL, description TEXT NOT NULL);
CREATE TABLE environment (
    host TEXT NOT NULL, world TEXT NOT NULL, area TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
    severity TEXT NOT NULL, note TEXT NOT NULL
);
CREATE TABLE instance (
    host TEXT NOT NULL, world TEXT NOT NULL, name TEXT NOT NULL, log_path TEXT NOT NULL, log_file_bytes INTEGER NOT NULL,
    cache_min_bytes INTEGER NOT NULL, cache_max_bytes INTEGER NOT NULL, PRIMARY KEY (host, name)
);
CREATE TABLE database (
    host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, name TEXT, path TEXT NOT NULL,
    page_bytes INTEGER NOT NULL, PRIMARY KEY (host, instance, name)
);
CREATE TABLE volume (
    host TEXT NOT NULL, world TEXT NOT NULL, name TEXT NOT NULL, path TEXT NOT NULL, PRIMARY KEY (host, name)
);
CREATE TABLE test (
    ordinal INTEGER NOT NULL PRIMARY KEY, world TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    started_ms INTEGER NOT NULL, ended_ms INTEGER, window_start_ms INTEGER, window_end_ms INTEGER,
    window_planned_ms INTEGER, sample_ms INTEGER NOT NULL, sessions INTEGER, target_iops REAL,
    target_batches_per_s REAL, copies INTEGER NOT NULL, parameters TEXT NOT NULL, iops_per_mailbox REAL,
    limits TEXT, day TEXT
);
CREATE TABLE database_size (
    test INTEGER NOT NULL, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, database TEXT,
    bytes_before INTEGER NOT NULL, bytes_after INTEGER, PRIMARY KEY (test, host, instance, database)
);
CREATE TABLE source (
    id INTEGER NOT NULL PRIMARY KEY, test INTEGER NOT NULL, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT,
    database TEXT, measure TEXT NOT NULL
);
CREATE TABLE series (
    source INTEGER NOT NULL, minute INTEGER NOT NULL, samples BLOB NOT NULL, PRIMARY KEY (source, minute)
) WITHOUT ROWID;
CREATE TABLE histogram (
    source INTEGER NOT NULL, t_ms INTEGER NOT NULL, interval_ms INTEGER NOT NULL, latency_ns_max INTEGER NOT NULL,
    hdr_v2 BLOB NOT NULL
);
CREATE INDEX histogram_source ON histogram (source);
CREATE TABLE tuning_step (
    test INTEGER NOT NULL, world TEXT NOT NULL, ordinal INTEGER NOT NULL, load TEXT NOT NULL, iops REAL NOT NULL,
    read_latency_ms REAL NOT NULL, log_write_latency_ms REAL NOT NULL, outcome TEXT NOT NULL, note TEXT NOT NULL
);
CREATE TABLE checksum (
    test INTEGER NOT NULL, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, database TEXT,
    files INTEGER NOT NULL, pages INTEGER NOT NULL, uninitialised_pages INTEGER NOT NULL, bad_pages INTEGER NOT NULL,
    correctable_pages INTEGER NOT NULL, wrong_number_pages INTEGER NOT NULL, bytes INTEGER NOT NULL,
    elapsed_ms INTEGER NOT NULL, bytes_expected INTEGER
);
CREATE TABLE backup (
    test INTEGER NOT NULL, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, database TEXT,
    destination TEXT, bytes INTEGER NOT NULL, elapsed_ms INTEGER NOT NULL, bytes_expected INTEGER
);
CREATE TABLE recovery (
    test INTEGER NOT NULL, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, database TEXT,
    logs INTEGER NOT NULL, elapsed_ms INTEGER NOT NULL,
    segments_corrected INTEGER, segments_given_up INTEGER, segments_unexplained INTEGER, page_changes INTEGER,
    pages_repaired INTEGER, transactions_undone INTEGER, branches TEXT
);
CREATE TABLE storage_part (
    test INTEGER NOT NULL, world TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, seconds REAL NOT NULL,
    busy_share REAL NOT NULL, queue_mean REAL, reads INTEGER NOT NULL, writes INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL, write_bytes INTEGER NOT NULL, read_latency_ms REAL,
    write_latency_ms REAL, cache_hits INTEGER NOT NULL, cache_misses INTEGER NOT NULL,
    cache_waits INTEGER NOT NULL, cache_dirty_bytes_max INTEGER NOT NULL, state TEXT NOT NULL
);
CREATE TABLE event (
    t_ms INTEGER NOT NULL, severity TEXT NOT NULL, test INTEGER, host TEXT NOT NULL, world TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE TABLE verdict (
    test INTEGER, host TEXT NOT NULL, world TEXT NOT NULL, instance TEXT, database TEXT, rule TEXT NOT NULL,
    text TEXT NOT NULL, measured REAL, threshold REAL, comparison TEXT NOT NULL, unit TEXT NOT NULL,
    outcome TEXT NOT NULL
);
CREATE TABLE seal (
    ordinal INTEGER NOT NULL PRIMARY KEY, test INTEGER, tables TEXT NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL,
    signer TEXT, signature TEXT
);
