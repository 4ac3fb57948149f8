//! Why a database of a drill stays without service, in words: a rule that the solution file chose is named.

use std::collections::BTreeSet;

use replication::{DatabaseSpec, Dial, WhyDismounted};

/// Note that no copy of a database is activated, and why. With `partner = "same_site"` every acknowledged commit is
/// known to be in one site only, so the loss of that site keeps copies of other sites out.
pub fn stays_dismounted(name: &str, spec: &DatabaseSpec, why: WhyDismounted) -> String {
    let sites: BTreeSet<_> = spec.copies.iter().map(|copy| copy.site).collect();
    let is_rule = why == WhyDismounted::NoProof
        && spec.dial == Dial::Lossless
        && !spec.partner_in_other_site
        && sites.len() > 1;
    let rule = "; partner = \"same_site\" forbids copies of another site to take over, because they may lack \
                acknowledged commits: bring the site back, or drill with partner = \"other_site\"";
    format!("{name} stays dismounted: {why}{}", if is_rule { rule } else { "" })
}

#[cfg(test)]
mod tests {
    use replication::SiteId;
    use testkit::solutions::SMALL_DRILL;

    use super::*;
    use crate::drill::fixture::planned;

    #[test]
    fn a_site_that_is_lost_with_the_partner_in_it_stays_lost_by_the_rule_which_is_said() {
        let mut spec = (*planned(SMALL_DRILL).topology.databases[0].spec).clone();
        let said = |spec: &DatabaseSpec, why| stays_dismounted("DB1", spec, why);
        assert!(!said(&spec, WhyDismounted::NoProof).contains("same_site"), "there is one site");
        spec.copies[1].site = SiteId(7);
        let text = said(&spec, WhyDismounted::NoProof);
        assert!(text.starts_with("DB1 stays dismounted: no copy that answers"), "{text}");
        assert!(
            text.contains("partner = \"same_site\" forbids copies of another site to take over"),
            "{text}"
        );
        assert!(!said(&spec, WhyDismounted::NoCandidate).contains("same_site"));
        spec.partner_in_other_site = true;
        assert!(!said(&spec, WhyDismounted::NoProof).contains("same_site"));
    }
}
