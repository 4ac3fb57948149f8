"""The digests that say what a report was made from: of the rows in run.db, and of report.json in its page (docs/lint.md)."""

import hashlib

from compare import same


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def check(run, report):
    """The report names the last seal of run.db, and the chain leads up to it (docs/run-db.md, *Seals*)."""
    previous = ""
    for seal in sorted(run.table("seal"), key=lambda seal: seal["ordinal"]):
        of = "run" if seal["test"] is None else seal["test"]
        lines = ["proofload seal 1", seal["ordinal"], of, seal["tables"], seal["previous"]]
        same("seals: previous", previous, seal["previous"])
        same("seals: digest", sha256("".join(f"{line}\n" for line in lines)), seal["digest"])
        previous = seal["digest"]
    same("seals: report", previous or None, report["run"].get("seal"))


def page(report, json_text, page):
    """The page carries the digest of its report.json, and shows the seal that this names."""
    same("seals: page", sha256(json_text), page.metas.get("proofload-report"))
    seal = report["run"].get("seal")
    same("seals: shown", bool(seal), f"Seal of run.db: {seal}." in "".join(page.text))
