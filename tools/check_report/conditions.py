"""The conditions of a qualification (docs/verdict.md): the figure of each, from run.db and from figures compared before."""

import json
import math

from compare import same, same_fields
from rundb import COUNTERS

SHAPE = {
    "reads_per_batch": "Database page reads per batch",
    "writes_per_batch": "Database page writes per batch",
    "log_writes_per_batch": "Log writes per batch",
    "log_file_kib_per_batch": "Log files per batch",
}
STEADY = {
    "throughput_change_percent": "iops_change_max",
    "write_change_percent": "writes_change_max",
    "latency_change_percent": "latency_change_max",
    "write_start_percent": "write_start",
}
# The table of docs/verdict.md, in its order.
NAMES = [
    "rules_percent", "load_tests", "target_set_percent", "target_met_percent", "worst_failure_percent",
    "claim_doubts", "iops_per_mailbox_percent", "latency_limits_percent", "performance_window_s", "stress_window_s", "window_percent",
    "cache_ratio", "database_size_percent", "cache_filled_percent", "maintained_percent", "reads_per_batch",
    "writes_per_batch", "log_writes_per_batch", "log_file_kib_per_batch", "throughput_change_percent",
    "write_change_percent", "write_start_percent", "latency_change_percent", "equal_hosts_percent", "starved_percent",
    "tests", "verified_percent", "coverage_percent", "logs_verified_percent", "verified_logs", "recovered_logs",
    "hosts_percent", "undeclared_sharing", "unbuffered_percent", "on_storage_percent", "evidence_apart_percent",
    "kernel_log_percent", "excused_limits", "errors",
]
OF_LOADS = NAMES[NAMES.index("target_set_percent"):NAMES.index("tests")]
PROGRAMME = ["performance", "stress", "database_checksum", "log_checksum", "backup", "soft_recovery"]
HOLDS = {"at_most": lambda m, l: m <= l, "below": lambda m, l: m < l, "at_least": lambda m, l: m >= l}


def is_excused(verdict):
    """Whether a scheduled fault broke the limit of this verdict of a report, which is why it is not judged."""
    measured, limit = verdict["measured"], verdict["limit"]
    known = measured is not None and limit is not None
    return verdict["outcome"] == "info" and known and not HOLDS[verdict["comparison"]](measured, limit)


def share(part, whole):
    return 100 * part / whole if whole else None


def lowest(values):
    values = list(values)
    return None if None in values or not values else min(values)


class Facts:
    """What the conditions ask of a run."""

    def __init__(self, run, report):
        self.run, self.report = run, report
        self.rules = {row["name"]: row for row in run.table("rule")}
        self.claim = next(iter(run.table("claim")), None)
        self.rows = {test["ordinal"]: test for test in run.tests}
        # A test that run.db does not have is found elsewhere.
        self.loads = [t for t in report["tests"] if t["kind"] in ("performance", "stress") and t["throughput"]
                      and t["ordinal"] in self.rows]
        targets = {t["ordinal"]: self.rows[t["ordinal"]]["target_iops"] for t in self.loads}
        self.targets = {ordinal: target for ordinal, target in targets.items() if target}
        self.caches = {(i["host"], i["name"]): i["cache_max_bytes"] for i in run.instances}
        measured = [self.hosts_of(t["ordinal"]) for t in self.loads]
        self.present = set.intersection(*measured) if measured else set().union(
            *(self.hosts_of(test["ordinal"]) for test in run.tests))

    def hosts_of(self, ordinal):
        return {s["host"] for s in self.run.sources if s["test"] == ordinal and s["measure"] not in COUNTERS}

    def applies(self, name):
        """Whether there is anything in the run that the condition is about."""
        about = {
            "target_met_percent": self.targets,
            "worst_failure_percent": self.targets and self.claim and self.claim["iops_per_server"],
            "iops_per_mailbox_percent": self.claim and self.claim.get("profile_iops_per_mailbox")
            and self.claim["iops_per_mailbox"] is not None,
            "database_size_percent": self.claim and self.claim.get("database_bytes"),
            "verified_logs": self.caches,
            "recovered_logs": self.run.table("recovery"),
            "performance_window_s": any(t["kind"] == "performance" for t in self.loads),
            "stress_window_s": any(t["kind"] == "stress" for t in self.loads),
            "coverage_percent": any(row["database"] is not None for row in self.run.table("checksum")),
            "equal_hosts_percent": any(self.unequal(t) is not None for t in self.loads),
            "starved_percent": self.run.run["world"] == "real",
            "undeclared_sharing": self.run.run["world"] == "real",
            "unbuffered_percent": self.run.run["world"] == "real",
            "on_storage_percent": self.run.run["world"] == "real",
            "evidence_apart_percent": self.run.run["world"] == "real",
            "kernel_log_percent": self.run.run["world"] == "real",
        }
        return bool(about.get(name, True) and (self.loads or name not in OF_LOADS))

    def rules_recorded(self):
        return share(sum(1 for name in NAMES if name in self.rules) if self.claim else 0, len(NAMES))

    def window_s(self, kind, least):
        length = lowest(t["window"]["duration_s"] for t in self.loads if t["kind"] == kind)
        is_rounded = length is not None and least is not None and length < least and least - length < 0.5
        return round(length) if is_rounded else length

    def window_share(self):
        shares = []
        for test in self.loads:
            length, planned = test["window"]["duration_s"], test["window"]["planned_s"]
            whole = planned is not None and planned - length < 0.5
            shares.append(100.0 if whole else 100 * length / planned if planned else None)
        return lowest(shares)

    def worst_failure(self):
        servers = len(self.present)
        figure = lowest(100 * target / servers / self.claim["iops_per_server"] for target in self.targets.values()) \
            if self.claim and self.claim["iops_per_server"] and servers else None
        return 100.0 if figure is not None and 99 <= figure < 100 else figure

    def doubts(self):
        return len(json.loads((self.claim or {}).get("doubts") or "[]"))

    def database_size(self):
        ordinals = {t["ordinal"] for t in self.loads}
        sizes = [s["bytes_before"] for s in self.run.table("database_size") if s["test"] in ordinals]
        return 100 * min(sizes) / self.claim["database_bytes"] if sizes else None

    def verified_logs(self):
        files = {place: 0 for place in self.caches}
        for row in self.run.table("checksum"):
            place = (row["host"], row["instance"])
            if row["database"] is None and place in files:
                files[place] = max(files[place], row["files"])
        return lowest(files.values())

    def cache_ratio(self):
        ordinals = {t["ordinal"] for t in self.loads}
        ratios = []
        for place, cache in self.caches.items():
            own = [s for s in self.run.table("database_size")
                   if (s["host"], s["instance"]) == place and s["test"] in ordinals]
            first = [s["bytes_before"] for s in own if s["test"] == min(o["test"] for o in own)]
            ratios.append(sum(first) / cache if first and cache else None)
        return lowest(ratios)

    def cache_filled(self):
        shares = []
        for test in self.loads:
            opened = self.rows[test["ordinal"]]["window_start_ms"]
            for place, cache in self.caches.items():
                wanted = (test["ordinal"], *place, None, "cache_bytes")
                points = [p for s in self.run.sources for p in s["points"]
                          if (s["test"], s["host"], s["instance"], s["database"], s["measure"]) == wanted]
                nearest = min(points, key=lambda p: abs(p.t_ms + p.interval_ms - opened), default=None)
                shares.append(100 * nearest.value / max(cache, 1) if nearest else None)
        return lowest(shares)

    def latency_limits(self):
        shares = []
        for test in self.loads:
            limits = json.loads(self.rows[test["ordinal"]].get("limits") or "[]")
            known = [100 * limit["value"] / limit["published"] for limit in limits if limit.get("published")]
            shares.append(max(known) if known else None)
        return None if None in shares or not shares else max(shares)

    def maintained(self):
        databases = {(d["host"], d["instance"], d["name"]) for d in self.run.databases}
        shares = []
        for test in self.loads:
            row = self.rows[test["ordinal"]]
            start, end = row["window_start_ms"], row["window_end_ms"]
            if start is None or end is None:
                return None
            read = {(s["host"], s["instance"], s["database"]) for s in self.run.sources
                    if s["test"] == test["ordinal"] and s["measure"] == "maintenance_read"
                    and sum(p.count for p in s["points"] if start <= p.t_ms < end) >= 8.46 * 0.9 * (end - start) / 1000}
            shares.append(share(len(read & databases), len(databases)))
        return lowest(shares)

    def furthest(self, name, low, high):
        """Of the load tests the figure that lies furthest outside of the range."""
        values = []
        for test in self.loads:
            if name in SHAPE:
                values.append(next((r["measured"] for r in test["load_shape"] if r["name"] == SHAPE[name]), None))
            else:
                value = test["steadiness"] and test["steadiness"][STEADY[name]]
                values.append(None if value is None else 100 * value)
        if None in values or not values:
            return None
        return max(values, key=lambda v: max(-math.inf if low is None else low - v, -math.inf if high is None else v - high))

    def tests_done(self):
        wanted = json.loads(self.claim["tests"]) if self.claim else PROGRAMME
        done = {t["kind"] for t in self.run.tests if t["ended_ms"] is not None}
        return sum(1 for kind in wanted if kind in done or kind == "backup" and "backup_to_disk" in done)

    def verified(self):
        last = max((t["ordinal"] for t in self.loads), default=0)
        done = {t["ordinal"] for t in self.run.tests if t["kind"] == "database_checksum" and t["ended_ms"] is not None}
        seen = {(c["host"], c["instance"], c["database"]) for c in self.run.table("checksum")
                if c["test"] > last and c["test"] in done}
        databases = {(d["host"], d["instance"], d["name"]) for d in self.run.databases}
        return share(len(seen & databases), len(databases))

    def coverage(self):
        shares = []
        for row in self.run.table("checksum"):
            if row["database"] is not None:
                there = row.get("bytes_expected")
                shares.append(100 * min(1, row["bytes"] / there) if there else None)
        return lowest(shares)

    def logs_verified(self):
        seen = {(c["host"], c["instance"]) for c in self.run.table("checksum") if c["database"] is None and c["files"] > 0}
        return share(len(seen & set(self.caches)), len(self.caches))

    def hosts(self):
        names = [row["name"] for row in self.run.table("host")]
        wanted = json.loads(self.claim["hosts"]) if self.claim else names
        return share(sum(1 for host in wanted if host in self.present), len(wanted))

    def unequal(self, test):
        """The slowest of hosts with equal instances and databases, in percent of the fastest."""
        groups = {}
        for host in [row["name"] for row in self.run.table("host")]:
            own = (sorted((i["log_file_bytes"], i["cache_max_bytes"]) for i in self.run.instances if i["host"] == host),
                   sorted(d["page_bytes"] for d in self.run.databases if d["host"] == host))
            rate = sum(row["figures"]["per_s"] for row in test["hosts"] if row["host"] == host
                       and row["measure"] in ("transactional_read", "transactional_write"))
            if own[0]:
                groups.setdefault(str(own), []).append(rate)
        alike = [group for group in groups.values() if len(group) > 1 and max(group) > 0]
        return min((100 * min(group) / max(group) for group in alike), default=None)

    def starved(self):
        kept = ("Load generator, late", "Some task of the host waits for a processor",
                "Processors of the host, taken by other guests")
        most = [max((r["mean"] for r in t["host_system"] if r["name"] in kept), default=None) for t in self.loads]
        return None if None in most or not most else max(most)

    def undeclared_sharing(self):
        """Machines, file systems, exports and disks that several hosts name, without a row that declares it."""
        rows = self.run.table("environment")
        system = [e for e in rows if e["area"] == "System" and e["value"] != "not readable"]
        machines = {e["host"]: e["value"] for name in ("Machine id", "Boot id") for e in system if e["name"] == name}
        users = {}
        for host, machine in machines.items():
            users.setdefault((machine, ""), set()).add((host, ""))
        for e in rows:
            if e["name"] == "Identity" and e["area"].startswith("Volume "):
                everywhere = e["value"].startswith(("export ", "disk naa.", "disk eui.", "disk t10.", "disk uuid."))
                if everywhere or e["host"] in machines:
                    part = ("" if everywhere else machines[e["host"]], e["value"])
                    users.setdefault(part, set()).add((e["host"], e["area"]))
        shared = {part: of for part, of in users.items() if len({host for host, _ in of}) > 1}
        above = [of for (_, what), of in shared.items() if not what.startswith("disk ")]
        news = [part for part, of in shared.items() if not part[1].startswith("disk ") or not any(of <= a for a in above)]
        declared = {e["value"] for e in rows if e["area"] == "Shared by hosts" and e["severity"] == "info"}
        return len(news) - sum(1 for _, what in news if what and any(text.endswith(f" share the {what}") for text in declared))

    def unbuffered(self):
        good = {c["host"] for c in self.report["checks"] if c["name"] == "Unbuffered I/O" and c["outcome"] == "good"}
        names = [row["name"] for row in self.run.table("host")]
        return share(sum(1 for host in names if host in good), len(names))

    def volumes_without(self, name):
        known = {(e["host"], e["area"]) for e in self.run.table("environment")
                 if e["name"] == name and e["value"] == "no" and e["severity"] == "info"}
        return share(sum(1 for v in self.run.volumes if (v["host"], f"Volume {v['name']}") in known), len(self.run.volumes))

    def kernel_log(self):
        said = {}
        for row in self.run.table("environment"):
            if (row["area"], row["name"]) == ("After the tests", "Kernel log"):
                said.setdefault(row["host"], []).append(row["value"])
        gone = ("part of the kernel log was overwritten", "not readable")
        names = [row["name"] for row in self.run.table("host")]
        whole = [host for host in names if said.get(host) and not any(value.startswith(gone) for value in said[host])]
        return share(len(whole), len(names))

    def excused(self):
        info = self.run.rows("SELECT * FROM verdict WHERE outcome = 'info'")
        return sum(1 for v in info if v["measured"] is not None and v["threshold"] is not None
                   and not HOLDS[v["comparison"]](v["measured"], v["threshold"]))

    def errors(self):
        noted = [e for e in self.run.table("environment") if e["severity"] == "error"
                 and not (e["area"].startswith("Volume ") and e["name"] == "Storage is memory")]
        return len(noted) + len(self.run.rows("SELECT * FROM event WHERE severity = 'error'"))

    def figure(self, name, least, most):
        iops = {t["ordinal"]: t["throughput"]["transactional_iops"] for t in self.loads}
        figures = {
            "rules_percent": self.rules_recorded,
            "load_tests": lambda: len(self.loads),
            "target_set_percent": lambda: share(len(self.targets), len(self.loads)),
            "target_met_percent": lambda: lowest(100 * iops[ordinal] / target for ordinal, target in self.targets.items()),
            "worst_failure_percent": self.worst_failure,
            "claim_doubts": self.doubts,
            "iops_per_mailbox_percent":
                lambda: 100 * self.claim["iops_per_mailbox"] / self.claim["profile_iops_per_mailbox"],
            "database_size_percent": self.database_size,
            "verified_logs": self.verified_logs,
            "recovered_logs": lambda: lowest(row["logs"] for row in self.run.table("recovery")),
            "latency_limits_percent": self.latency_limits,
            "maintained_percent": self.maintained,
            "performance_window_s": lambda: self.window_s("performance", least),
            "stress_window_s": lambda: self.window_s("stress", least),
            "window_percent": self.window_share,
            "cache_ratio": self.cache_ratio,
            "cache_filled_percent": self.cache_filled,
            "tests": self.tests_done,
            "verified_percent": self.verified,
            "coverage_percent": self.coverage,
            "logs_verified_percent": self.logs_verified,
            "hosts_percent": self.hosts,
            "equal_hosts_percent": lambda: lowest(u for u in map(self.unequal, self.loads) if u is not None),
            "starved_percent": self.starved,
            "undeclared_sharing": self.undeclared_sharing,
            "unbuffered_percent": self.unbuffered,
            "on_storage_percent": lambda: self.volumes_without("Storage is memory"),
            "evidence_apart_percent": lambda: self.volumes_without("Holds the evidence"),
            "kernel_log_percent": self.kernel_log,
            "excused_limits": self.excused,
            "errors": self.errors,
        }
        if name in SHAPE or name in STEADY:
            return self.furthest(name, least, most)
        return figures[name]() if name in figures else None


def check(run, report):
    facts = Facts(run, report)
    told = [condition["name"] for condition in report["verdict"]["conditions"]]
    same("conditions: which", [name for name in NAMES if facts.applies(name)], told)
    for condition in report["verdict"]["conditions"]:
        name, rule = condition["name"], facts.rules.get(condition["name"])
        if rule:
            fields = ["unit", "least", "most", "published_least", "published_most"]
            same_fields(f"conditions: {name}", {key: rule[key] for key in fields}, condition)
        least, most = condition["least"], condition["most"]
        value = condition["measured"]
        same(f"conditions: {name}", facts.figure(name, least, most), value)
        met = (value is not None and (least is not None or most is not None) and (least is None or value >= least)
               and (most is None or value <= most))
        same_fields(f"conditions: {name}", {"met": met, "weaker": weaker(condition)}, condition)


def weaker(condition):
    """Whether the range lets a figure pass that the published one does not; where none is published, any range does."""
    least, most = condition["least"], condition["most"]
    low, high = condition["published_least"], condition["published_most"]
    if low is None and high is None:
        return least is not None or most is not None
    return low is not None and (least is None or least < low) or high is not None and (most is None or most > high)


def grade(complete, failed, report):
    """The grade of a run whose rules have been judged, and the outcome by its name of before."""
    qualifies = all(condition["met"] for condition in report["verdict"]["conditions"])
    name = "failed" if failed else "incomplete" if not complete else "qualified" if qualifies else "held"
    return name, {"failed": "fail", "incomplete": "incomplete"}.get(name, "pass")
